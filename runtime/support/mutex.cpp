#include "runtime/support/thread_annotations.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace vmem {
namespace {

// Looks ever more rarely, some microseconds in all: longer than what is done under these mutexes, shorter than falling
// asleep and waking. Who looks all the time takes the word's cache line from the owner, and both are slow.
constexpr int kMostPauses = 64;

void pause_processor() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void Mutex::lock_contended() noexcept {
  for (int pauses = 1; pauses <= kMostPauses; pauses *= 2) {
    for (int i = 0; i < pauses; ++i) pause_processor();
    if (word_.load(std::memory_order_relaxed) == kFree && try_lock_free()) return;
  }
  while (word_.exchange(kContended, std::memory_order_acquire) != kFree) futex_wait(word_, kContended);
}

bool CondVar::wait_until(Mutex& mutex, std::chrono::steady_clock::time_point deadline) noexcept {
  const std::uint32_t notifications = notifications_.load(std::memory_order_relaxed);
  mutex.unlock();
  const bool in_time = futex_wait(notifications_, notifications, deadline);
  mutex.lock();
  return in_time;
}

}  // namespace vmem
