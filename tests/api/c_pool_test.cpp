#include <cstring>

#include "tests/api/c_machine.hpp"

namespace {

class CPoolTest : public CMachine {};

TEST_F(CPoolTest, APoolOpensItsOwnRuntime) {
  vmemPool_t pool = nullptr;
  ASSERT_OK(vmemPoolCreate(&pool, nullptr, nullptr));
  vmemRuntime_t runtime = nullptr;
  ASSERT_OK(vmemPoolGetRuntime(pool, &runtime));
  EXPECT_NE(runtime, runtime_);
  int count = 0;
  EXPECT_OK(vmemGetDeviceCount(runtime, &count));
  EXPECT_GE(count, 3);
  vmemAddress_t address = 0;
  EXPECT_OK(vmemMalloc(pool, &address, 4096));
  EXPECT_OK(vmemPoolDestroy(pool));
}

TEST_F(CPoolTest, APoolOfARuntimeLendsIt) {
  vmemRuntime_t runtime = nullptr;
  ASSERT_OK(vmemPoolGetRuntime(pool_, &runtime));
  EXPECT_EQ(runtime, runtime_);
}

TEST_F(CPoolTest, BuffersHoldWhatIsWritten) {
  const vmemAddress_t a = allocate(5 * kMiB + 123);
  const vmemAddress_t b = allocate(777);
  EXPECT_NE(a, b);
  const auto bytes_a = pattern(5 * kMiB + 123, 1);
  const auto bytes_b = pattern(777, 2);
  write(a, bytes_a);
  write(b, bytes_b);
  EXPECT_EQ(read(a, bytes_a.size()), bytes_a);
  EXPECT_EQ(read(b, bytes_b.size()), bytes_b);
  EXPECT_OK(vmemFree(pool_, a));
  EXPECT_EQ(read(b, bytes_b.size()), bytes_b);
  EXPECT_OK(vmemFree(pool_, b));
}

TEST_F(CPoolTest, ZeroedBuffersReadAsZero) {
  vmemMallocOptions_t options = VMEM_MALLOC_OPTIONS_INIT;
  options.zeroed = 1;
  options.preferred_device = other_gpu_;
  vmemAddress_t address = 0;
  ASSERT_OK(vmemMallocWithOptions(pool_, &address, 3 * kMiB, &options));
  EXPECT_EQ(read(address, 3 * kMiB), std::vector<unsigned char>(3 * kMiB, 0));
  EXPECT_OK(vmemFree(pool_, address));
}

TEST_F(CPoolTest, DestroyingAPoolFreesItsBuffers) {
  vmemPool_t pool = nullptr;
  ASSERT_OK(vmemPoolCreate(&pool, runtime_, nullptr));
  for (int i = 0; i < 10; ++i) {
    vmemAddress_t address = 0;
    ASSERT_OK(vmemMalloc(pool, &address, kMiB));
    ASSERT_OK(vmemMemset(pool, address, 1, kMiB));
  }
  EXPECT_OK(vmemPoolDestroy(pool));
}

TEST_F(CPoolTest, DestroyingAPoolTakesItsPinsWithIt) {
  vmemPool_t pool = nullptr;
  ASSERT_OK(vmemPoolCreate(&pool, runtime_, nullptr));
  for (const size_t bytes : {size_t{300}, 5 * kMiB}) {
    vmemAddress_t address = 0;
    ASSERT_OK(vmemMalloc(pool, &address, bytes));
    ASSERT_OK(vmemMemAdvise(pool, address, bytes, vmemAdvisePin, gpu_));
  }
  EXPECT_OK(vmemPoolDestroy(pool));
}

TEST_F(CPoolTest, APoolWithLiveAcquiresIsBusyAndWhole) {
  vmemPool_t pool = nullptr;
  ASSERT_OK(vmemPoolCreate(&pool, runtime_, nullptr));
  vmemAddress_t address = 0;
  ASSERT_OK(vmemMalloc(pool, &address, kMiB));
  ASSERT_OK(vmemMemset(pool, address, 5, kMiB));
  const vmemRange_t range = {address, kMiB, vmemAccessWrite};
  vmemAcquired_t acquired = nullptr;
  void* pointer = nullptr;
  ASSERT_OK(vmemAcquire(pool, host_, VMEM_NO_STREAM, &range, 1, &acquired, &pointer));
  EXPECT_FAILS(vmemErrorBusy, "1 acquires", vmemPoolDestroy(pool));
  EXPECT_EQ(*static_cast<unsigned char*>(pointer), 5) << "nothing was destroyed";
  std::memset(pointer, 6, kMiB);
  EXPECT_OK(vmemRelease(acquired));
  std::vector<unsigned char> back(kMiB);
  EXPECT_OK(vmemMemcpy(pool, VMEM_HOST_ADDRESS(back.data()), address, kMiB));
  EXPECT_EQ(back, std::vector<unsigned char>(kMiB, 6));
  EXPECT_OK(vmemPoolDestroy(pool));
}

TEST_F(CPoolTest, TranslateAnswersWithTheTablesEntry) {
  const vmemAddress_t address = allocate(2 * kMiB);
  vmemTranslation_t entry = VMEM_TRANSLATION_INIT;
  ASSERT_OK(vmemTranslate(pool_, address + 5, &entry));
  EXPECT_EQ(entry.virtual_address, address);
  EXPECT_EQ(entry.size, 2 * kMiB);
  EXPECT_EQ(entry.device, nullptr);
  EXPECT_EQ(entry.physical_address, 0U);
  EXPECT_EQ(entry.reference_count, 0U);

  // What is being written has no valid bytes anywhere until it is released.
  const vmemRange_t range = {address, 2 * kMiB, vmemAccessWrite};
  vmemAcquired_t acquired = nullptr;
  void* pointer = nullptr;
  ASSERT_OK(vmemAcquire(pool_, gpu_, VMEM_NO_STREAM, &range, 1, &acquired, &pointer));
  ASSERT_OK(vmemTranslate(pool_, address, &entry));
  EXPECT_EQ(entry.reference_count, 1U);
  EXPECT_OK(vmemRelease(acquired));
  ASSERT_OK(vmemTranslate(pool_, address + 5, &entry));
  EXPECT_EQ(entry.reference_count, 0U);
  EXPECT_EQ(entry.device, gpu_);
  EXPECT_EQ(entry.physical_address, VMEM_HOST_ADDRESS(pointer) + 5);
  EXPECT_OK(vmemFree(pool_, address));
  EXPECT_FAILS(vmemErrorInvalidValue, "", vmemTranslate(pool_, address, &entry));
  EXPECT_EQ(entry.virtual_address, 0U);
}

TEST_F(CPoolTest, StatsCountWhatHappened) {
  const vmemAddress_t address = allocate(4 * kMiB);
  write(address, pattern(4 * kMiB, 3));
  const vmemRange_t range = {address, 4 * kMiB, vmemAccessWrite};
  vmemAcquired_t acquired = nullptr;
  void* pointer = nullptr;
  ASSERT_OK(vmemAcquire(pool_, gpu_, VMEM_NO_STREAM, &range, 1, &acquired, &pointer));
  EXPECT_OK(vmemRelease(acquired));
  vmemStats_t stats = VMEM_STATS_INIT;
  ASSERT_OK(vmemGetStats(pool_, &stats));
  EXPECT_EQ(stats.buffers, 1U);
  EXPECT_EQ(stats.allocated_bytes, 4 * kMiB);
  EXPECT_GE(stats.acquires, 1U);
  EXPECT_GT(stats.fetched_bytes + stats.copied_bytes, 0U);
  vmemDeviceStats_t device = VMEM_DEVICE_STATS_INIT;
  ASSERT_OK(vmemGetDeviceStats(pool_, gpu_, &device));
  EXPECT_GE(device.used_bytes, 4 * kMiB);
  EXPECT_EQ(device.failed, 0);
  EXPECT_OK(vmemPoolGetStatus(pool_));
  EXPECT_OK(vmemFree(pool_, address));
}

TEST_F(CPoolTest, PrefetchBringsARangeToADevice) {
  const vmemAddress_t address = allocate(6 * kMiB);
  const auto bytes = pattern(6 * kMiB, 4);
  write(address, bytes);
  vmemPrefetch_t prefetch = nullptr;
  ASSERT_OK(vmemPrefetchAsync(pool_, address, 6 * kMiB, other_gpu_, &prefetch));
  EXPECT_OK(vmemPrefetchWait(prefetch));
  int done = 0;
  EXPECT_OK(vmemPrefetchQuery(prefetch, &done));
  EXPECT_EQ(done, 1);
  EXPECT_OK(vmemPrefetchCancel(prefetch));
  EXPECT_OK(vmemPrefetchWait(prefetch));
  EXPECT_OK(vmemPrefetchDestroy(prefetch));
  vmemTranslation_t entry = VMEM_TRANSLATION_INIT;
  ASSERT_OK(vmemTranslate(pool_, address, &entry));
  EXPECT_NE(entry.device, nullptr);
  // Without a handle.
  EXPECT_OK(vmemPrefetchAsync(pool_, address, 6 * kMiB, gpu_, nullptr));
  EXPECT_EQ(read(address, 6 * kMiB), bytes);
}

TEST_F(CPoolTest, APinKeepsABufferFromBeingFreed) {
  const vmemAddress_t address = allocate(2 * kMiB);
  ASSERT_OK(vmemMemset(pool_, address, 9, 2 * kMiB));
  ASSERT_OK(vmemMemAdvise(pool_, address, 2 * kMiB, vmemAdvisePin, gpu_));
  vmemTranslation_t entry = VMEM_TRANSLATION_INIT;
  ASSERT_OK(vmemTranslate(pool_, address, &entry));
  EXPECT_EQ(entry.reference_count, 1U);
  EXPECT_EQ(vmemFree(pool_, address), vmemErrorBusy);
  ASSERT_OK(vmemMemAdvise(pool_, address, 2 * kMiB, vmemAdviseUnpin, gpu_));
  ASSERT_OK(vmemMemAdvise(pool_, address, 2 * kMiB, vmemAdvisePreferDevice, other_gpu_));
  ASSERT_OK(vmemMemAdvise(pool_, address, 2 * kMiB, vmemAdviseNoPreference, nullptr));
  EXPECT_OK(vmemFree(pool_, address));
}

TEST_F(CPoolTest, OptionsReachThePool) {
  vmemPoolOptions_t options = VMEM_POOL_OPTIONS_INIT;
  const vmemDeviceLimit_t limit = {"sim:0", 8 * kMiB};
  options.name = "small";
  options.block_bytes = 2 * kMiB;
  options.fit = vmemFitWorst;
  options.placement = vmemPlacementFirstFit;
  options.limits = &limit;
  options.num_limits = 1;
  vmemPool_t pool = nullptr;
  ASSERT_OK(vmemPoolCreate(&pool, runtime_, &options));
  vmemDeviceStats_t stats = VMEM_DEVICE_STATS_INIT;
  EXPECT_OK(vmemGetDeviceStats(pool, gpu_, &stats));
  EXPECT_EQ(stats.limit_bytes, 8 * kMiB);
  vmemAddress_t address = 0;
  EXPECT_OK(vmemMalloc(pool, &address, 16 * kMiB));
  const vmemRange_t range = {address, 16 * kMiB, vmemAccessWriteDiscard};
  vmemAcquired_t acquired = nullptr;
  void* pointer = &acquired;
  EXPECT_EQ(vmemAcquire(pool, gpu_, VMEM_NO_STREAM, &range, 1, &acquired, &pointer), vmemErrorOutOfDeviceMemory);
  EXPECT_EQ(acquired, nullptr);
  EXPECT_EQ(pointer, nullptr);
  EXPECT_OK(vmemPoolDestroy(pool));
}

}  // namespace
