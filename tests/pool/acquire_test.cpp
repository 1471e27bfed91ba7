// Who gets what, who waits, and who is refused.
#include <algorithm>
#include <limits>
#include <optional>

#include "tests/pool/pool_test.hpp"

namespace vmem::test {
namespace {

constexpr std::chrono::milliseconds kHour = std::chrono::hours(1);

class PoolAcquireTest : public PoolTest {};

TEST_F(PoolAcquireTest, AListThatCanNeverFitFailsAtOnce) {
  make();
  const Buffer large = allocate((kUsableBlocks + 1) * kBlock);
  const Buffer a = allocate(4 * kBlock);
  const Buffer b = allocate(4 * kBlock);
  // With an hour to wait: who waits runs into the test's time limit.
  EXPECT_EQ(acquire(large.all(Access::kRead), 0, {}, kHour).error().code(), StatusCode::kOutOfDeviceMemory);
  EXPECT_EQ(acquire({a.all(Access::kRead), b.all(Access::kWrite)}, 0, {}, kHour).error().code(),
            StatusCode::kOutOfDeviceMemory);
  EXPECT_EQ(waits(), 0U);
  EXPECT_EQ(pool().stats().devices[0].used_bytes, 0U) << "all of it or nothing";
  EXPECT_EQ(pool().stats().acquires_failed, 2U);
  EXPECT_EQ(references(a) + references(b) + references(large), 0U);
  EXPECT_TRUE(fetch(large.range(0, kUsableBlocks * kBlock, Access::kWrite), 0).is_ok());
}

TEST_F(PoolAcquireTest, AListThatCanNeverFitInHostMemoryNamesIt) {
  PoolMachineSpec spec;
  spec.pool.limits["host:0"] = 4_MiB;
  make(spec);
  const Buffer large = allocate(5_MiB);
  EXPECT_EQ(acquire(large.all(Access::kRead), host(), {}, kHour).error().code(), StatusCode::kOutOfHostMemory);
}

TEST_F(PoolAcquireTest, MemoryHeldByOthersIsWaitedForAndThenBusy) {
  make();
  const Buffer a = filled(4 * kBlock, 1);
  const Buffer b = filled(4 * kBlock, 2);
  auto held = acquire(a.all(Access::kRead), 0);
  ASSERT_TRUE(held.has_value());
  EXPECT_EQ(acquire(b.all(Access::kRead), 0).error().code(), StatusCode::kBusy);
  EXPECT_EQ(resident(b, 0), 0U);
  const std::uint64_t before = waits();
  std::thread waiter([&] {
    auto acquired = acquire(b.all(Access::kRead), 0, {}, kHour);
    ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
    expect_same(read(0, acquired->data(), b.bytes()), test_pattern(b.bytes(), 2));
  });
  wait_until([&] { return waits() > before; });
  EXPECT_TRUE(held->release().is_ok());
  waiter.join();
  expect_pattern(a, 1);
}

// What each has there already is what the other waits for.
TEST_F(PoolAcquireTest, TwoThatWaitForMemoryDoNotKeepEachOthers) {
  for (const std::uint32_t caps : {kAllCaps, kNoWindows}) {
    PoolMachineSpec spec = one_gpu();
    spec.caps = DeviceCaps(caps);
    make(spec);
    {
      const Buffer a = filled(6 * kBlock, 1);
      const Buffer b = filled(6 * kBlock, 2);
      const Buffer c = filled_on(0, kBlock, 3);
      ASSERT_TRUE(fetch(a.range(0, 3 * kBlock, Access::kWrite), 0).is_ok());
      ASSERT_TRUE(fetch(b.range(0, 3 * kBlock, Access::kWrite), 0).is_ok());
      auto held = acquire(c.all(Access::kRead), 0);
      const Buffer d = filled(kBlock, 4);
      auto also_held = acquire(d.all(Access::kRead), 0);  // takes the place of one block of a or b
      ASSERT_TRUE(held.has_value() && also_held.has_value());
      std::vector<std::thread> threads;
      for (std::uint64_t i = 0; i < 2; ++i) {
        const std::uint64_t before = waits();
        threads.emplace_back([&, i] {
          const Buffer& buffer = i == 0 ? a : b;
          auto acquired = acquire(buffer.all(Access::kRead), 0, {}, kHour);
          ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
          expect_same(read(0, acquired->data(), buffer.bytes()), test_pattern(buffer.bytes(), i + 1));
        });
        wait_until([&] { return waits() > before; });
      }
      EXPECT_TRUE(held->release().is_ok());
      EXPECT_TRUE(also_held->release().is_ok());
      for (auto& thread : threads) thread.join();
    }
    machine_.reset();
  }
}

TEST_F(PoolAcquireTest, AConflictWaitsUntilTheHolderReleases) {
  make();
  const Buffer buffer = filled(2 * kBlock, 1);
  auto writer = acquire(buffer.all(Access::kWrite), 0);
  ASSERT_TRUE(writer.has_value());
  EXPECT_EQ(acquire(buffer.all(Access::kRead), 1).error().code(), StatusCode::kBusy);
  const std::uint64_t before = waits();
  std::thread reader([&] {
    auto acquired = acquire(buffer.all(Access::kRead), 1, {}, kHour);
    ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
    expect_same(read(1, acquired->data(), buffer.bytes()), test_pattern(buffer.bytes(), 2));
  });
  wait_until([&] { return waits() > before; });
  const Bytes pattern = test_pattern(buffer.bytes(), 2);
  write(0, writer->data(), pattern.data(), pattern.size());
  EXPECT_TRUE(writer->release().is_ok());
  reader.join();
}

TEST_F(PoolAcquireTest, ADeadlineWithoutEndWaits) {
  make();
  const Buffer buffer = filled(kBlock, 1);
  auto writer = acquire(buffer.all(Access::kWrite), 0);
  ASSERT_TRUE(writer.has_value());
  std::optional<Status> outcome;
  std::thread reader(
      [&] { outcome = acquire(buffer.all(Access::kRead), 1, {}, std::chrono::milliseconds::max()).error(); });
  wait_until([&] { return waits() > 0; });
  EXPECT_TRUE(writer->release().is_ok());
  reader.join();
  EXPECT_TRUE(outcome->is_ok()) << outcome->to_string();
}

TEST_F(PoolAcquireTest, ADeadlineInThePastIsOverAtOnce) {
  make();
  const Buffer buffer = filled(kBlock, 1);
  auto writer = acquire(buffer.all(Access::kWrite), 0);
  ASSERT_TRUE(writer.has_value());
  EXPECT_EQ(acquire(buffer.all(Access::kRead), 1, {}, std::chrono::milliseconds(-5)).error().code(), StatusCode::kBusy);
  EXPECT_EQ(acquire(buffer.all(Access::kRead), 1, {}, std::chrono::milliseconds::min()).error().code(),
            StatusCode::kBusy);
}

TEST_F(PoolAcquireTest, ReadersShareAndAWriterWaits) {
  make();
  const Buffer buffer = filled(2 * kBlock, 1);
  auto first = acquire(buffer.all(Access::kRead), 0);
  auto second = acquire(buffer.all(Access::kRead), 0);
  auto third = acquire(buffer.all(Access::kRead), 1);
  ASSERT_TRUE(first.has_value() && second.has_value() && third.has_value());
  EXPECT_EQ(first->data(), second->data());
  expect_same(read(1, third->data(), buffer.bytes()), test_pattern(buffer.bytes(), 1));
  for (const Access access : {Access::kWrite, Access::kWriteDiscard}) {
    EXPECT_EQ(acquire(buffer.range(0, 1, access), 0).error().code(), StatusCode::kBusy);
  }
  EXPECT_TRUE(first->release().is_ok());
  EXPECT_TRUE(second->release().is_ok());
  EXPECT_EQ(acquire(buffer.range(0, 1, Access::kWrite), 0).error().code(), StatusCode::kBusy);
  EXPECT_TRUE(third->release().is_ok());
  EXPECT_TRUE(fetch(buffer.range(0, 1, Access::kWrite), 0).is_ok());
}

TEST_F(PoolAcquireTest, AReadIsNotUpgradedToAWrite) {
  make();
  const Buffer buffer = filled(kBlock, 1);
  auto reader = acquire(buffer.all(Access::kRead), 0);
  ASSERT_TRUE(reader.has_value());
  EXPECT_EQ(acquire(buffer.all(Access::kWrite), 0).error().code(), StatusCode::kBusy) << "the same thread is another";
}

TEST_F(PoolAcquireTest, ConflictsAreByPage) {
  make();
  const Buffer buffer = filled(kBlock, 1);
  auto writer = acquire(buffer.range(kPageBytes, kPageBytes, Access::kWrite), 0);
  ASSERT_TRUE(writer.has_value());
  EXPECT_TRUE(fetch(buffer.range(0, kPageBytes, Access::kWrite), 0).is_ok());
  EXPECT_TRUE(fetch(buffer.range(2 * kPageBytes, kPageBytes, Access::kWrite), 1).is_ok());
  EXPECT_EQ(fetch(buffer.range(2 * kPageBytes - 1, 1, Access::kRead), 0).code(), StatusCode::kBusy);
  EXPECT_EQ(fetch(buffer.range(kPageBytes - 1, 2, Access::kRead), 0).code(), StatusCode::kBusy);
}

TEST_F(PoolAcquireTest, AListThatConflictsInOneRangeHoldsNothing) {
  make();
  const Buffer a = filled(kBlock, 1);
  const Buffer b = filled(kBlock, 2);
  auto writer = acquire(b.all(Access::kWrite), 0);
  ASSERT_TRUE(writer.has_value());
  EXPECT_EQ(acquire({a.all(Access::kWrite), b.all(Access::kRead)}, 1).error().code(), StatusCode::kBusy);
  EXPECT_EQ(references(a), 0U);
  EXPECT_TRUE(fetch(a.all(Access::kWrite), 1).is_ok());
}

TEST_F(PoolAcquireTest, RangesThatOverlapAndWriteAreRefused) {
  make();
  const Buffer buffer = filled(4 * kBlock, 1);
  using Ranges = std::vector<AcquireRange>;
  for (const Access access : {Access::kWrite, Access::kWriteDiscard}) {
    for (const Ranges& ranges :
         {Ranges{buffer.range(0, 200, Access::kRead), buffer.range(199, 10, access)},
          Ranges{buffer.range(199, 10, access), buffer.range(0, 200, Access::kRead)},
          Ranges{buffer.all(access), buffer.range(5, 1, Access::kRead)},
          Ranges{buffer.all(Access::kRead), buffer.range(0, 1, Access::kRead), buffer.range(2 * kBlock, 1, access)}}) {
      EXPECT_EQ(acquire(ranges, 0).error().code(), StatusCode::kInvalidValue);
    }
  }
  EXPECT_EQ(references(buffer), 0U);
}

TEST_F(PoolAcquireTest, RangesSideBySideInOnePageMayBothWrite) {
  make();
  const Buffer buffer = filled(kBlock, 1);
  auto both = acquire({buffer.range(100, 50, Access::kWrite), buffer.range(0, 100, Access::kWrite)}, 0);
  ASSERT_TRUE(both.has_value()) << both.error().to_string();
  EXPECT_EQ(both->as<std::uint8_t>(1) + 100, both->as<std::uint8_t>(0));
  EXPECT_TRUE(both->release().is_ok());
  expect_pattern(buffer, 1);
}

TEST_F(PoolAcquireTest, BadArgumentsAreRefusedAndSaidWhy) {
  make();
  const Buffer buffer = filled(2 * kBlock, 1);
  const std::size_t most = std::numeric_limits<std::size_t>::max();
  const AcquireRange bad[] = {
      buffer.range(0, 0, Access::kRead),
      buffer.range(0, buffer.bytes() + 1, Access::kRead),
      buffer.range(1, buffer.bytes(), Access::kRead),
      buffer.range(buffer.bytes(), 1, Access::kRead),
      buffer.range(1, most, Access::kRead),
      buffer.range(0, most, Access::kRead),
      {0, 1, Access::kRead},
      {most, 1, Access::kRead},
      {buffer.address() - 1, 1, Access::kRead},
      {reinterpret_cast<PoolAddress>(&buffer), 1, Access::kRead},
      {buffer.address(), 1, static_cast<Access>(9)},
  };
  for (const AcquireRange& range : bad) {
    const Status status = acquire(range, 0).error();
    EXPECT_EQ(status.code(), StatusCode::kInvalidValue) << range.bytes;
    EXPECT_FALSE(status.message().empty());
  }
  EXPECT_EQ(acquire(std::vector<AcquireRange>(), 0).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(acquire(buffer.all(Access::kRead), machine().num_devices()).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(acquire({buffer.all(Access::kRead), bad[1]}, 0).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(references(buffer), 0U);
}

class PoolRangesTest : public PoolTest, public ::testing::WithParamInterface<std::uint32_t> {
 protected:
  void SetUp() override { make(spec_of(GetParam())); }
};

TEST_P(PoolRangesTest, AListInAnyOrderGivesPointersInTheOrderAsked) {
  const Buffer a = filled(2 * kBlock, 1);
  const Buffer b = filled(300, 2);
  const Buffer c = filled(2 * kBlock, 3);
  std::vector<std::pair<AcquireRange, Bytes>> asked;
  const auto add = [&](const Buffer& buffer, std::uint64_t seed, std::size_t offset, std::size_t bytes) {
    const Bytes all = test_pattern(buffer.bytes(), seed);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(offset);
    asked.push_back(
        {buffer.range(offset, bytes, Access::kRead), Bytes(begin, begin + static_cast<std::ptrdiff_t>(bytes))});
  };
  add(a, 1, 70'000, 50);
  add(b, 2, 17, 200);
  add(c, 3, kBlock - 3, 6);
  add(a, 1, 5, 1000);
  std::sort(asked.begin(), asked.end(), [](const auto& x, const auto& y) { return x.first.address < y.first.address; });
  do {
    std::vector<AcquireRange> ranges;
    for (const auto& [range, bytes] : asked) ranges.push_back(range);
    auto acquired = acquire(ranges, 0);
    ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
    ASSERT_EQ(acquired->size(), asked.size());
    for (std::size_t i = 0; i < asked.size(); ++i) {
      expect_same(read(0, acquired->data(i), asked[i].second.size()), asked[i].second);
    }
    EXPECT_TRUE(acquired->release().is_ok());
  } while (std::next_permutation(asked.begin(), asked.end(),
                                 [](const auto& x, const auto& y) { return x.first.address < y.first.address; }));
}

TEST_P(PoolRangesTest, RangesOverSeveralBlocksAreContiguous) {
  const Buffer buffer = filled(5 * kBlock, 1);
  // A first block is there already, in a frame of its own.
  ASSERT_TRUE(fetch(buffer.range(2 * kBlock, 100, Access::kWrite), 0).is_ok());
  Bytes expected = test_pattern(buffer.bytes(), 1);
  const std::size_t offset = kBlock - 777;
  const std::size_t bytes = 3 * kBlock + 999;
  auto acquired = acquire(buffer.range(offset, bytes, Access::kWrite), 0);
  ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
  const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(offset);
  expect_same(read(0, acquired->data(), bytes), Bytes(begin, begin + static_cast<std::ptrdiff_t>(bytes)));
  const Bytes fresh = test_pattern(bytes, 2);
  write(0, acquired->data(), fresh.data(), bytes);
  EXPECT_TRUE(acquired->release().is_ok());
  std::copy(fresh.begin(), fresh.end(), begin);
  expect_same(bytes_of(buffer), expected);
}

TEST_P(PoolRangesTest, ReadsThatOverlapShareTheirBlocks) {
  const Buffer buffer = filled(4 * kBlock, 1);
  const Bytes expected = test_pattern(buffer.bytes(), 1);
  auto acquired = acquire({buffer.all(Access::kRead), buffer.range(kBlock, kBlock, Access::kRead),
                           buffer.range(kBlock + 10, 2 * kBlock, Access::kRead)},
                          0);
  ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
  expect_same(read(0, acquired->data(0), buffer.bytes()), expected);
  EXPECT_EQ(acquired->as<std::uint8_t>(0) + kBlock, acquired->as<std::uint8_t>(1));
  EXPECT_EQ(acquired->as<std::uint8_t>(0) + kBlock + 10, acquired->as<std::uint8_t>(2));
  EXPECT_EQ(pool().stats().devices[0].used_bytes, buffer.bytes()) << "one frame for each block";
  EXPECT_TRUE(acquired->release().is_ok());
  expect_pattern(buffer, 1);
}

TEST_P(PoolRangesTest, OverlappingReadsOfAllThatFitsDoNotCountTwice) {
  const Buffer buffer = filled(kUsableBlocks * kBlock, 1);
  auto acquired = acquire({buffer.all(Access::kRead), buffer.range(0, 4 * kBlock, Access::kRead)}, 0);
  ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
  EXPECT_EQ(acquired->data(0), acquired->data(1));
}

INSTANTIATE_TEST_SUITE_P(Devices, PoolRangesTest, ::testing::Values(kAllCaps, kNoWindows, kNoCaps),
                         [](const auto& tested) {
                           return tested.param == kAllCaps     ? "WithWindows"
                                  : tested.param == kNoWindows ? "WithoutWindows"
                                                               : "NoCapabilities";
                         });

TEST_F(PoolAcquireTest, WithoutWindowsAnAcquireMustLieInsideAHeldExtentThatItOverlaps) {
  make(spec_of(kNoWindows));
  const Buffer buffer = filled(4 * kBlock, 1);
  auto held = acquire(buffer.range(0, 2 * kBlock, Access::kRead), 0);
  ASSERT_TRUE(held.has_value());
  EXPECT_EQ(acquire(buffer.range(kBlock, 2 * kBlock, Access::kRead), 0).error().code(), StatusCode::kBusy);
  auto inside = acquire(buffer.range(kBlock, kBlock, Access::kRead), 0);
  ASSERT_TRUE(inside.has_value()) << inside.error().to_string();
  EXPECT_EQ(held->as<std::uint8_t>() + kBlock, inside->as<std::uint8_t>());
  EXPECT_TRUE(fetch(buffer.range(2 * kBlock, 2 * kBlock, Access::kRead), 0).is_ok()) << "beside it";
  EXPECT_TRUE(held->release().is_ok());
  EXPECT_TRUE(inside->release().is_ok());
  auto merged = acquire(buffer.range(kBlock, 2 * kBlock, Access::kRead), 0);
  ASSERT_TRUE(merged.has_value()) << merged.error().to_string();
  const Bytes all = test_pattern(buffer.bytes(), 1);
  expect_same(read(0, merged->data(), 2 * kBlock), Bytes(all.begin() + static_cast<std::ptrdiff_t>(kBlock),
                                                         all.begin() + static_cast<std::ptrdiff_t>(3 * kBlock)));
}

// Two blocks of the run lie in extents of their own: one can't leave its device, as its extent is held, the other
// leaves for the room that the run needs.
TEST_F(PoolAcquireTest, WithoutWindowsABlockWhoseExtentCanNotLeaveMovesOnItsDevice) {
  PoolMachineSpec spec = one_gpu();
  spec.caps = DeviceCaps(kNoWindows);
  make(spec);
  const Buffer filler = filled(3 * kBlock, 2);
  const Buffer buffer = filled(3 * kBlock, 1);
  ASSERT_TRUE(fetch(buffer.range(0, 2 * kBlock, Access::kWrite), 0).is_ok());
  ASSERT_TRUE(fetch(buffer.range(2 * kBlock, kBlock, Access::kWrite), 0).is_ok());
  auto filling = acquire(filler.all(Access::kRead), 0);
  auto held = acquire(buffer.range(0, kBlock, Access::kRead), 0);
  ASSERT_TRUE(filling.has_value() && held.has_value());
  auto run = acquire(buffer.range(kBlock, 2 * kBlock, Access::kWrite), 0);
  ASSERT_TRUE(run.has_value()) << run.error().to_string();
  Bytes expected = test_pattern(buffer.bytes(), 1);
  const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(kBlock);
  expect_same(read(0, run->data(), 2 * kBlock), Bytes(begin, expected.end()));
  const Bytes fresh = test_pattern(2 * kBlock, 3);
  write(0, run->data(), fresh.data(), fresh.size());
  expect_same(read(0, held->data(), kBlock), Bytes(expected.begin(), begin));
  EXPECT_TRUE(run->release().is_ok());
  EXPECT_TRUE(held->release().is_ok());
  std::copy(fresh.begin(), fresh.end(), begin);
  expect_same(bytes_of(buffer), expected);
  EXPECT_EQ(pool().stats().devices[0].instances, 6U) << "three of each buffer, none twice";
  expect_pattern(filler, 2);
}

// A held extent in the middle of the device: the bytes that are free would suffice, were they in one piece.
TEST_F(PoolAcquireTest, WithoutWindowsARangeThatAHeldExtentStandsInTheWayOfWaitsForItsRelease) {
  PoolMachineSpec spec = one_gpu();
  spec.caps = DeviceCaps(kNoWindows);
  make(spec);
  const Buffer small = filled(kBlock, 1);
  const Buffer large = filled(6 * kBlock, 2);
  auto held = acquire(small.all(Access::kRead), 0);
  ASSERT_TRUE(held.has_value());
  const Status status = acquire(large.all(Access::kRead), 0).error();
  EXPECT_EQ(status.code(), StatusCode::kBusy) << status.to_string();
  EXPECT_EQ(references(large), 0U);
  const std::uint64_t before = waits();
  std::thread waiter([&] {
    auto acquired = acquire(large.all(Access::kRead), 0, {}, kHour);
    ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
    expect_same(read(0, acquired->data(), large.bytes()), test_pattern(large.bytes(), 2));
  });
  wait_until([&] { return waits() > before; });
  EXPECT_TRUE(held->release().is_ok());
  waiter.join();
}

TEST_F(PoolAcquireTest, WithWindowsHeldRangesMayOverlapAsTheyLike) {
  make();
  const Buffer buffer = filled(4 * kBlock, 1);
  auto held = acquire(buffer.range(0, 2 * kBlock, Access::kRead), 0);
  auto other = acquire(buffer.range(kBlock, 3 * kBlock, Access::kRead), 0);
  ASSERT_TRUE(held.has_value() && other.has_value());
  EXPECT_EQ(held->as<std::uint8_t>() + kBlock, other->as<std::uint8_t>());
}

}  // namespace
}  // namespace vmem::test
