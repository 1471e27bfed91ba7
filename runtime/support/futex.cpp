#include "runtime/support/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

namespace vmem {
namespace {

static_assert(sizeof(FutexWord) == sizeof(std::uint32_t) && FutexWord::is_always_lock_free);

void wake(const FutexWord& word, int most) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, most, nullptr, nullptr, 0);
}

// std::chrono::steady_clock is CLOCK_MONOTONIC in libstdc++ and libc++ on Linux. A time before the clock's start, which
// the kernel would refuse, has passed as well as the start itself.
timespec to_timespec(std::chrono::steady_clock::time_point time) noexcept {
  const auto since_start = time.time_since_epoch();
  if (since_start.count() < 0) return {0, 0};
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_start);
  const auto rest = std::chrono::duration_cast<std::chrono::nanoseconds>(since_start - seconds);
  return {static_cast<std::time_t>(seconds.count()), static_cast<long>(rest.count())};
}

}  // namespace

bool futex_wait(const FutexWord& word, std::uint32_t value, std::chrono::steady_clock::time_point deadline) noexcept {
  const int saved = errno;
  // The bitset form takes an absolute time of the monotonic clock.
  const timespec until = to_timespec(deadline);
  const bool forever = deadline == std::chrono::steady_clock::time_point::max();
  const long outcome = syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, value, forever ? nullptr : &until, nullptr,
                               FUTEX_BITSET_MATCH_ANY);
  const bool in_time = outcome == 0 || errno != ETIMEDOUT;
  errno = saved;
  return in_time;
}

void futex_wake_one(const FutexWord& word) noexcept { wake(word, 1); }
void futex_wake_all(const FutexWord& word) noexcept { wake(word, INT_MAX); }

}  // namespace vmem
