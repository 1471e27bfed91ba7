#include "runtime/memory/size_bins.hpp"

#include <algorithm>

#include "runtime/memory/aligned_room.hpp"

namespace vmem {

void SizeBins::cover(std::uint64_t largest) {
  const std::size_t num_bins = bin_of(largest) + 1;
  if (num_bins <= heads_.size()) return;
  std::size_t words = num_bins;
  for (auto& level : bits_) {
    words = words / 64 + 1;
    level.resize(std::max(level.size(), words), 0);
  }
  heads_.resize(num_bins, kNoNode);
}

std::size_t SizeBins::next_bin(std::size_t bin) const noexcept {
  // Up the levels until a word has a bit at or after the place, then down to the first bin under it.
  for (std::size_t level = 0; level < 3; ++level) {
    const std::size_t at = bin / 64;
    if (at >= bits_[level].size()) return kNoBin;
    const std::uint64_t word = bits_[level][at] & (~std::uint64_t{0} << (bin % 64));
    if (word == 0) {
      bin = at + 1;
      continue;
    }
    bin = at * 64 + static_cast<std::size_t>(std::countr_zero(word));
    while (level-- > 0) bin = bin * 64 + static_cast<std::size_t>(std::countr_zero(bits_[level][bin]));
    return bin;
  }
  return kNoBin;
}

std::size_t SizeBins::previous_bin(std::size_t bin) const noexcept {
  for (std::size_t level = 0; level < 3; ++level) {
    const std::size_t at = bin / 64;
    const std::uint64_t word = bits_[level][at] & (~std::uint64_t{0} >> (63 - bin % 64));
    if (word == 0) {
      if (at == 0) return kNoBin;
      bin = at - 1;
      continue;
    }
    bin = at * 64 + 63 - static_cast<std::size_t>(std::countl_zero(word));
    while (level-- > 0) bin = bin * 64 + 63 - static_cast<std::size_t>(std::countl_zero(bits_[level][bin]));
    return bin;
  }
  return kNoBin;
}

std::uint32_t SizeBins::best(const ExtentNodes& nodes, std::uint64_t size, std::uint64_t alignment) const noexcept {
  std::size_t bin = bin_of(size);
  if (bin >= heads_.size()) return kNoNode;
  for (bin = next_bin(bin); bin != kNoBin; bin = next_bin(bin + 1)) {
    if (alignment == 1 && holds_one_size(bin)) return heads_[bin];
    std::uint32_t best = kNoNode;
    for (std::uint32_t id = heads_[bin]; id != kNoNode; id = nodes[id].bin_next) {
      if (best != kNoNode && nodes[id].size >= nodes[best].size) continue;
      if (has_room(nodes[id], size, alignment)) best = id;
    }
    if (best != kNoNode) return best;
  }
  return kNoNode;
}

std::uint32_t SizeBins::worst(const ExtentNodes& nodes, std::uint64_t size, std::uint64_t alignment) const noexcept {
  if (heads_.empty()) return kNoNode;
  const std::size_t lowest = bin_of(size);
  for (std::size_t bin = previous_bin(heads_.size() - 1); bin != kNoBin && bin >= lowest;) {
    std::uint32_t worst = kNoNode;
    for (std::uint32_t id = heads_[bin]; id != kNoNode; id = nodes[id].bin_next) {
      if (worst != kNoNode && nodes[id].size <= nodes[worst].size) continue;
      if (has_room(nodes[id], size, alignment)) worst = id;
      if (worst != kNoNode && holds_one_size(bin)) break;
    }
    if (worst != kNoNode) return worst;
    if (bin == 0) break;
    bin = previous_bin(bin - 1);
  }
  return kNoNode;
}

}  // namespace vmem
