#include "backends/host/link_clock.hpp"

#include <algorithm>
#include <functional>

namespace vmem {
namespace {

LinkClock::TimePoint::duration time_of(std::size_t bytes, double bytes_per_second) {
  const std::chrono::duration<double> seconds(static_cast<double>(bytes) / bytes_per_second);
  return std::chrono::duration_cast<LinkClock::TimePoint::duration>(seconds);
}

}  // namespace

LinkClock::TimePoint LinkClock::reserve(TimePoint ready, std::size_t bytes) {
  MutexLock lock(mutex_);
  free_at_ = std::max(ready, free_at_) + time_of(bytes, bytes_per_second_);
  return free_at_;
}

LinkClock::TimePoint LinkClock::reserve_both(LinkClock& first, LinkClock& second, TimePoint ready, std::size_t bytes) {
  if (&first == &second) return first.reserve(ready, bytes);
  // By address, so that two opposite copies don't wait for each other.
  const bool in_order = std::less<LinkClock*>()(&first, &second);
  LinkClock& low = in_order ? first : second;
  LinkClock& high = in_order ? second : first;
  MutexLock lock_low(low.mutex_);
  MutexLock lock_high(high.mutex_);
  const double pace = std::min(first.bytes_per_second_, second.bytes_per_second_);
  const TimePoint end = std::max({ready, low.free_at_, high.free_at_}) + time_of(bytes, pace);
  low.free_at_ = end;
  high.free_at_ = end;
  return end;
}

}  // namespace vmem
