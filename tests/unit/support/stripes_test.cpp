#include "runtime/support/stripes.hpp"

#include <gtest/gtest.h>

#include <latch>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace vmem {
namespace {

// More threads at once than stripes of their own, twice: the second ones get what the first gave back.
TEST(StripedCounterTest, CountsEveryAdditionOfMoreThreadsThanStripes) {
  constexpr std::size_t kThreads = kNumOwnStripes + 20;
  constexpr std::uint64_t kAdditions = 1000;
  StripedCounter counter;
  for (int round = 0; round < 2; ++round) {
    std::latch all_there(static_cast<std::ptrdiff_t>(kThreads));
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        static_cast<void>(thread_stripe());
        all_there.arrive_and_wait();
        for (std::uint64_t k = 0; k < kAdditions; ++k) counter.add();
      });
    }
    for (auto& thread : threads) thread.join();
  }
  EXPECT_EQ(counter.sum(), 2 * kThreads * kAdditions);
}

TEST(StripedCounterTest, AnOwnStripeIsOneThreadsAtATime) {
  constexpr std::size_t kThreads = kNumOwnStripes + 5;
  std::latch all_there(static_cast<std::ptrdiff_t>(kThreads));
  std::mutex mutex;
  std::multiset<std::size_t> stripes;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      const std::size_t stripe = thread_stripe();
      EXPECT_EQ(thread_stripe(), stripe);
      {
        const std::lock_guard lock(mutex);
        stripes.insert(stripe);
      }
      all_there.arrive_and_wait();
    });
  }
  for (auto& thread : threads) thread.join();
  for (const std::size_t stripe : stripes) {
    EXPECT_LT(stripe, kNumStripes);
    if (is_own_stripe(stripe)) {
      EXPECT_EQ(stripes.count(stripe), 1U);
    }
  }
}

}  // namespace
}  // namespace vmem
