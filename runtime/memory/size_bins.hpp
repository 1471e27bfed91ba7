// Free extents by size: the index of best and worst fit.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/memory/extent_node.hpp"

namespace vmem {

// STRUCTURE: two-level bins. The first level is the power of two, the second divides it into 1024, so a bin's sizes
// differ by less than a thousandth and every size under 2048 granules has a bin of its own. A bitmap of three levels
// finds the next bin that is not empty in at most five words. Bins are lists through the nodes; where sizes in a bin
// differ, the choice looks at all of them.
//
// Sizes are in granules. Nodes are the allocator's.
class SizeBins {
 public:
  // Sizes up to `largest` get bins. Never shrinks.
  void cover(std::uint64_t largest);

  void insert(ExtentNodes& nodes, std::uint32_t id) noexcept {
    ExtentNode& node = nodes[id];
    const std::size_t bin = bin_of(node.size);
    const std::uint32_t head = heads_[bin];
    node.bin_previous = kNoNode;
    node.bin_next = head;
    heads_[bin] = id;
    if (head != kNoNode) {
      nodes[head].bin_previous = id;
    } else {
      mark(bin);
    }
  }

  void remove(ExtentNodes& nodes, std::uint32_t id) noexcept {
    const ExtentNode& node = nodes[id];
    if (node.bin_next != kNoNode) nodes[node.bin_next].bin_previous = node.bin_previous;
    if (node.bin_previous != kNoNode) {
      nodes[node.bin_previous].bin_next = node.bin_next;
      return;
    }
    const std::size_t bin = bin_of(node.size);
    heads_[bin] = node.bin_next;
    if (node.bin_next == kNoNode) clear(bin);
  }

  // The smallest extent with room for `size` at the alignment (both in granules); kNoNode where there is none.
  std::uint32_t best(const ExtentNodes& nodes, std::uint64_t size, std::uint64_t alignment) const noexcept;
  // The largest one, if it has room; else the largest that has.
  std::uint32_t worst(const ExtentNodes& nodes, std::uint64_t size, std::uint64_t alignment) const noexcept;

 private:
  static constexpr unsigned kFineBits = 10;
  static constexpr std::size_t kNoBin = ~std::size_t{0};

  static std::size_t bin_of(std::uint64_t size) noexcept {
    if (size < (std::uint64_t{2} << kFineBits)) return static_cast<std::size_t>(size);
    const unsigned shift = static_cast<unsigned>(std::bit_width(size)) - 1 - kFineBits;
    return (static_cast<std::size_t>(shift) << kFineBits) + static_cast<std::size_t>(size >> shift);
  }
  static bool holds_one_size(std::size_t bin) noexcept { return bin < (std::size_t{2} << kFineBits); }

  void mark(std::size_t bin) noexcept;
  void clear(std::size_t bin) noexcept;
  // The first bin at or after `bin`, the last at or before it, that is not empty.
  std::size_t next_bin(std::size_t bin) const noexcept;
  std::size_t previous_bin(std::size_t bin) const noexcept;

  std::vector<std::uint32_t> heads_;
  // bits_[0] has a bit a bin; each further level a bit for every word below that is not 0.
  std::vector<std::uint64_t> bits_[3];
};

inline void SizeBins::mark(std::size_t bin) noexcept {
  for (auto& level : bits_) {
    std::uint64_t& word = level[bin / 64];
    const bool was_empty = word == 0;
    word |= std::uint64_t{1} << (bin % 64);
    if (!was_empty) return;
    bin /= 64;
  }
}

inline void SizeBins::clear(std::size_t bin) noexcept {
  for (auto& level : bits_) {
    std::uint64_t& word = level[bin / 64];
    word &= ~(std::uint64_t{1} << (bin % 64));
    if (word != 0) return;
    bin /= 64;
  }
}

}  // namespace vmem
