// Figures of fragmentation and their formulas.
#pragma once

#include <algorithm>
#include <cstddef>

#include "runtime/memory/extent_allocator.hpp"

namespace vmem {

// What the figures are made of, in bytes. Figures of several ranges add up (operator+=) before they are divided.
struct FragmentationFigures {
  std::size_t free_bytes = 0;
  std::size_t largest_free_bytes = 0;  // of one extent; of several ranges, the largest
  std::size_t num_free_extents = 0;
  std::size_t asked_bytes = 0;          // what users asked for and hold
  std::size_t reserved_bytes = 0;       // what is set aside for it, rounding included
  std::size_t peak_reserved_bytes = 0;  // the most that the range has had to be so far
  std::size_t peak_live_bytes = 0;      // the most that was held at a time so far

  // 1 - largest_free / free: 0 when all free bytes are one extent, towards 1 when they are dust. 0 where nothing is
  // free.
  double external() const noexcept {
    return free_bytes == 0 ? 0.0 : 1.0 - static_cast<double>(largest_free_bytes) / static_cast<double>(free_bytes);
  }
  // reserved - asked: bytes lost to rounding.
  std::size_t internal_waste_bytes() const noexcept { return reserved_bytes - std::min(asked_bytes, reserved_bytes); }
  // (reserved - asked) / reserved. 0 where nothing is reserved.
  double internal() const noexcept {
    return reserved_bytes == 0 ? 0.0
                               : static_cast<double>(internal_waste_bytes()) / static_cast<double>(reserved_bytes);
  }
  // peak reserved / peak live: how much larger the range had to be than what it held. 1 is perfect; 1 where nothing
  // was.
  double peak_reserved_over_live() const noexcept {
    return peak_live_bytes == 0 ? 1.0 : static_cast<double>(peak_reserved_bytes) / static_cast<double>(peak_live_bytes);
  }

  FragmentationFigures& operator+=(const FragmentationFigures& other) noexcept {
    free_bytes += other.free_bytes;
    largest_free_bytes = std::max(largest_free_bytes, other.largest_free_bytes);
    num_free_extents += other.num_free_extents;
    asked_bytes += other.asked_bytes;
    reserved_bytes += other.reserved_bytes;
    peak_reserved_bytes += other.peak_reserved_bytes;
    peak_live_bytes += other.peak_live_bytes;
    return *this;
  }
};

// The figures of one range below its high water mark: what lies above it was never needed and is no fragment.
// `asked_bytes` and `peak_live_bytes` are the caller's count.
FragmentationFigures measure_fragmentation(const ExtentAllocator& allocator, std::size_t asked_bytes,
                                           std::size_t peak_live_bytes);

}  // namespace vmem
