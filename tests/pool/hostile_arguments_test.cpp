// Arguments that no sane program passes: every call says what is wrong with them, and nothing changes. And lists of
// ten thousand ranges, which some do.
#include <algorithm>
#include <limits>

#include "tests/pool/pool_test.hpp"

namespace vmem::test {
namespace {

constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kHalf = std::size_t{1} << 63U;
constexpr std::size_t kManyRanges = 10'000;

class PoolHostileArgumentsTest : public PoolTest, public ::testing::WithParamInterface<std::uint32_t> {
 protected:
  void SetUp() override { make(spec_of(GetParam())); }

  // Ranges that begin in a buffer and don't end in it, or begin in none.
  static std::vector<AcquireRange> wrong_ranges(const Buffer& buffer) {
    const PoolAddress address = buffer.address();
    const std::size_t bytes = buffer.bytes();
    std::vector<AcquireRange> ranges;
    for (const std::size_t size : {bytes + 1, bytes + kPageBytes, kHalf, kHalf + bytes, kMost - bytes, kMost - 1, kMost,
                                   kMost - kPageBytes + 1, std::size_t(0) - std::size_t(address)}) {
      ranges.push_back({address, size, Access::kRead});
      ranges.push_back({address + 1, size, Access::kWrite});
      ranges.push_back({address + bytes - 1, size, Access::kWriteDiscard});
    }
    for (const PoolAddress start : {PoolAddress{0}, PoolAddress{1}, address - 1, address + bytes, ~PoolAddress{0},
                                    ~PoolAddress{0} - kPageBytes, PoolAddress{kHalf}}) {
      for (const std::size_t size : {std::size_t{1}, kPageBytes, kHalf, kMost}) {
        ranges.push_back({start, size, Access::kRead});
      }
    }
    return ranges;
  }
};

TEST_P(PoolHostileArgumentsTest, RangesThatAreNoneAreInvalidForEveryCallAndNothingChanges) {
  const Buffer buffer = filled(2 * kBlock + 100, 1);
  const Buffer small = filled(300, 2);
  const PoolStats before = pool().stats();
  std::vector<std::uint8_t> host(64);
  for (const Buffer* of : {&buffer, &small}) {
    for (const AcquireRange& range : wrong_ranges(*of)) {
      SCOPED_TRACE(::testing::Message() << std::hex << range.address << " + " << range.bytes);
      const auto refuses = [&](const Status& status) {
        EXPECT_EQ(status.code(), StatusCode::kInvalidValue) << status.to_string();
      };
      refuses(acquire(range, 0).error());
      refuses(acquire({of->range(0, 1, Access::kRead), range}, 0).error());
      refuses(pool().prefetch(range.address, range.bytes, 0).error());
      refuses(pool().residency(range.address, range.bytes).error());
      for (const Advice advice : {Advice::kPin, Advice::kUnpin, Advice::kPreferDevice, Advice::kNoPreference}) {
        refuses(pool().advise(range.address, range.bytes, advice, 0));
      }
      refuses(pool().copy_in(range.address, host.data(), range.bytes));
      refuses(pool().copy_out(host.data(), range.address, range.bytes));
      refuses(pool().copy(range.address, of->address(), range.bytes));
      refuses(pool().copy(of->address(), range.address, range.bytes));
      refuses(pool().fill(range.address, 0, range.bytes));
    }
  }
  expect_pattern(buffer, 1);
  expect_pattern(small, 2);
  EXPECT_EQ(references(buffer) + references(small), 0U);
  const PoolStats after = pool().stats();
  EXPECT_EQ(after.blocks_touched, before.blocks_touched);
  EXPECT_EQ(after.devices[0].used_bytes, 0U);
}

TEST_P(PoolHostileArgumentsTest, NothingToDoIsDoneAndARangeOfNothingIsNone) {
  const Buffer buffer = filled(kBlock, 1);
  EXPECT_TRUE(pool().copy_in(buffer.address(), nullptr, 0).is_ok());
  EXPECT_TRUE(pool().copy_out(nullptr, 0, 0).is_ok());
  EXPECT_TRUE(pool().copy(0, buffer.address(), 0).is_ok());
  EXPECT_TRUE(pool().fill(0, 1, 0).is_ok());
  EXPECT_EQ(pool().prefetch(buffer.address(), 0, 0).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(pool().advise(buffer.address(), 0, Advice::kPin, 0).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(pool().residency(buffer.address(), 0).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(acquire(buffer.range(0, 0, Access::kRead), 0).error().code(), StatusCode::kInvalidValue);
}

TEST_P(PoolHostileArgumentsTest, DevicesAndStreamsThatAreNoneAreInvalid) {
  const Buffer buffer = filled(kBlock, 1);
  int no_stream = 0;
  for (const DeviceIndex device : {DeviceIndex{3}, DeviceIndex{kHalf}, DeviceIndex{kMost}}) {
    EXPECT_EQ(acquire(buffer.all(Access::kRead), device).error().code(), StatusCode::kInvalidValue);
    EXPECT_EQ(acquire(buffer.all(Access::kRead), device, Stream(&no_stream)).error().code(), StatusCode::kInvalidValue);
    EXPECT_EQ(pool().prefetch(buffer.address(), 1, device).error().code(), StatusCode::kInvalidValue);
    EXPECT_EQ(pool().advise(buffer.address(), 1, Advice::kPin, device).code(), StatusCode::kInvalidValue);
  }
  EXPECT_EQ(acquire(buffer.all(Access::kRead), 0, Stream(&no_stream)).error().code(), StatusCode::kInvalidValue);
  for (const std::uint8_t value : {std::uint8_t{3}, std::uint8_t{4}, std::uint8_t{128}, std::uint8_t{255}}) {
    EXPECT_EQ(acquire(buffer.range(0, 1, static_cast<Access>(value)), 0).error().code(), StatusCode::kInvalidValue);
    if (value == 3) continue;
    EXPECT_EQ(pool().advise(buffer.address(), 1, static_cast<Advice>(value), 0).code(), StatusCode::kInvalidValue);
  }
  EXPECT_EQ(references(buffer), 0U);
}

// Ten thousand ranges of a few bytes, many to a page, out of order.
TEST_P(PoolHostileArgumentsTest, AListOfManyRangesIsOneAcquire) {
  constexpr std::size_t kStep = 20;
  constexpr std::size_t kBytes = 17;
  const Buffer buffer = filled(kManyRanges * kStep, 1);
  Bytes expected = test_pattern(buffer.bytes(), 1);
  std::vector<AcquireRange> ranges;
  for (std::size_t i = 0; i < kManyRanges; ++i) {
    const std::size_t at = i * 7919 % kManyRanges;
    ranges.push_back(buffer.range(at * kStep, kBytes, i % 2 == 0 ? Access::kWrite : Access::kRead));
  }
  Stream streams[2];
  for (Stream& stream : streams) stream = *machine().device(0).inner().create_stream();
  for (std::uint8_t round = 0; round < 4; ++round) {
    // Each comes after what the other stream used a moment ago.
    const Stream stream = streams[round % 2];
    auto acquired = acquire(ranges, 0, stream, std::chrono::hours(1));
    ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
    ASSERT_EQ(acquired->size(), kManyRanges);
    EXPECT_EQ(references(buffer), 1U);
    for (std::size_t i = 0; i < kManyRanges; i += 2) {
      if (i % 512 != 0) continue;
      fill(0, acquired->data(i), round, kBytes, stream);
      std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(ranges[i].address - buffer.address()), kBytes, round);
    }
    ASSERT_TRUE(acquired->release().is_ok());
  }
  EXPECT_EQ(moved(host(), 0).fetched_bytes, (kManyRanges * kStep + kPageBytes - 1) / kPageBytes * kPageBytes)
      << "ranges that share a page bring it once";
  expect_same(bytes_of(buffer), expected);
  EXPECT_EQ(references(buffer), 0U);
  for (const Stream& stream : streams) EXPECT_TRUE(machine().device(0).inner().destroy_stream(stream).is_ok());
}

TEST_P(PoolHostileArgumentsTest, TheSameRangeManyTimesIsReadInOnePlace) {
  const Buffer buffer = filled(2 * kBlock, 1);
  const std::vector<AcquireRange> ranges(kManyRanges, buffer.range(kBlock - 50, 100, Access::kRead));
  auto acquired = acquire(ranges, 0);
  ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
  for (std::size_t i = 0; i < kManyRanges; ++i) ASSERT_EQ(acquired->data(i), acquired->data(0));
  EXPECT_EQ(pool().stats().devices[0].used_bytes, 2 * kBlock);
  EXPECT_TRUE(acquired->release().is_ok());
  EXPECT_TRUE(fetch(buffer.all(Access::kWrite), 1).is_ok()) << "no hold is left";
  // One of them writes: refused wherever it stands.
  for (const std::size_t at : {std::size_t{0}, kManyRanges / 2, kManyRanges - 1}) {
    std::vector<AcquireRange> mixed = ranges;
    mixed[at].access = Access::kWrite;
    EXPECT_EQ(acquire(mixed, 0).error().code(), StatusCode::kInvalidValue);
  }
  EXPECT_EQ(references(buffer), 0U);
}

TEST_P(PoolHostileArgumentsTest, AListOverMoreBlocksThanThereIsRoomForIsRefusedAtOnceAndLeavesNothing) {
  const Buffer buffer = allocate(kManyRanges * kBlock);
  std::vector<AcquireRange> ranges;
  for (std::size_t i = 0; i < kManyRanges; ++i) ranges.push_back(buffer.range(i * kBlock, 1, Access::kWrite));
  EXPECT_EQ(acquire(ranges, 0, {}, std::chrono::hours(1)).error().code(), StatusCode::kOutOfDeviceMemory);
  EXPECT_EQ(acquire(ranges, host(), {}, std::chrono::hours(1)).error().code(), StatusCode::kOutOfHostMemory);
  EXPECT_EQ(references(buffer), 0U);
  EXPECT_EQ(pool().stats().devices[0].used_bytes, 0U);
}

// The end of a buffer that is no multiple of a page: its last page is nobody else's.
TEST_P(PoolHostileArgumentsTest, TheLastByteOfABufferIsARange) {
  for (const std::size_t bytes : {std::size_t{1}, kPageBytes - 1, kPageBytes + 1, kBlock - 1, kBlock + 1}) {
    const Buffer buffer = filled(bytes, 1);
    for (const Access access : {Access::kRead, Access::kWrite, Access::kWriteDiscard}) {
      auto acquired = acquire(buffer.range(bytes - 1, 1, access), 0);
      ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
      const std::uint8_t last = test_pattern(bytes, 1).back();
      if (access == Access::kWriteDiscard) {
        write(0, acquired->data(), &last, 1);
      } else {
        expect_same(read(0, acquired->data(), 1), Bytes(1, last));
      }
      EXPECT_TRUE(acquired->release().is_ok());
    }
    expect_pattern(buffer, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, PoolHostileArgumentsTest, ::testing::Values(kAllCaps, kNoWindows),
                         [](const auto& tested) {
                           return tested.param == kAllCaps ? "WithWindows" : "WithoutWindows";
                         });

}  // namespace
}  // namespace vmem::test
