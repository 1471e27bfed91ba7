// One direction of a simulated link: who may use it when. Copies take turns, so that together they never pass its rate.
#pragma once

#include <chrono>
#include <cstddef>

#include "runtime/support/thread_annotations.hpp"

namespace vmem {

// Thread contract: every member may be called from any thread.
class LinkClock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // REQUIRES: bytes_per_second > 0.
  explicit LinkClock(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  double bytes_per_second() const noexcept { return bytes_per_second_; }

  // Takes the link for a copy that could start at `ready`; answers with the time at which its last byte has passed.
  TimePoint reserve(TimePoint ready, std::size_t bytes) VMEM_EXCLUDES(mutex_);
  // Takes two links at once, at the pace of the slower: a peer copy leaves one device and enters another.
  static TimePoint reserve_both(LinkClock& first, LinkClock& second, TimePoint ready, std::size_t bytes);

 private:
  const double bytes_per_second_;
  Mutex mutex_;
  TimePoint free_at_ VMEM_GUARDED_BY(mutex_);
};

}  // namespace vmem
