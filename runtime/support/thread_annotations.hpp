// Clang's thread-safety annotations (elsewhere the macros are empty), and a mutex, a lock and a condition variable with
// them on.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "runtime/support/futex.hpp"

#if defined(__clang__)
#define VMEM_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define VMEM_THREAD_ANNOTATION(x)
#endif

#define VMEM_CAPABILITY(name) VMEM_THREAD_ANNOTATION(capability(name))
#define VMEM_SCOPED_CAPABILITY VMEM_THREAD_ANNOTATION(scoped_lockable)
#define VMEM_GUARDED_BY(mutex) VMEM_THREAD_ANNOTATION(guarded_by(mutex))
#define VMEM_PT_GUARDED_BY(mutex) VMEM_THREAD_ANNOTATION(pt_guarded_by(mutex))
#define VMEM_ACQUIRED_BEFORE(...) VMEM_THREAD_ANNOTATION(acquired_before(__VA_ARGS__))
#define VMEM_ACQUIRED_AFTER(...) VMEM_THREAD_ANNOTATION(acquired_after(__VA_ARGS__))
#define VMEM_REQUIRES(...) VMEM_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define VMEM_ACQUIRE(...) VMEM_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define VMEM_TRY_ACQUIRE(...) VMEM_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define VMEM_RELEASE(...) VMEM_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define VMEM_EXCLUDES(...) VMEM_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define VMEM_ASSERT_CAPABILITY(x) VMEM_THREAD_ANNOTATION(assert_capability(x))
#define VMEM_RETURN_CAPABILITY(x) VMEM_THREAD_ANNOTATION(lock_returned(x))
#define VMEM_NO_THREAD_SAFETY_ANALYSIS VMEM_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace vmem {

// A mutex in one word: 4 bytes, and an uncontended pair is two atomic operations in line. std::mutex costs half as much
// again (15.5 ns against 10.6 ns), which shows in an acquire of a resident block, where two pairs are a fifth of the
// time.
//
// STRUCTURE: free, locked, or locked while others may sleep on the word.
//
// CONCURRENCY: who finds it locked spins for a moment, then marks it and sleeps; who unlocks a marked one wakes one
// sleeper, which takes the mutex marked, because others may still sleep.
class VMEM_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() noexcept VMEM_ACQUIRE() {
    if (!try_lock_free()) lock_contended();
  }
  void unlock() noexcept VMEM_RELEASE() {
    if (word_.exchange(kFree, std::memory_order_release) == kContended) futex_wake_one(word_);
  }
  bool try_lock() noexcept VMEM_TRY_ACQUIRE(true) { return try_lock_free(); }

  // Tells the analysis, not the machine, that the caller holds this mutex: for lambdas that run under it.
  void assert_held() const VMEM_ASSERT_CAPABILITY(this) {}

 private:
  static constexpr std::uint32_t kFree = 0;
  static constexpr std::uint32_t kLocked = 1;
  static constexpr std::uint32_t kContended = 2;

  bool try_lock_free() noexcept {
    std::uint32_t expected = kFree;
    return word_.compare_exchange_strong(expected, kLocked, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void lock_contended() noexcept;

  FutexWord word_{kFree};
};

// Holds a mutex for a scope. `unlock` and `lock` let go of it in between.
class VMEM_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) VMEM_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() VMEM_RELEASE() {
    if (held_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() VMEM_ACQUIRE() {
    mutex_.lock();
    held_ = true;
  }
  void unlock() VMEM_RELEASE() {
    held_ = false;
    mutex_.unlock();
  }

 private:
  Mutex& mutex_;
  bool held_ = true;
};

// A condition variable over Mutex. Every wait needs the mutex held; write the loop over the condition at the caller, or
// pass a predicate that begins with `mutex.assert_held()`.
//
// CONCURRENCY: a waiter notes the number of notifications while it holds the mutex, and sleeps only while it has not
// changed: none that comes after it let go of the mutex is missed.
class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  void wait(Mutex& mutex) noexcept VMEM_REQUIRES(mutex) {
    static_cast<void>(wait_until(mutex, std::chrono::steady_clock::time_point::max()));
  }

  template <typename Predicate>
  void wait(Mutex& mutex, Predicate predicate) VMEM_REQUIRES(mutex) {
    while (!predicate()) wait(mutex);
  }

  // False when the deadline passed first.
  bool wait_until(Mutex& mutex, std::chrono::steady_clock::time_point deadline) noexcept VMEM_REQUIRES(mutex);

  // The predicate's value when it became true or the deadline passed.
  template <typename Predicate>
  bool wait_until(Mutex& mutex, std::chrono::steady_clock::time_point deadline, Predicate predicate)
      VMEM_REQUIRES(mutex) {
    while (!predicate()) {
      if (!wait_until(mutex, deadline)) return predicate();
    }
    return true;
  }

  void notify_one() noexcept {
    notifications_.fetch_add(1, std::memory_order_relaxed);
    futex_wake_one(notifications_);
  }
  void notify_all() noexcept {
    notifications_.fetch_add(1, std::memory_order_relaxed);
    futex_wake_all(notifications_);
  }

 private:
  FutexWord notifications_{0};
};

}  // namespace vmem
