// Clang's thread-safety annotations, and the standard mutex, lock and condition variable with them on. Elsewhere the
// macros are empty.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

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

class VMEM_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() VMEM_ACQUIRE() { mutex_.lock(); }
  void unlock() VMEM_RELEASE() { mutex_.unlock(); }
  bool try_lock() VMEM_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

  // Tells the analysis, not the machine, that the caller holds this mutex: for lambdas that run under it.
  void assert_held() const VMEM_ASSERT_CAPABILITY(this) {}

 private:
  friend class CondVar;
  std::mutex mutex_;
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
class CondVar {
 public:
  void wait(Mutex& mutex) VMEM_REQUIRES(mutex) {
    Adopted lock(mutex.mutex_);
    condition_.wait(lock.get());
  }

  template <typename Predicate>
  void wait(Mutex& mutex, Predicate predicate) VMEM_REQUIRES(mutex) {
    while (!predicate()) wait(mutex);
  }

  // False when the deadline passed first.
  bool wait_until(Mutex& mutex, std::chrono::steady_clock::time_point deadline) VMEM_REQUIRES(mutex) {
    Adopted lock(mutex.mutex_);
    return condition_.wait_until(lock.get(), deadline) == std::cv_status::no_timeout;
  }

  // The predicate's value when it became true or the deadline passed.
  template <typename Predicate>
  bool wait_until(Mutex& mutex, std::chrono::steady_clock::time_point deadline, Predicate predicate)
      VMEM_REQUIRES(mutex) {
    while (!predicate()) {
      if (!wait_until(mutex, deadline)) return predicate();
    }
    return true;
  }

  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

 private:
  // Lends the caller's hold on the mutex to std::condition_variable and takes it back.
  class Adopted {
   public:
    explicit Adopted(std::mutex& mutex) : lock_(mutex, std::adopt_lock) {}
    ~Adopted() { lock_.release(); }
    Adopted(const Adopted&) = delete;
    Adopted& operator=(const Adopted&) = delete;
    std::unique_lock<std::mutex>& get() { return lock_; }

   private:
    std::unique_lock<std::mutex> lock_;
  };

  std::condition_variable condition_;
};

}  // namespace vmem
