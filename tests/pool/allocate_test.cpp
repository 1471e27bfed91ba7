// Allocating and freeing: sizes that can't be, addresses that are none, buffers larger than the machine.
#include <algorithm>
#include <limits>

#include "tests/pool/pool_test.hpp"
#include "tests/support/huge.hpp"

namespace vmem::test {
namespace {

constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();

class PoolAllocateTest : public PoolTest {
 protected:
  void SetUp() override { make(); }
};

// Case C1.
TEST_F(PoolAllocateTest, SizesNearTheLargestNumberAreRefusedAndChangeNothing) {
  const Buffer neighbour = filled(5000, 1);
  const PoolStats before = pool().stats();
  for (const std::size_t bytes : {kMost, kMost - 3, kMost - 2_MiB - 1, kMost - 2_MiB, kMost - 2_MiB + 1, kMost - kBlock,
                                  kMost - kPageBytes, kMost / 2, kMost / 2 + 1}) {
    const auto buffer = pool().allocate(bytes);
    ASSERT_FALSE(buffer.has_value()) << bytes;
    EXPECT_EQ(buffer.error().code(), StatusCode::kOutOfAddresses) << bytes;
    EXPECT_FALSE(buffer.error().message().empty());
  }
  const PoolStats after = pool().stats();
  EXPECT_EQ(after.buffers, before.buffers);
  EXPECT_EQ(after.allocated_bytes, before.allocated_bytes);
  EXPECT_EQ(after.bookkeeping_bytes, before.bookkeeping_bytes);
  expect_pattern(neighbour, 1);
  EXPECT_TRUE(pool().allocate(1).has_value());
}

// Case C2.
TEST_F(PoolAllocateTest, ZeroBytesAreRefused) {
  EXPECT_EQ(pool().allocate(0).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(pool().allocate(0).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(pool().stats().buffers, 0U);
}

TEST_F(PoolAllocateTest, AnUnknownPreferredDeviceIsRefused) {
  BufferOptions options;
  options.preferred_device = "cuda:99";
  for (const std::size_t bytes : {std::size_t{100}, 2 * kBlock}) {
    const Status status = pool().allocate(bytes, options).error();
    EXPECT_EQ(status.code(), StatusCode::kInvalidValue);
    EXPECT_NE(status.message().find("cuda:99"), std::string_view::npos);
  }
  EXPECT_EQ(pool().stats().buffers, 0U);
}

// Case C5.
TEST_F(PoolAllocateTest, DoubleForeignAndInteriorFreesAreInvalid) {
  const Buffer small = filled(300, 1);
  const Buffer large = filled(3 * kBlock, 2);
  auto other_pool = machine().make_pool(pool().options());
  ASSERT_TRUE(other_pool.has_value());
  auto foreign = (*other_pool)->allocate(2 * kBlock);
  ASSERT_TRUE(foreign.has_value());
  int on_the_stack = 0;
  PoolAddress freed[2];
  std::size_t i = 0;
  for (const std::size_t bytes : {std::size_t{300}, 3 * kBlock}) {
    freed[i] = allocate(bytes).release();
    ASSERT_TRUE(pool().free(freed[i]).is_ok());
    ++i;
  }
  const PoolAddress bad[] = {freed[0],
                             freed[1],
                             0,
                             1,
                             kMost,
                             small.address() + 1,
                             small.address() + kPageBytes,
                             small.address() - 1,
                             large.address() + kPageBytes,
                             large.address() + kBlock,
                             large.address() + large.bytes(),
                             foreign->address(),
                             reinterpret_cast<PoolAddress>(&on_the_stack)};
  for (const PoolAddress address : bad) {
    const Status status = pool().free(address);
    EXPECT_EQ(status.code(), StatusCode::kInvalidValue) << std::hex << address;
    EXPECT_FALSE(status.message().empty());
  }
  expect_pattern(small, 1);
  expect_pattern(large, 2);
  EXPECT_TRUE(foreign->free().is_ok());
}

TEST_F(PoolAllocateTest, BuffersAreDisjointAlsoAfterWrongFrees) {
  std::vector<Buffer> buffers;
  const std::size_t sizes[] = {1, 100, kPageBytes, 5000, kBlock / 2, kBlock / 2 + 1, kBlock, 3 * kBlock + 1};
  for (int round = 0; round < 8; ++round) {
    for (const std::size_t bytes : sizes) buffers.push_back(allocate(bytes));
    for (std::size_t i = 0; i < buffers.size(); i += 3) {
      const PoolAddress address = buffers[i].address();
      if (address == 0) continue;
      ASSERT_TRUE(buffers[i].free().is_ok());
      EXPECT_FALSE(pool().free(address).is_ok());
      EXPECT_FALSE(pool().free(address + kPageBytes / 2).is_ok());
    }
  }
  std::erase_if(buffers, [](const Buffer& buffer) { return buffer.address() == 0; });
  std::sort(buffers.begin(), buffers.end(), [](const Buffer& a, const Buffer& b) { return a.address() < b.address(); });
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_TRUE(pool().contains(buffers[i].address()));
    EXPECT_TRUE(pool().contains(buffers[i].address() + buffers[i].bytes() - 1));
    EXPECT_EQ(buffers[i].address() % kPageBytes, 0U);
    if (i != 0) {
      EXPECT_LE(buffers[i - 1].address() + buffers[i - 1].bytes(), buffers[i].address());
    }
  }
}

TEST_F(PoolAllocateTest, AFreeOfAnAcquiredBufferIsBusyAndTheBytesStay) {
  for (const std::size_t bytes : {std::size_t{300}, 2 * kBlock}) {
    Buffer buffer = filled(bytes, 1);
    auto held = acquire(buffer.range(10, 1, Access::kRead), 1);
    ASSERT_TRUE(held.has_value());
    EXPECT_EQ(pool().free(buffer.address()).code(), StatusCode::kBusy);
    EXPECT_EQ(buffer.free().code(), StatusCode::kBusy);
    EXPECT_NE(buffer.address(), 0U) << "the buffer still owns it";
    expect_pattern(buffer, 1);
    EXPECT_TRUE(held->release().is_ok());
    EXPECT_TRUE(buffer.free().is_ok());
    EXPECT_EQ(buffer.address(), 0U);
    EXPECT_TRUE(buffer.free().is_ok()) << "an empty buffer has nothing to free";
  }
}

TEST_F(PoolAllocateTest, AHeldNeighbourInASharedBlockIsNoReasonToBeBusy) {
  const Buffer held_one = filled(300, 1);
  Buffer other = filled(300, 2);
  auto held = acquire(held_one.all(Access::kWrite), 0);
  ASSERT_TRUE(held.has_value());
  EXPECT_TRUE(other.free().is_ok());
  EXPECT_TRUE(held->release().is_ok());
  expect_pattern(held_one, 1);
}

TEST_F(PoolAllocateTest, MemoryIsTakenWhenItIsUsedAndGivenBackWhenItIsFreed) {
  Buffer buffer = allocate(4 * kBlock);
  for (const DeviceStats& device : pool().stats().devices) EXPECT_EQ(device.used_bytes, 0U);
  ASSERT_TRUE(fetch(buffer.range(kBlock, 1, Access::kWrite), 0).is_ok());
  EXPECT_EQ(pool().stats().devices[0].used_bytes, kBlock);
  ASSERT_TRUE(buffer.free().is_ok());
  EXPECT_EQ(pool().stats().devices[0].used_bytes, 0U);
}

TEST_F(PoolAllocateTest, HugeBuffersUsedSparselyKeepSmallBooks) {
  PoolOptions options;
  options.block_bytes = 1_MiB;
  options.address_bytes = std::size_t{4} << 40U;
  auto large_pool = machine().make_pool(options);
  ASSERT_TRUE(large_pool.has_value());
  auto buffer = (*large_pool)->allocate(kHugeBytes);
  ASSERT_TRUE(buffer.has_value()) << buffer.error().to_string();
  const std::uint64_t untouched = (*large_pool)->stats().bookkeeping_bytes;
  EXPECT_LT(untouched, 1_MiB) << kHugeBytes / 1_MiB << " blocks";
  EXPECT_EQ((*large_pool)->stats().allocated_bytes, kHugeBytes);
  const std::size_t offsets[] = {0, kHugeBytes / 3 + 5, kHugeBytes - 1};
  std::uint8_t value = 0;
  for (const std::size_t offset : offsets) {
    EXPECT_EQ((*large_pool)->translate(buffer->address() + offset)->device, "");
    ASSERT_TRUE((*large_pool)->fill(buffer->address() + offset, ++value, 1).is_ok());
  }
  value = 0;
  for (const std::size_t offset : offsets) {
    std::uint8_t found = 0;
    ASSERT_TRUE((*large_pool)->copy_out(&found, buffer->address() + offset, 1).is_ok());
    EXPECT_EQ(found, ++value);
  }
  EXPECT_EQ((*large_pool)->stats().blocks_touched, 3U);
  EXPECT_LT((*large_pool)->stats().bookkeeping_bytes - untouched, 16_KiB);
  EXPECT_TRUE(buffer->free().is_ok());
}

TEST_F(PoolAllocateTest, AddressesRunOutAndComeBack) {
  std::vector<Buffer> buffers;
  Status status;
  while (status) {
    auto buffer = pool().allocate(10_GiB);
    status = buffer.error();
    if (buffer) buffers.push_back(std::move(*buffer));
  }
  EXPECT_EQ(status.code(), StatusCode::kOutOfAddresses);
  EXPECT_EQ(buffers.size(), 6U) << "of 64 GiB";
  EXPECT_TRUE(pool().allocate(kBlock).has_value()) << "smaller ones still fit";
  buffers.pop_back();
  EXPECT_TRUE(pool().allocate(10_GiB).has_value());
}

}  // namespace
}  // namespace vmem::test
