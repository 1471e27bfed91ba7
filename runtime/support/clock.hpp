// Time as an object, so that a test can hold it. Components that measure or wait take a `Clock&`.
#pragma once

#include <atomic>
#include <chrono>

namespace vmem {

// Thread contract: `now` may be called from any thread.
class Clock {
 public:
  using Duration = std::chrono::nanoseconds;
  using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

  virtual ~Clock() = default;
  virtual TimePoint now() const noexcept = 0;
};

// The monotonic clock of the machine; it does not follow changes of the wall clock.
class SteadyClock final : public Clock {
 public:
  TimePoint now() const noexcept override { return std::chrono::steady_clock::now(); }
};

// A clock that moves only when it is told to.
class ManualClock final : public Clock {
 public:
  TimePoint now() const noexcept override { return TimePoint(Duration(nanoseconds_.load(std::memory_order_acquire))); }
  void advance(Duration by) noexcept { nanoseconds_.fetch_add(by.count(), std::memory_order_acq_rel); }

 private:
  std::atomic<Duration::rep> nanoseconds_{0};
};

}  // namespace vmem
