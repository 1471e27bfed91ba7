// What a program can get wrong: each time a status that says what and why, and nothing lost.
#include <cstring>
#include <limits>

#include "tests/api/c_machine.hpp"

namespace {

constexpr size_t kHuge = std::numeric_limits<size_t>::max();

class CBadInputTest : public CMachine {
 protected:
  void SetUp() override {
    CMachine::SetUp();
    before_ = allocate(kMiB);
    address_ = allocate(3 * kMiB);
    after_ = allocate(kMiB);
    bytes_ = pattern(3 * kMiB, 11);
    write(before_, std::vector<unsigned char>(kMiB, 0xB0));
    write(address_, bytes_);
    write(after_, std::vector<unsigned char>(kMiB, 0xAF));
    stats_ = stats();
  }

  // Neighbours and figures are what they were.
  void TearDown() override {
    EXPECT_EQ(read(before_, kMiB), std::vector<unsigned char>(kMiB, 0xB0));
    EXPECT_EQ(read(after_, kMiB), std::vector<unsigned char>(kMiB, 0xAF));
    EXPECT_EQ(read(address_, bytes_.size()), bytes_);
    const vmemStats_t now = stats();
    EXPECT_EQ(now.buffers, stats_.buffers);
    EXPECT_EQ(now.allocated_bytes, stats_.allocated_bytes);
    for (vmemDevice_t device : {gpu_, other_gpu_, host_}) {
      vmemDeviceStats_t figures = VMEM_DEVICE_STATS_INIT;
      EXPECT_OK(vmemGetDeviceStats(pool_, device, &figures));
      EXPECT_EQ(figures.pinned_bytes, 0U);
    }
    for (const vmemAddress_t address : {before_, address_, after_}) EXPECT_OK(vmemFree(pool_, address));
    CMachine::TearDown();
  }

  vmemStats_t stats() {
    vmemStats_t stats = VMEM_STATS_INIT;
    EXPECT_OK(vmemGetStats(pool_, &stats));
    return stats;
  }

  vmemStatus_t acquire(const vmemRange_t& range, vmemDevice_t device, vmemStream_t stream = VMEM_NO_STREAM) {
    vmemAcquired_t acquired = reinterpret_cast<vmemAcquired_t>(this);
    void* pointer = this;
    const vmemStatus_t status = vmemAcquire(pool_, device, stream, &range, 1, &acquired, &pointer);
    if (status == vmemSuccess) {
      EXPECT_OK(vmemRelease(acquired));
    } else {
      EXPECT_EQ(acquired, nullptr);
      EXPECT_EQ(pointer, nullptr);
    }
    return status;
  }

  vmemAddress_t before_ = 0;
  vmemAddress_t address_ = 0;
  vmemAddress_t after_ = 0;
  std::vector<unsigned char> bytes_;
  vmemStats_t stats_ = VMEM_STATS_INIT;
};

TEST_F(CBadInputTest, ZeroBytesAreNoBuffer) {
  vmemAddress_t address = 0xdead;
  EXPECT_EQ(vmemMalloc(pool_, &address, 0), vmemErrorInvalidValue);
  EXPECT_EQ(address, 0U);
  EXPECT_OK(vmemFree(pool_, 0));
  EXPECT_OK(vmemFree(pool_, 0));
}

TEST_F(CBadInputTest, HugeAndOverflowingSizesAreOutOfAddresses) {
  for (const size_t bytes : {kHuge, kHuge - 3, kHuge - 2 * kMiB, kHuge - 2 * kMiB + 1, kHuge - 2 * kMiB - 1,
                             size_t{1} << 63U, size_t{1} << 50U}) {
    vmemAddress_t address = 0xdead;
    EXPECT_EQ(vmemMalloc(pool_, &address, bytes), vmemErrorOutOfAddresses) << bytes;
    EXPECT_EQ(address, 0U);
  }
}

TEST_F(CBadInputTest, OnlyABuffersFirstByteFreesIt) {
  int on_stack = 0;
  EXPECT_EQ(vmemFree(pool_, address_ + 4096), vmemErrorInvalidValue);
  EXPECT_EQ(vmemFree(pool_, address_ + 1), vmemErrorInvalidValue);
  EXPECT_EQ(vmemFree(pool_, VMEM_HOST_ADDRESS(&on_stack)), vmemErrorInvalidValue);
  EXPECT_EQ(vmemFree(pool_, UINT64_MAX), vmemErrorInvalidValue);
  EXPECT_EQ(vmemFree(pool_, address_ + (uint64_t{1} << 40U)), vmemErrorInvalidValue);
}

TEST_F(CBadInputTest, ADoubleFreeIsNoticed) {
  const vmemAddress_t address = allocate(2 * kMiB);
  EXPECT_OK(vmemFree(pool_, address));
  EXPECT_EQ(vmemFree(pool_, address), vmemErrorInvalidValue);
  const vmemAddress_t small = allocate(100);
  EXPECT_OK(vmemFree(pool_, small));
  EXPECT_EQ(vmemFree(pool_, small), vmemErrorInvalidValue);
}

TEST_F(CBadInputTest, AnotherPoolsAddressIsForeign) {
  vmemPool_t other = nullptr;
  ASSERT_OK(vmemPoolCreate(&other, runtime_, nullptr));
  EXPECT_EQ(vmemFree(other, address_), vmemErrorInvalidValue);
  vmemTranslation_t entry = VMEM_TRANSLATION_INIT;
  EXPECT_EQ(vmemTranslate(other, address_, &entry), vmemErrorInvalidValue);
  const vmemRange_t range = {address_, 4096, vmemAccessRead};
  vmemAcquired_t acquired = nullptr;
  void* pointer = nullptr;
  EXPECT_EQ(vmemAcquire(other, gpu_, VMEM_NO_STREAM, &range, 1, &acquired, &pointer), vmemErrorInvalidValue);
  EXPECT_OK(vmemPoolDestroy(other));
}

TEST_F(CBadInputTest, RangesEndInsideTheirBuffer) {
  EXPECT_EQ(acquire({address_, 3 * kMiB + 1, vmemAccessRead}, gpu_), vmemErrorInvalidValue);
  EXPECT_EQ(acquire({address_ + 3 * kMiB, 1, vmemAccessRead}, gpu_), vmemErrorInvalidValue);
  EXPECT_EQ(acquire({address_ + 4096, kHuge, vmemAccessRead}, gpu_), vmemErrorInvalidValue);
  EXPECT_EQ(acquire({address_, 0, vmemAccessRead}, gpu_), vmemErrorInvalidValue);
  EXPECT_EQ(acquire({0, 4096, vmemAccessRead}, gpu_), vmemErrorInvalidValue);
  EXPECT_EQ(acquire({UINT64_MAX, 4096, vmemAccessRead}, gpu_), vmemErrorInvalidValue);
  std::vector<unsigned char> host(4 * kMiB);
  EXPECT_EQ(vmemMemcpy(pool_, VMEM_HOST_ADDRESS(host.data()), address_, 3 * kMiB + 1), vmemErrorInvalidValue);
  EXPECT_EQ(vmemMemcpy(pool_, address_ + 1, VMEM_HOST_ADDRESS(host.data()), 3 * kMiB), vmemErrorInvalidValue);
  EXPECT_EQ(vmemMemset(pool_, address_, 0, 3 * kMiB + 1), vmemErrorInvalidValue);
  EXPECT_EQ(vmemMemset(pool_, address_, 0, kHuge), vmemErrorInvalidValue);
  EXPECT_EQ(vmemPrefetchAsync(pool_, address_, 3 * kMiB + 1, gpu_, nullptr), vmemErrorInvalidValue);
  EXPECT_EQ(vmemMemAdvise(pool_, address_, 3 * kMiB + 1, vmemAdvisePin, gpu_), vmemErrorInvalidValue);
}

TEST_F(CBadInputTest, OverlapsThatAreNotBothReadAreRefused) {
  const vmemRange_t ranges[] = {{address_, 8192, vmemAccessRead}, {address_ + 4096, 8192, vmemAccessWrite}};
  vmemAcquired_t acquired = nullptr;
  void* pointers[2] = {this, this};
  EXPECT_EQ(vmemAcquire(pool_, gpu_, VMEM_NO_STREAM, ranges, 2, &acquired, pointers), vmemErrorInvalidValue);
  EXPECT_EQ(pointers[0], nullptr);
  EXPECT_EQ(pointers[1], nullptr);
  EXPECT_FAILS(vmemErrorInvalidValue, "overlap", vmemMemcpy(pool_, address_, address_ + 4096, 8192));
  EXPECT_FAILS(vmemErrorInvalidValue, "overlap", vmemMemcpy(pool_, address_ + 4096, address_, 8192));
}

TEST_F(CBadInputTest, AnotherDevicesStreamIsRefused) {
  vmemStream_t stream = nullptr;
  ASSERT_OK(vmemStreamCreate(other_gpu_, &stream));
  EXPECT_EQ(acquire({address_, 4096, vmemAccessRead}, gpu_, stream), vmemErrorInvalidValue);
  int no_stream = 0;
  EXPECT_EQ(acquire({address_, 4096, vmemAccessRead}, gpu_, &no_stream), vmemErrorInvalidValue);
  std::vector<unsigned char> host(4096);
  vmemEvent_t event = reinterpret_cast<vmemEvent_t>(this);
  EXPECT_EQ(vmemMemcpyAsync(pool_, VMEM_HOST_ADDRESS(host.data()), address_, 4096, gpu_, stream, &event),
            vmemErrorInvalidValue);
  EXPECT_EQ(event, nullptr);
  EXPECT_EQ(vmemCopy(host_, host.data(), stream, host_, host.data(), VMEM_NO_STREAM, 1), vmemErrorInvalidValue);
  EXPECT_OK(vmemStreamDestroy(other_gpu_, stream));
}

TEST_F(CBadInputTest, ADeviceOfAnotherRuntimeIsRefused) {
  vmemRuntime_t runtime = nullptr;
  ASSERT_OK(vmemRuntimeCreate(&runtime, nullptr));
  vmemDevice_t foreign = nullptr;
  ASSERT_OK(vmemGetDevice(runtime, 0, &foreign));
  EXPECT_EQ(acquire({address_, 4096, vmemAccessRead}, foreign), vmemErrorInvalidValue);
  EXPECT_EQ(vmemPrefetchAsync(pool_, address_, 4096, foreign, nullptr), vmemErrorInvalidValue);
  vmemMallocOptions_t options = VMEM_MALLOC_OPTIONS_INIT;
  options.preferred_device = foreign;
  vmemAddress_t address = 1;
  EXPECT_FAILS(vmemErrorInvalidValue, "another runtime", vmemMallocWithOptions(pool_, &address, 4096, &options));
  EXPECT_EQ(address, 0U);
  char byte = 0;
  EXPECT_FAILS(vmemErrorInvalidValue, "different runtimes",
               vmemCopy(foreign, &byte, VMEM_NO_STREAM, host_, &byte, VMEM_NO_STREAM, 1));
  EXPECT_OK(vmemRuntimeDestroy(runtime));
}

TEST_F(CBadInputTest, ImpossiblePoolsAreRefused) {
  const auto refused = [&](const char* text, auto change) {
    vmemPoolOptions_t options = VMEM_POOL_OPTIONS_INIT;
    change(options);
    vmemPool_t pool = pool_;
    const vmemStatus_t status = vmemPoolCreate(&pool, runtime_, &options);
    EXPECT_EQ(pool, nullptr);
    EXPECT_NE(std::string(vmemGetLastErrorMessage()).find(text), std::string::npos) << vmemGetLastErrorMessage();
    return status;
  };
  const vmemDeviceLimit_t unknown = {"cuda:77", kMiB};
  const vmemDeviceLimit_t unnamed = {nullptr, kMiB};
  const vmemDeviceLimit_t twice[] = {{"sim:0", kMiB}, {"sim:0", kMiB}};
  EXPECT_EQ(refused("block_bytes", [](auto& o) { o.block_bytes = 3 * kMiB; }), vmemErrorInvalidValue);
  EXPECT_EQ(refused("block_bytes", [](auto& o) { o.block_bytes = 4096; }), vmemErrorInvalidValue);
  EXPECT_EQ(refused("cuda:77", [&](auto& o) { o.limits = &unknown, o.num_limits = 1; }), vmemErrorInvalidValue);
  EXPECT_EQ(refused("NULL", [&](auto& o) { o.limits = &unnamed, o.num_limits = 1; }), vmemErrorInvalidValue);
  EXPECT_EQ(refused("'limits' is NULL", [](auto& o) { o.num_limits = 1; }), vmemErrorInvalidValue);
  EXPECT_EQ(refused("twice", [&](auto& o) { o.limits = twice, o.num_limits = 2; }), vmemErrorInvalidValue);
  EXPECT_EQ(refused("acquire_deadline", [](auto& o) { o.acquire_deadline_ms = -2; }), vmemErrorInvalidValue);
  EXPECT_EQ(refused("fit", [](auto& o) { std::memset(&o.fit, 0x7F, sizeof(o.fit)); }), vmemErrorInvalidValue);
  EXPECT_EQ(refused("placement", [](auto& o) { std::memset(&o.placement, 0x7F, sizeof(o.placement)); }),
            vmemErrorInvalidValue);
}

TEST_F(CBadInputTest, ValuesThatAreNoEnumeratorsAreNamed) {
  vmemRange_t range = {address_, 4096, vmemAccessRead};
  const int wrong = 77;
  std::memcpy(&range.access, &wrong, sizeof(wrong));
  EXPECT_EQ(acquire(range, gpu_), vmemErrorInvalidValue);
  EXPECT_NE(std::string(vmemGetLastErrorMessage()).find("access is 77"), std::string::npos);
  vmemAdvice_t advice = vmemAdvisePin;
  std::memcpy(&advice, &wrong, sizeof(wrong));
  EXPECT_FAILS(vmemErrorInvalidValue, "advice is 77", vmemMemAdvise(pool_, address_, 4096, advice, gpu_));
}

TEST_F(CBadInputTest, MemcpyRefusesWhatIsNoMemory) {
  char byte = 0;
  EXPECT_FAILS(vmemErrorInvalidValue, "'dst' is 0", vmemMemcpy(pool_, 0, address_, 1));
  EXPECT_FAILS(vmemErrorInvalidValue, "'src' is 0", vmemMemcpy(pool_, address_, 0, 1));
  EXPECT_FAILS(vmemErrorInvalidValue, "past the end", vmemMemcpy(pool_, address_, VMEM_HOST_ADDRESS(&byte), kHuge));
  // An address of the pool's range that no buffer has is never taken for a host pointer.
  EXPECT_EQ(vmemMemcpy(pool_, VMEM_HOST_ADDRESS(&byte), address_ + (uint64_t{1} << 36U), 1), vmemErrorInvalidValue);
  vmemStream_t stream = nullptr;
  ASSERT_OK(vmemStreamCreate(gpu_, &stream));
  char other = 0;
  EXPECT_FAILS(vmemErrorInvalidValue, "neither address",
               vmemMemcpyAsync(pool_, VMEM_HOST_ADDRESS(&byte), VMEM_HOST_ADDRESS(&other), 1, gpu_, stream, nullptr));
  EXPECT_FAILS(vmemErrorInvalidValue, "'device' is NULL",
               vmemMemcpyAsync(pool_, VMEM_HOST_ADDRESS(&byte), address_, 1, nullptr, stream, nullptr));
  EXPECT_OK(vmemStreamDestroy(gpu_, stream));
}

TEST_F(CBadInputTest, NullIsRefusedEverywhere) {
  vmemAddress_t address = 0;
  vmemAcquired_t acquired = nullptr;
  void* pointer = nullptr;
  const vmemRange_t range = {address_, 4096, vmemAccessRead};
  vmemStats_t stats = VMEM_STATS_INIT;
  vmemDeviceStats_t device_stats = VMEM_DEVICE_STATS_INIT;
  vmemDeviceInfo_t info = VMEM_DEVICE_INFO_INIT;
  vmemTranslation_t entry = VMEM_TRANSLATION_INIT;
  vmemDevice_t device = nullptr;
  vmemStream_t stream = nullptr;
  vmemRuntime_t runtime = nullptr;
  const char* text = nullptr;
  char byte = 0;
  int number = 0;
  const vmemStatus_t statuses[] = {
      vmemRuntimeCreate(nullptr, nullptr),
      vmemGetAbsentBackend(nullptr, 0, &text, &text),
      vmemGetAbsentBackend(runtime_, 0, nullptr, &text),
      vmemGetAbsentBackend(runtime_, 0, &text, nullptr),
      vmemGetDeviceCount(nullptr, &number),
      vmemGetDeviceCount(runtime_, nullptr),
      vmemGetDevice(nullptr, 0, &device),
      vmemGetDevice(runtime_, 0, nullptr),
      vmemFindDevice(nullptr, "sim:0", &device),
      vmemFindDevice(runtime_, nullptr, &device),
      vmemFindDevice(runtime_, "sim:0", nullptr),
      vmemGetDeviceInfo(nullptr, &info),
      vmemGetDeviceInfo(gpu_, nullptr),
      vmemStreamCreate(nullptr, &stream),
      vmemStreamCreate(gpu_, nullptr),
      vmemStreamDestroy(nullptr, stream),
      vmemStreamSynchronize(nullptr, stream),
      vmemPoolCreate(nullptr, runtime_, nullptr),
      vmemPoolGetRuntime(nullptr, &runtime),
      vmemPoolGetRuntime(pool_, nullptr),
      vmemMalloc(nullptr, &address, 4096),
      vmemMalloc(pool_, nullptr, 4096),
      vmemFree(nullptr, address_),
      vmemAcquire(nullptr, gpu_, VMEM_NO_STREAM, &range, 1, &acquired, &pointer),
      vmemAcquire(pool_, nullptr, VMEM_NO_STREAM, &range, 1, &acquired, &pointer),
      vmemAcquire(pool_, gpu_, VMEM_NO_STREAM, nullptr, 1, &acquired, &pointer),
      vmemAcquire(pool_, gpu_, VMEM_NO_STREAM, &range, 0, &acquired, &pointer),
      vmemAcquire(pool_, gpu_, VMEM_NO_STREAM, &range, 1, nullptr, &pointer),
      vmemAcquire(pool_, gpu_, VMEM_NO_STREAM, &range, 1, &acquired, nullptr),
      vmemAcquiredGetStatus(nullptr),
      vmemCopy(nullptr, &byte, VMEM_NO_STREAM, host_, &byte, VMEM_NO_STREAM, 1),
      vmemCopy(host_, &byte, VMEM_NO_STREAM, nullptr, &byte, VMEM_NO_STREAM, 1),
      vmemCopy(host_, nullptr, VMEM_NO_STREAM, host_, &byte, VMEM_NO_STREAM, 1),
      vmemCopy(host_, &byte, VMEM_NO_STREAM, host_, nullptr, VMEM_NO_STREAM, 1),
      vmemMemcpy(nullptr, address_, address_, 1),
      vmemMemcpyAsync(nullptr, address_, address_, 1, gpu_, VMEM_NO_STREAM, nullptr),
      vmemMemset(nullptr, address_, 0, 1),
      vmemEventQuery(nullptr, &number),
      vmemEventSynchronize(nullptr),
      vmemMemAdvise(nullptr, address_, 1, vmemAdvisePin, gpu_),
      vmemMemAdvise(pool_, address_, 1, vmemAdvisePin, nullptr),
      vmemPrefetchAsync(nullptr, address_, 1, gpu_, nullptr),
      vmemPrefetchAsync(pool_, address_, 1, nullptr, nullptr),
      vmemPrefetchQuery(nullptr, &number),
      vmemPrefetchWait(nullptr),
      vmemPrefetchCancel(nullptr),
      vmemTranslate(nullptr, address_, &entry),
      vmemTranslate(pool_, address_, nullptr),
      vmemGetStats(nullptr, &stats),
      vmemGetStats(pool_, nullptr),
      vmemGetDeviceStats(nullptr, gpu_, &device_stats),
      vmemGetDeviceStats(pool_, nullptr, &device_stats),
      vmemGetDeviceStats(pool_, gpu_, nullptr),
      vmemPoolGetStatus(nullptr),
  };
  for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); ++i) {
    EXPECT_EQ(statuses[i], vmemErrorInvalidValue) << "call " << i;
  }
  EXPECT_OK(vmemRuntimeDestroy(nullptr));
  EXPECT_OK(vmemPoolDestroy(nullptr));
  EXPECT_OK(vmemRelease(nullptr));
  EXPECT_OK(vmemEventDestroy(nullptr));
  EXPECT_OK(vmemPrefetchDestroy(nullptr));
}

}  // namespace
