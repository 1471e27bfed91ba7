#include "runtime/memory/address_space.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <limits>
#include <map>
#include <memory>
#include <thread>
#include <vector>

namespace vmem {
namespace {

std::unique_ptr<PoolAddressSpace> make(std::size_t bytes, FitStrategy strategy = FitStrategy::kBestFit) {
  auto space = PoolAddressSpace::create({bytes, strategy});
  EXPECT_TRUE(space) << space.error().to_string();
  return std::move(space).value();
}

TEST(PoolAddressSpaceTest, ReservesALargeRangeByDefault) {
  auto space = PoolAddressSpace::create({});
  ASSERT_TRUE(space) << space.error().to_string();
  EXPECT_GE((*space)->bytes(), PoolAddressSpace::kMinBytes);
  EXPECT_EQ((*space)->base() % PoolAddressSpace::kBaseAlignment, 0U);
  EXPECT_TRUE((*space)->contains((*space)->base()));
  EXPECT_FALSE((*space)->contains((*space)->base() - 1));
  EXPECT_FALSE((*space)->contains((*space)->base() + (*space)->bytes()));
}

TEST(PoolAddressSpaceTest, AlignsAddresses) {
  const auto space = make(1_GiB);
  const auto small = space->allocate(1, kPageBytes);
  const auto large = space->allocate(100_MiB, 64_MiB);
  ASSERT_TRUE(small && large);
  EXPECT_EQ(small->bytes, kPageBytes);
  EXPECT_EQ(large->address % 64_MiB, 0U);
  EXPECT_EQ(space->used_bytes(), 100_MiB + kPageBytes);
  EXPECT_TRUE(space->deallocate(*small));
  EXPECT_TRUE(space->deallocate(*large));
  EXPECT_EQ(space->used_bytes(), 0U);
}

TEST(PoolAddressSpaceTest, SaysWhatIsFreeWhenItIsExhausted) {
  const auto space = make(64_MiB);
  const auto most = space->allocate(48_MiB, kPageBytes);
  ASSERT_TRUE(most);
  const Status status = space->allocate(32_MiB, kPageBytes).error();
  EXPECT_EQ(status.code(), StatusCode::kOutOfAddresses);
  EXPECT_NE(status.message().find("32.0 MiB"), std::string_view::npos) << status.to_string();
  EXPECT_NE(status.message().find("16.0 MiB"), std::string_view::npos) << status.to_string();
  EXPECT_TRUE(space->deallocate(*most));
  EXPECT_TRUE(space->allocate(64_MiB, kPageBytes));
}

TEST(PoolAddressSpaceTest, RefusesWrongArguments) {
  const auto space = make(64_MiB);
  EXPECT_EQ(space->allocate(0, kPageBytes).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(space->allocate(1, 0).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(space->allocate(1, 3).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(space->allocate(1, 2 * PoolAddressSpace::kBaseAlignment).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(space->allocate(std::numeric_limits<std::size_t>::max(), kPageBytes).error().code(),
            StatusCode::kOutOfAddresses);
  EXPECT_EQ(PoolAddressSpace::create({0}).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(PoolAddressSpace::create({4097}).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(space->used_bytes(), 0U);
}

TEST(PoolAddressSpaceTest, DoubleAndForeignFreesAreRefused) {
  const auto space = make(64_MiB);
  const auto other = make(64_MiB);
  const auto range = space->allocate(1_MiB, kPageBytes);
  ASSERT_TRUE(range);
  EXPECT_EQ(other->deallocate(*range).code(), StatusCode::kInvalidValue);
  PoolRange interior = *range;
  interior.address += kPageBytes;
  EXPECT_EQ(space->deallocate(interior).code(), StatusCode::kInvalidValue);
  EXPECT_TRUE(space->deallocate(*range));
  EXPECT_EQ(space->deallocate(*range).code(), StatusCode::kInvalidValue);
}

// A sanitizer's own shadow does not fit under a limit on address space.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(PoolAddressSpaceTest, TakesHalfOfALimitOnAddressSpace) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  rlimit limited = before;
  limited.rlim_cur = 100_GiB;
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &limited), 0);
  auto space = PoolAddressSpace::create({});
  limited.rlim_cur = 1_GiB;
  EXPECT_EQ(::setrlimit(RLIMIT_AS, &limited), 0);
  const auto none = PoolAddressSpace::create({});
  EXPECT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  ASSERT_TRUE(space) << space.error().to_string();
  EXPECT_EQ((*space)->bytes(), 32_GiB);
  EXPECT_EQ(none.error().code(), StatusCode::kOutOfAddresses);
}
#endif

TEST(PoolAddressSpaceTest, ThreadsGetDisjointRanges) {
  const auto space = make(1_GiB);
  constexpr int kThreads = 4;
  std::vector<std::vector<PoolRange>> ranges(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 500; ++i) {
        auto range = space->allocate((i % 37 + 1) * kPageBytes, kPageBytes);
        if (!range) continue;
        if (i % 3 == 0) {
          EXPECT_TRUE(space->deallocate(*range));
        } else {
          ranges[static_cast<std::size_t>(t)].push_back(*range);
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  std::map<PoolAddress, std::size_t> all;
  for (const auto& list : ranges) {
    for (const PoolRange& range : list) EXPECT_TRUE(all.emplace(range.address, range.bytes).second);
  }
  PoolAddress end = 0;
  for (const auto& [address, bytes] : all) {
    EXPECT_GE(address, end);
    end = address + bytes;
  }
  EXPECT_EQ(all.size(), 333U * kThreads) << "every third of 500 was given back at once";
}

}  // namespace
}  // namespace vmem
