#include "runtime/support/thread_annotations.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace vmem {
namespace {

class Mailbox {
 public:
  void put(int value) VMEM_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    value_ = value;
    full_ = true;
    condition_.notify_all();
  }

  int take() VMEM_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (!full_) condition_.wait(mutex_);
    full_ = false;
    return value_;
  }

  bool wait_full(std::chrono::steady_clock::time_point deadline) VMEM_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return condition_.wait_until(mutex_, deadline, [this] {
      mutex_.assert_held();
      return full_;
    });
  }

 private:
  Mutex mutex_;
  CondVar condition_;
  bool full_ VMEM_GUARDED_BY(mutex_) = false;
  int value_ VMEM_GUARDED_BY(mutex_) = 0;
};

TEST(CondVarTest, WakesAWaiter) {
  Mailbox mailbox;
  std::thread sender([&mailbox] { mailbox.put(42); });
  EXPECT_EQ(mailbox.take(), 42);
  sender.join();
}

TEST(CondVarTest, ADeadlineThatHasPassedEndsTheWait) {
  Mailbox mailbox;
  EXPECT_FALSE(mailbox.wait_full(std::chrono::steady_clock::now()));
  mailbox.put(1);
  EXPECT_TRUE(mailbox.wait_full(std::chrono::steady_clock::now()));
}

TEST(MutexTest, IsHeldByOneThreadAtATime) {
  Mutex mutex;
  MutexLock lock(mutex);
  std::thread other([&mutex] {
    const bool taken = mutex.try_lock();
    EXPECT_FALSE(taken);
    if (taken) mutex.unlock();
  });
  other.join();
}

TEST(MutexTest, ALockCanLetGoInBetween) {
  Mutex mutex;
  MutexLock lock(mutex);
  lock.unlock();
  const bool taken = mutex.try_lock();
  EXPECT_TRUE(taken);
  if (taken) mutex.unlock();
  lock.lock();
}

}  // namespace
}  // namespace vmem
