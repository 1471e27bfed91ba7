// What the parts of the extent allocator share: one record an extent, named by its 32-bit place in a vector.
#pragma once

#include <cstdint>
#include <vector>

namespace vmem {

inline constexpr std::uint32_t kNoNode = 0xFFFFFFFFU;
// Values of ExtentNode::bin_previous beside a neighbour in a bin: what the node is, if not free.
inline constexpr std::uint32_t kUsedNode = 0xFFFFFFFEU;
inline constexpr std::uint32_t kVacantNode = 0xFFFFFFFDU;
inline constexpr std::uint32_t kMaxNodes = 0xFFFFFFF0U;

// 32 bytes, so that a cache line holds two: the time of an operation is the misses on its neighbours.
struct ExtentNode {
  std::uint64_t offset = 0;          // in granules
  std::uint64_t size = 0;            // in granules
  std::uint32_t previous = kNoNode;  // by address
  std::uint32_t next = kNoNode;
  std::uint32_t bin_previous = kVacantNode;  // by size, while free
  std::uint32_t bin_next = kNoNode;          // also links the vacant nodes

  bool is_used() const noexcept { return bin_previous == kUsedNode; }
  bool is_vacant() const noexcept { return bin_previous == kVacantNode; }
  bool is_free() const noexcept { return !is_used() && !is_vacant(); }
};

using ExtentNodes = std::vector<ExtentNode>;

}  // namespace vmem
