// Which bytes a range has: kept, zero, or whatever was there.
#include <algorithm>

#include "tests/pool/pool_test.hpp"

namespace vmem::test {
namespace {

class PoolContentsTest : public PoolTest, public ::testing::WithParamInterface<std::uint32_t> {
 protected:
  void SetUp() override { make(spec_of(GetParam(), true)); }
};

TEST_P(PoolContentsTest, WriteDiscardKeepsTheBytesAroundIt) {
  const Buffer buffer = filled_on(0, 3 * kBlock, 1);
  Bytes expected = test_pattern(buffer.bytes(), 1);
  struct Range {
    std::size_t offset;
    std::size_t bytes;
  };
  const Range ranges[] = {{100, 3 * kPageBytes + 50}, {10, 20},    {kPageBytes, kPageBytes}, {kPageBytes, 10},
                          {kBlock - 5, 10},           {5, kBlock}, {kBlock, kBlock},         {3 * kBlock - 1, 1}};
  std::uint64_t seed = 2;
  for (const Range& range : ranges) {
    SCOPED_TRACE(range.offset);
    const DeviceIndex device = seed % 2 == 0 ? 1 : host();
    auto acquired = acquire(buffer.range(range.offset, range.bytes, Access::kWriteDiscard), device);
    ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
    const Bytes fresh = test_pattern(range.bytes, seed++);
    write(device, acquired->data(), fresh.data(), fresh.size());
    ASSERT_TRUE(acquired->release().is_ok());
    std::copy(fresh.begin(), fresh.end(), expected.begin() + static_cast<std::ptrdiff_t>(range.offset));
    expect_same(bytes_of(buffer), expected);
  }
}

TEST_P(PoolContentsTest, WriteDiscardOfWholePagesFetchesNothing) {
  const Buffer buffer = filled_on(0, 2 * kBlock, 1);
  auto acquired = acquire(buffer.range(kPageBytes, kBlock, Access::kWriteDiscard), 1);
  ASSERT_TRUE(acquired.has_value());
  EXPECT_EQ(moved(0, 1).fetched_bytes, 0U);
  fill(1, acquired->data(), 9, kBlock);
  EXPECT_TRUE(acquired->release().is_ok());
  auto partly = acquire(buffer.range(0, kPageBytes + 1, Access::kWriteDiscard), 1);
  ASSERT_TRUE(partly.has_value());
  EXPECT_EQ(moved(0, 1).fetched_bytes, 0U) << "the page at its end is there already";
  fill(1, partly->data(), 8, kPageBytes + 1);
  EXPECT_TRUE(partly->release().is_ok());
  Bytes expected = test_pattern(buffer.bytes(), 1);
  std::fill_n(expected.begin() + kPageBytes, kBlock, std::uint8_t{9});
  std::fill_n(expected.begin(), kPageBytes + 1, std::uint8_t{8});
  expect_same(bytes_of(buffer), expected);
}

TEST_P(PoolContentsTest, ZeroedBuffersReadZeroOnEveryDevice) {
  BufferOptions zeroed;
  zeroed.zeroed = true;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, std::size_t{20'000}, kBlock, 3 * kBlock + 5000}) {
    SCOPED_TRACE(bytes);
    for (DeviceIndex device = 0; device < machine().num_devices(); ++device) {
      const Buffer buffer = allocate(bytes, zeroed);
      auto acquired = acquire(buffer.all(Access::kRead), device);
      ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
      expect_same(read(device, acquired->data(), bytes), Bytes(bytes, 0));
    }
    const Buffer untouched = allocate(bytes, zeroed);
    expect_same(bytes_of(untouched), Bytes(bytes, 0));
  }
}

TEST_P(PoolContentsTest, ZeroedBuffersReadZeroWhereOthersWereBefore) {
  BufferOptions zeroed;
  zeroed.zeroed = true;
  for (const std::size_t bytes : {std::size_t{5000}, 2 * kBlock}) {
    for (DeviceIndex device = 0; device < machine().num_devices(); ++device) {
      const Buffer neighbour = filled(5000, 7);
      Buffer before = allocate(bytes);
      const PoolAddress address = before.address();
      auto acquired = acquire(before.all(Access::kWrite), device);
      ASSERT_TRUE(acquired.has_value());
      fill(device, acquired->data(), 0xFF, bytes);
      ASSERT_TRUE(acquired->release().is_ok());
      ASSERT_TRUE(before.free().is_ok());
      const Buffer after = allocate(bytes, zeroed);
      EXPECT_EQ(after.address(), address) << "the test means to reuse the memory";
      auto again = acquire(after.all(Access::kRead), device);
      ASSERT_TRUE(again.has_value());
      expect_same(read(device, again->data(), bytes), Bytes(bytes, 0));
      expect_pattern(neighbour, 7);
    }
  }
}

TEST_P(PoolContentsTest, AZeroedBufferKeepsItsZerosAroundAWrite) {
  BufferOptions zeroed;
  zeroed.zeroed = true;
  const Buffer buffer = allocate(2 * kBlock, zeroed);
  auto acquired = acquire(buffer.range(kBlock - 100, 300, Access::kWriteDiscard), 0);
  ASSERT_TRUE(acquired.has_value());
  fill(0, acquired->data(), 5, 300);
  ASSERT_TRUE(acquired->release().is_ok());
  Bytes expected(buffer.bytes(), 0);
  std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(kBlock - 100), 300, std::uint8_t{5});
  auto elsewhere = acquire(buffer.all(Access::kRead), 1);
  ASSERT_TRUE(elsewhere.has_value());
  expect_same(read(1, elsewhere->data(), buffer.bytes()), expected);
}

TEST_P(PoolContentsTest, UnwrittenBytesStayTheSameOnceRead) {
  // Memory that held something else before, different on each device.
  for (DeviceIndex device = 0; device < 2; ++device) {
    ASSERT_TRUE(fetch(filled(4 * kBlock, 90 + device).all(Access::kWrite), device).is_ok());
  }
  const Buffer buffer = allocate(4 * kBlock);
  auto first = acquire(buffer.all(Access::kRead), 0);
  ASSERT_TRUE(first.has_value());
  const Bytes seen = read(0, first->data(), buffer.bytes());
  auto second = acquire(buffer.all(Access::kRead), 1);
  ASSERT_TRUE(second.has_value());
  expect_same(read(1, second->data(), buffer.bytes()), seen);
  ASSERT_TRUE(first->release().is_ok());
  ASSERT_TRUE(second->release().is_ok());
  expect_same(bytes_of(buffer), seen);
}

TEST_P(PoolContentsTest, CopiesWithinThePoolAndFillsKeepWhatIsAround) {
  const Buffer a = filled_on(0, 2 * kBlock, 1);
  const Buffer b = filled_on(1, 2 * kBlock + 333, 2);
  Bytes expected = test_pattern(b.bytes(), 2);
  const Bytes source = test_pattern(a.bytes(), 1);
  ASSERT_TRUE(pool().copy(b.address() + 1001, a.address() + 77, kBlock + 5).is_ok());
  std::copy_n(source.begin() + 77, kBlock + 5, expected.begin() + 1001);
  ASSERT_TRUE(pool().fill(b.address() + 50, 3, 60).is_ok());
  std::fill_n(expected.begin() + 50, 60, std::uint8_t{3});
  expect_same(bytes_of(b), expected);
  expect_pattern(a, 1);
}

TEST_P(PoolContentsTest, CopiesThatAreWrongChangeNothing) {
  const Buffer a = filled(2 * kBlock, 1);
  std::uint8_t byte = 0;
  EXPECT_EQ(pool().copy(a.address() + 5, a.address(), 10).code(), StatusCode::kInvalidValue) << "overlap";
  EXPECT_EQ(pool().copy_in(a.address() + a.bytes() - 1, &byte, 2).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(pool().copy_out(&byte, a.address() + a.bytes(), 1).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(pool().copy_in(a.address(), nullptr, 1).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(pool().copy_out(nullptr, a.address(), 1).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(pool().fill(a.address() + 1, 0, SIZE_MAX).code(), StatusCode::kInvalidValue);
  EXPECT_TRUE(pool().copy_in(a.address(), nullptr, 0).is_ok());
  expect_pattern(a, 1);
}

// Buffers one block large lie wall to wall, so that a part of a copy may lie wholly in the neighbour.
TEST_P(PoolContentsTest, ACopyThatPassesTheEndOfEitherBufferTouchesNoNeighbour) {
  std::vector<Buffer> row;
  for (std::uint64_t i = 0; i < 4; ++i) row.push_back(filled(kBlock, i));
  bool adjacent = false;
  for (std::size_t i = 1; i < row.size(); ++i) adjacent |= row[i].address() == row[i - 1].address() + kBlock;
  ASSERT_TRUE(adjacent) << "the test means to have neighbours";
  const Buffer large = filled(4 * kBlock, 9);
  for (const std::size_t bytes : {kBlock + 1, 2 * kBlock, 4 * kBlock}) {
    for (const Buffer& buffer : row) {
      EXPECT_EQ(pool().copy(buffer.address(), large.address(), bytes).code(), StatusCode::kInvalidValue);
      EXPECT_EQ(pool().copy(large.address(), buffer.address(), bytes).code(), StatusCode::kInvalidValue);
    }
  }
  for (std::uint64_t i = 0; i < 4; ++i) expect_pattern(row[i], i);
  expect_pattern(large, 9);
}

INSTANTIATE_TEST_SUITE_P(Devices, PoolContentsTest, ::testing::Values(kAllCaps, kNoWindows, kNoCaps),
                         [](const auto& tested) {
                           return tested.param == kAllCaps     ? "WithWindows"
                                  : tested.param == kNoWindows ? "WithoutWindows"
                                                               : "NoCapabilities";
                         });

}  // namespace
}  // namespace vmem::test
