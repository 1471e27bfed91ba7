// Whether a free extent has room for an aligned range.
#pragma once

#include <cstdint>

#include "runtime/memory/extent_node.hpp"

namespace vmem {

// The first multiple of `alignment`, a power of two, at or after `offset`; below it where the sum wraps around.
inline std::uint64_t aligned_start(std::uint64_t offset, std::uint64_t alignment) noexcept {
  return (offset + alignment - 1) & ~(alignment - 1);
}

inline bool has_room(const ExtentNode& node, std::uint64_t size, std::uint64_t alignment) noexcept {
  if (node.size < size) return false;
  const std::uint64_t start = aligned_start(node.offset, alignment);
  // A start below the offset has wrapped around.
  return start >= node.offset && start - node.offset <= node.size - size;
}

}  // namespace vmem
