#include "runtime/support/thread_annotations.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

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

TEST(MutexTest, GuardsWhatManyThreadsWrite) {
  constexpr int kThreads = 4;
  constexpr int kAdditions = 20'000;
  Mutex mutex;
  int sum = 0;  // plain: only the mutex keeps additions from being lost
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < kAdditions; ++k) {
        MutexLock lock(mutex);
        ++sum;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(sum, kThreads * kAdditions);
}

// A wake-up that is lost leaves both asleep, and the test's time limit ends it.
TEST(CondVarTest, NoNotificationIsLostBetweenTwoThatTakeTurns) {
  constexpr int kTurns = 10'000;
  Mutex mutex;
  CondVar changed;
  int turn = 0;
  const auto play = [&](int parity) {
    for (int i = 0; i < kTurns; ++i) {
      MutexLock lock(mutex);
      while (turn % 2 != parity) changed.wait(mutex);
      ++turn;
      changed.notify_one();
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  EXPECT_EQ(turn, 2 * kTurns);
}

TEST(CondVarTest, NotifyAllWakesEveryone) {
  constexpr int kWaiters = 5;
  Mutex mutex;
  CondVar changed;
  int waiting = 0;
  bool go = false;
  std::vector<std::thread> waiters;
  for (int i = 0; i < kWaiters; ++i) {
    waiters.emplace_back([&] {
      MutexLock lock(mutex);
      ++waiting;
      changed.notify_all();
      while (!go) changed.wait(mutex);
    });
  }
  {
    MutexLock lock(mutex);
    while (waiting != kWaiters) changed.wait(mutex);
    go = true;
    changed.notify_all();
  }
  for (auto& waiter : waiters) waiter.join();
}

TEST(CondVarTest, ADeadlineBeforeTheClocksStartHasPassed) {
  Mutex mutex;
  CondVar changed;
  MutexLock lock(mutex);
  EXPECT_FALSE(changed.wait_until(mutex, std::chrono::steady_clock::time_point::min()));
}

}  // namespace
}  // namespace vmem
