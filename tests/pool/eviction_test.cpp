// Who leaves when room is needed, where to, and what keeps memory where it is.
#include "tests/pool/pool_test.hpp"

namespace vmem::test {
namespace {

constexpr std::size_t kFull = kUsableBlocks * kBlock;

class PoolEvictionTest : public PoolTest {
 protected:
  // GPUs alone: host memory takes no frames.
  static PoolMachineSpec without_host(std::size_t num_gpus) {
    PoolMachineSpec spec;
    spec.gpu_bytes.assign(num_gpus, 8 * kBlock);
    spec.pool.limits["host:0"] = 0;
    return spec;
  }
  AcquireRange block_of(const Buffer& buffer, std::size_t index, Access access) {
    return buffer.range(index * kBlock, kBlock, access);
  }
  // Takes one block to a device where it becomes the only copy; its bytes are checked on the way.
  Status take_over(const Buffer& buffer, std::size_t index, DeviceIndex device, std::uint64_t seed) {
    VMEM_ASSIGN_OR_RETURN(Acquired acquired,
                          acquire(block_of(buffer, index, Access::kWrite), device, {}, std::chrono::hours(1)));
    const Bytes all = test_pattern(buffer.bytes(), seed);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(index * kBlock);
    expect_same(read(device, acquired.data(), kBlock), Bytes(begin, begin + static_cast<std::ptrdiff_t>(kBlock)));
    return acquired.release();
  }
};

TEST_F(PoolEvictionTest, EvictedBlocksGoToHostMemoryAndComeBackWithTheirBytes) {
  make(one_gpu());
  const Buffer a = filled_on(0, kFull, 1);
  EXPECT_EQ(resident(a, 0), kFull);
  const Buffer b = filled_on(0, kFull, 2);
  EXPECT_EQ(resident(a, 0), 0U);
  EXPECT_EQ(resident(a, host()), kFull);
  EXPECT_EQ(moved(0, host()).evicted_bytes, kFull);
  EXPECT_EQ(pool().stats().evictions, kUsableBlocks);
  auto again = acquire(a.all(Access::kRead), 0);
  ASSERT_TRUE(again.has_value()) << again.error().to_string();
  expect_same(read(0, again->data(), kFull), test_pattern(kFull, 1));
  ASSERT_TRUE(again->release().is_ok());
  EXPECT_EQ(resident(b, host()), kFull);
  expect_pattern(b, 2);
}

TEST_F(PoolEvictionTest, LeavesWhatOthersHoldOfADeviceToThem) {
  make(one_gpu());
  Device& gpu = machine().device(0);
  // Not the pool's, but within its limit.
  const auto others = gpu.allocate(3 * kBlock);
  ASSERT_TRUE(others.has_value()) << others.error().to_string();
  const Buffer a = filled_on(0, 4 * kBlock, 1);
  const Buffer b = filled_on(0, 4 * kBlock, 2);
  expect_pattern(a, 1);
  expect_pattern(b, 2);
  EXPECT_LE(resident(a, 0) + resident(b, 0), 5 * kBlock);
  EXPECT_GT(pool().stats().evictions, 0U);
  // A list that fits beside them still does; what they give back can be used again.
  ASSERT_TRUE(fetch(b.range(0, 4 * kBlock, Access::kRead), 0).is_ok());
  ASSERT_TRUE(gpu.deallocate(*others).is_ok());
  const Buffer c = filled_on(0, kFull, 3);
  EXPECT_EQ(resident(c, 0), kFull);
  expect_pattern(c, 3);
}

// Without windows an extent of two blocks holds one that the list needs where it is, and one that has to move.
TEST_F(PoolEvictionTest, AListsOwnBlockIsNotEvictedForItsOtherRange) {
  PoolMachineSpec spec = one_gpu();
  spec.caps = DeviceCaps(kNoWindows);
  make(spec);
  const Buffer a = filled(3 * kBlock, 1);
  ASSERT_TRUE(fetch(a.range(0, 2 * kBlock, Access::kWrite), 0).is_ok());
  const Buffer others = allocate(5 * kBlock);
  auto held = acquire(others.all(Access::kWriteDiscard), 0);
  ASSERT_TRUE(held.has_value()) << held.error().to_string();
  const std::vector<AcquireRange> list = {block_of(a, 0, Access::kRead), a.range(kBlock, 2 * kBlock, Access::kRead)};
  AcquireOptions options;
  options.device = 0;
  options.deadline = std::chrono::milliseconds(1);
  EXPECT_EQ(pool().acquire(list, options).error().code(), StatusCode::kBusy);
  ASSERT_TRUE(held->release().is_ok());
  auto acquired = pool().acquire(list, options);
  ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
  const Bytes all = test_pattern(3 * kBlock, 1);
  expect_same(read(0, acquired->data(0), kBlock), Bytes(all.begin(), all.begin() + kBlock));
  expect_same(read(0, acquired->data(1), 2 * kBlock), Bytes(all.begin() + kBlock, all.end()));
}

TEST_F(PoolEvictionTest, CleanCopiesAreDroppedWithoutACopy) {
  make(one_gpu());
  const Buffer a = filled(kFull, 1);  // owned by host memory
  ASSERT_TRUE(fetch(a.all(Access::kRead), 0).is_ok());
  EXPECT_EQ(resident(a, 0), kFull);
  const Buffer b = filled(kFull, 2);
  ASSERT_TRUE(fetch(b.all(Access::kRead), 0).is_ok());
  EXPECT_EQ(resident(a, 0), 0U);
  EXPECT_EQ(resident(b, 0), kFull);
  EXPECT_EQ(pool().stats().evictions, kUsableBlocks);
  EXPECT_EQ(moved(0, host()).evicted_bytes, 0U);
  EXPECT_EQ(moved(host(), 0).fetched_bytes, 2 * kFull);
  expect_pattern(a, 1);
}

TEST_F(PoolEvictionTest, TheBlockUsedFurthestBackLeaves) {
  make(one_gpu());
  const Buffer a = filled_on(0, kFull, 1);
  const Buffer b = filled(2 * kBlock, 2);
  // A fetch begins an epoch; blocks 0 and 1 are used in one that is younger than all others'.
  ASSERT_TRUE(fetch(block_of(b, 0, Access::kRead), 0).is_ok());
  EXPECT_EQ(pool().residency(a.address(), kBlock)->at(0), 0U) << "block 0 was written first";
  ASSERT_TRUE(fetch(block_of(a, 1, Access::kRead), 0).is_ok());
  ASSERT_TRUE(fetch(block_of(b, 1, Access::kRead), 0).is_ok());
  EXPECT_EQ(pool().residency(a.address() + kBlock, kBlock)->at(0), kBlock) << "block 1 was used again";
  EXPECT_EQ(pool().residency(a.address() + 2 * kBlock, kBlock)->at(0), 0U);
}

TEST_F(PoolEvictionTest, WhatWasFetchedLastIsYoungerThanAllThatWasThere) {
  make(one_gpu());
  const Buffer a = filled_on(0, kFull, 1);
  const Buffer b = filled(3 * kBlock, 2);
  for (std::size_t i = 0; i < 2; ++i) {
    // All are used since the last fetch, and are dearer to evict than b's, of which host memory has copies.
    for (std::size_t block = i; block < kUsableBlocks; ++block) {
      ASSERT_TRUE(fetch(block_of(a, block, Access::kWrite), 0).is_ok());
    }
    ASSERT_TRUE(fetch(block_of(b, i, Access::kRead), 0).is_ok());
    ASSERT_TRUE(fetch(block_of(b, i + 1, Access::kRead), 0).is_ok());
    EXPECT_EQ(pool().residency(b.address() + i * kBlock, 2 * kBlock)->at(0), 2 * kBlock);
  }
}

TEST_F(PoolEvictionTest, NoBlockOfTheListLeavesForAnotherOfIt) {
  for (const std::uint32_t caps : {kAllCaps, kNoWindows}) {
    PoolMachineSpec spec = one_gpu();
    spec.caps = DeviceCaps(caps);
    make(spec);
    {
      const Buffer a = filled_on(0, kFull, 1);
      const Buffer b = filled(kFull, 2);
      // The oldest and cheapest to evict of all are those that the list has there already.
      ASSERT_TRUE(fetch(block_of(b, 0, Access::kRead), 0).is_ok());
      ASSERT_TRUE(fetch(block_of(b, 4, Access::kRead), 0).is_ok());
      for (std::size_t i = 0; i < kUsableBlocks; ++i) {
        if (pool().residency(a.address() + i * kBlock, kBlock)->at(0) == 0) continue;
        ASSERT_TRUE(fetch(block_of(a, i, Access::kWrite), 0).is_ok());
      }
      const std::uint64_t fetched = moved(host(), 0).fetched_bytes;
      auto acquired = acquire({block_of(b, 0, Access::kRead), block_of(b, 2, Access::kRead),
                               block_of(b, 4, Access::kRead), block_of(b, 6, Access::kRead)},
                              0);
      ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
      EXPECT_EQ(moved(host(), 0).fetched_bytes - fetched, 2 * kBlock) << "two of the four were there";
      const Bytes all = test_pattern(kFull, 2);
      for (std::size_t i = 0; i < 4; ++i) {
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(2 * i * kBlock);
        expect_same(read(0, acquired->data(i), kBlock), Bytes(begin, begin + static_cast<std::ptrdiff_t>(kBlock)));
      }
    }
    machine_.reset();
  }
}

TEST_F(PoolEvictionTest, ThePreferredDeviceWins) {
  make();
  for (const DeviceIndex preferred : {DeviceIndex{1}, host()}) {
    SCOPED_TRACE(name_of(preferred));
    BufferOptions options;
    options.preferred_device = name_of(preferred);
    const Buffer a = allocate(2 * kBlock, options);
    const Bytes pattern = test_pattern(a.bytes(), 1);
    ASSERT_TRUE(pool().copy_in(a.address(), pattern.data(), pattern.size()).is_ok());
    EXPECT_EQ(resident(a, preferred), a.bytes()) << "its bytes go there first";
    ASSERT_TRUE(fetch(a.all(Access::kWrite), 0).is_ok());
    EXPECT_EQ(resident(a, preferred), 0U);
    ASSERT_TRUE(fetch(filled_on(host(), kFull, 2).all(Access::kRead), 0).is_ok());
    EXPECT_EQ(resident(a, preferred), a.bytes()) << "and return to it";
    expect_pattern(a, 1);
  }
}

TEST_F(PoolEvictionTest, APreferenceCanBeGivenAndTakenBackLater) {
  make();
  const Buffer a = filled_on(0, 2 * kBlock, 1);
  ASSERT_TRUE(pool().advise(a.address(), a.bytes(), Advice::kPreferDevice, 1).is_ok());
  ASSERT_TRUE(fetch(filled(kFull, 2).all(Access::kRead), 0).is_ok());
  EXPECT_EQ(resident(a, 1), a.bytes());
  ASSERT_TRUE(pool().advise(a.address(), a.bytes(), Advice::kPreferDevice, host()).is_ok());
  ASSERT_TRUE(fetch(a.all(Access::kWrite), 0).is_ok());
  ASSERT_TRUE(fetch(filled(kFull, 3).all(Access::kRead), 0).is_ok());
  EXPECT_EQ(resident(a, host()), a.bytes());
  EXPECT_TRUE(pool().advise(a.address(), a.bytes(), Advice::kNoPreference, 0).is_ok());
  EXPECT_EQ(pool().advise(a.address(), a.bytes(), Advice::kPreferDevice, 9).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(pool().advise(a.address(), a.bytes(), static_cast<Advice>(9), 0).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(pool().advise(a.address(), a.bytes() + 1, Advice::kPin, 0).code(), StatusCode::kInvalidValue);
  expect_pattern(a, 1);
}

TEST_F(PoolEvictionTest, ASmallBufferMayPreferADeviceTooWhenItIsAllocated) {
  make();
  BufferOptions options;
  options.preferred_device = name_of(1);
  const Buffer small = allocate(300, options);
  const Buffer neighbour = filled(300, 2);
  const Bytes pattern = test_pattern(300, 1);
  ASSERT_TRUE(pool().copy_in(small.address(), pattern.data(), pattern.size()).is_ok());
  EXPECT_EQ(pool().translate(small.address())->device, name_of(1));
  EXPECT_EQ(pool().translate(neighbour.address())->device, name_of(host()));
  EXPECT_EQ(pool().advise(neighbour.address(), 300, Advice::kPreferDevice, 1).code(), StatusCode::kUnsupported)
      << "it shares its block";
  expect_pattern(small, 1);
  expect_pattern(neighbour, 2);
}

TEST_F(PoolEvictionTest, APinKeepsMemoryAndCountsAsAReference) {
  make();
  Buffer a = filled(4 * kBlock, 1);
  const Buffer b = filled(4 * kBlock, 2);
  ASSERT_TRUE(pool().advise(a.address(), a.bytes(), Advice::kPin, 0).is_ok());
  EXPECT_EQ(resident(a, 0), a.bytes()) << "a pin fetches";
  EXPECT_EQ(pool().stats().devices[0].pinned_bytes, a.bytes());
  EXPECT_GT(references(a), 0U);
  EXPECT_EQ(fetch(b.all(Access::kRead), 0).code(), StatusCode::kBusy);
  EXPECT_EQ(pool().free(a.address()).code(), StatusCode::kBusy);
  expect_pattern(a, 1);
  ASSERT_TRUE(pool().advise(a.address(), a.bytes(), Advice::kUnpin, 0).is_ok());
  EXPECT_EQ(references(a), 0U);
  EXPECT_EQ(pool().stats().devices[0].pinned_bytes, 0U);
  EXPECT_TRUE(fetch(b.all(Access::kRead), 0).is_ok());
  EXPECT_TRUE(a.free().is_ok());
}

TEST_F(PoolEvictionTest, TwoPinsNeedTwoUnpins) {
  make();
  const Buffer a = filled(kBlock, 1);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(pool().advise(a.address(), a.bytes(), Advice::kPin, 0).is_ok());
  EXPECT_EQ(references(a), 2U);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(pool().advise(a.address(), a.bytes(), Advice::kUnpin, 0).is_ok());
  EXPECT_EQ(references(a), 0U);
  EXPECT_EQ(pool().advise(a.address(), a.bytes(), Advice::kUnpin, 0).code(), StatusCode::kInvalidValue);
}

TEST_F(PoolEvictionTest, AnUnpinOfWhatIsNotPinnedChangesNothing) {
  make();
  const Buffer a = filled(3 * kBlock, 1);
  ASSERT_TRUE(pool().advise(a.address(), kBlock, Advice::kPin, 0).is_ok());
  EXPECT_EQ(pool().advise(a.address(), a.bytes(), Advice::kUnpin, 0).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(pool().advise(a.address(), kBlock, Advice::kUnpin, 1).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(references(a), 1U) << "the pin of block 0 is still there";
  EXPECT_TRUE(pool().advise(a.address(), kBlock, Advice::kUnpin, 0).is_ok());
}

TEST_F(PoolEvictionTest, PinnedPagesMayBeWrittenByAcquiresAndReadElsewhere) {
  make();
  const Buffer a = filled(2 * kBlock, 1);
  ASSERT_TRUE(pool().advise(a.address(), a.bytes(), Advice::kPin, 0).is_ok());
  auto acquired = acquire(a.all(Access::kWrite), 0);
  ASSERT_TRUE(acquired.has_value());
  const Bytes fresh = test_pattern(a.bytes(), 2);
  write(0, acquired->data(), fresh.data(), fresh.size());
  void* const address = acquired->data();
  ASSERT_TRUE(acquired->release().is_ok());
  auto elsewhere = acquire(a.all(Access::kRead), 1);
  ASSERT_TRUE(elsewhere.has_value());
  expect_same(read(1, elsewhere->data(), a.bytes()), fresh);
  auto again = acquire(a.all(Access::kRead), 0);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->data(), address) << "pinned memory stays where it is";
  ASSERT_TRUE(pool().advise(a.address(), a.bytes(), Advice::kUnpin, 0).is_ok());
}

TEST_F(PoolEvictionTest, WhereNothingCanLeaveItSaysSoAndNothingIsLost) {
  make(without_host(1));
  const Buffer a = filled_on(0, kFull, 1);
  const Buffer b = allocate(2 * kBlock);
  auto refused = acquire(b.all(Access::kWriteDiscard), 0, {}, std::chrono::hours(1));
  EXPECT_EQ(refused.error().code(), StatusCode::kOutOfHostMemory) << refused.error().to_string();
  EXPECT_EQ(acquire(a.all(Access::kRead), host()).error().code(), StatusCode::kOutOfDeviceMemory) << "limit 0";
  EXPECT_EQ(resident(a, 0), kFull);
  auto held = acquire(a.all(Access::kRead), 0);
  ASSERT_TRUE(held.has_value());
  expect_same(read(0, held->data(), kFull), test_pattern(kFull, 1));
}

TEST_F(PoolEvictionTest, TwoFullDevicesExchangeThroughTheirSpareFrames) {
  make(without_host(2));
  const Buffer a = filled_on(0, kFull, 1);
  const Buffer b = filled_on(1, kFull, 2);
  for (std::size_t i = 0; i < kUsableBlocks; ++i) {
    SCOPED_TRACE(i);
    Status status = take_over(a, i, 1, 1);
    EXPECT_TRUE(status.is_ok()) << status.to_string();
    status = take_over(b, i, 0, 2);
    EXPECT_TRUE(status.is_ok()) << status.to_string();
  }
  for (std::size_t i = 0; i < kUsableBlocks; ++i) {
    SCOPED_TRACE(i);
    EXPECT_TRUE(take_over(a, i, 1, 1).is_ok());
    EXPECT_TRUE(take_over(b, i, 0, 2).is_ok());
  }
}

TEST_F(PoolEvictionTest, TwoFullDevicesExchangeFromTwoThreads) {
  make(without_host(2));
  const Buffer a = filled_on(0, kFull, 1);
  const Buffer b = filled_on(1, kFull, 2);
  std::vector<std::thread> threads;
  for (const DeviceIndex target : {DeviceIndex{0}, DeviceIndex{1}}) {
    threads.emplace_back([&, target] {
      const Buffer& buffer = target == 1 ? a : b;
      for (std::size_t i = 0; i < kUsableBlocks; ++i) {
        const Status status = take_over(buffer, i, target, target == 1 ? 1 : 2);
        EXPECT_TRUE(status.is_ok()) << "block " << i << " to " << target << ": " << status.to_string();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (std::size_t i = 0; i < kUsableBlocks; ++i) {
    EXPECT_TRUE(take_over(a, i, 0, 1).is_ok());
    EXPECT_TRUE(take_over(b, i, 1, 2).is_ok());
  }
}

TEST_F(PoolEvictionTest, ABufferLargerThanAllDevicesPassesThroughThem) {
  make();
  const Buffer buffer = filled(40 * kBlock + 1234, 1);
  Bytes expected = test_pattern(buffer.bytes(), 1);
  for (std::size_t offset = 0; offset < buffer.bytes(); offset += 3 * kBlock) {
    const std::size_t bytes = std::min(3 * kBlock, buffer.bytes() - offset);
    const DeviceIndex device = offset / kBlock % 2;
    auto acquired = acquire(buffer.range(offset, bytes, Access::kWrite), device);
    ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
    Bytes found = read(device, acquired->data(), bytes);
    const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(offset);
    expect_same(found, Bytes(begin, begin + static_cast<std::ptrdiff_t>(bytes)));
    for (auto& byte : found) ++byte;
    write(device, acquired->data(), found.data(), bytes);
    std::copy(found.begin(), found.end(), begin);
    ASSERT_TRUE(acquired->release().is_ok());
  }
  expect_same(bytes_of(buffer), expected);
  for (DeviceIndex device = 0; device < 2; ++device) {
    EXPECT_LE(pool().stats().devices[device].peak_bytes, pool().stats().devices[device].limit_bytes);
  }
}

}  // namespace
}  // namespace vmem::test
