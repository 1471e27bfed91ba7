// Streams of the CUDA double: order, events, kernels, words; and what becomes of a process whose work fails.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <thread>

#include "tests/doubles/tests/cuda_library.hpp"

namespace vmem {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20U;

using CudaDoubleWorkTest = CudaDoubleTest;

// Holds a stream until the test opens it. The stream may come to it after the gate is gone, or never: what it looks at
// lives as long as the process.
class Gate {
 public:
  explicit Gate(const CudaLibrary& cuda, CuStream stream) {
    const auto hold = [](void* open) { static_cast<std::atomic<bool>*>(open)->wait(false); };
    EXPECT_EQ(cuda.cuLaunchHostFunc(stream, hold, &open_), kCuSuccess);
  }
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void open() {
    open_ = true;
    open_.notify_all();
  }

 private:
  static std::atomic<bool>& next_flag() {
    static auto& flags = *new std::deque<std::atomic<bool>>;
    return flags.emplace_back(false);
  }
  std::atomic<bool>& open_ = next_flag();
};

TEST_F(CudaDoubleWorkTest, AStreamWorksInOrderAndOthersDoNotWaitForIt) {
  const CuDevicePtr data = allocate(4096);
  const CuStream held = stream(), other = stream();
  const CuEvent held_event = event(), other_event = event();
  {
    Gate gate(cuda_, held);
    EXPECT_EQ(cuda_.cuMemsetD8Async(data, 1, 4096, held), kCuSuccess);
    EXPECT_EQ(cuda_.cuEventRecord(held_event, held), kCuSuccess);
    EXPECT_EQ(cuda_.cuMemsetD8Async(data, 2, 4096, other), kCuSuccess);
    EXPECT_EQ(cuda_.cuEventRecord(other_event, other), kCuSuccess);
    EXPECT_EQ(cuda_.cuEventSynchronize(other_event), kCuSuccess);
    EXPECT_EQ(cuda_.cuEventQuery(held_event), kCuNotReady);
    EXPECT_EQ(cuda_.cuStreamQuery(held), kCuNotReady);
    EXPECT_EQ(cuda_.cuStreamQuery(other), kCuSuccess);
  }
  EXPECT_EQ(cuda_.cuStreamSynchronize(held), kCuSuccess);
  EXPECT_EQ(download(data, 1)[0], 1);
  EXPECT_EQ(cuda_.cuEventQuery(event()), kCuSuccess) << "never recorded";
}

TEST_F(CudaDoubleWorkTest, StreamsWaitForEventsOfOtherDevices) {
  const CuDevicePtr data = allocate(4096);
  const CuStream first = stream();
  const CuEvent done = event();
  ASSERT_EQ(cuda_.cuCtxSetCurrent(contexts_[1]), kCuSuccess);
  const CuStream second = stream();
  ASSERT_EQ(cuda_.cuCtxSetCurrent(contexts_[0]), kCuSuccess);
  EXPECT_EQ(cuda_.cuEventRecord(done, second), kCuInvalidHandle) << "an event of another context";
  static std::vector<int> order;
  order.clear();
  {
    Gate gate(cuda_, first);
    EXPECT_EQ(cuda_.cuLaunchHostFunc(
                  first, [](void*) { order.push_back(1); }, nullptr),
              kCuSuccess);
    EXPECT_EQ(cuda_.cuEventRecord(done, first), kCuSuccess);
    EXPECT_EQ(cuda_.cuStreamWaitEvent(second, done, 0), kCuSuccess);
    EXPECT_EQ(cuda_.cuLaunchHostFunc(
                  second, [](void*) { order.push_back(2); }, nullptr),
              kCuSuccess);
    EXPECT_EQ(cuda_.cuStreamQuery(second), kCuNotReady);
  }
  EXPECT_EQ(cuda_.cuStreamSynchronize(second), kCuSuccess);
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  EXPECT_EQ(cuda_.cuMemFree_v2(data), kCuSuccess);
}

TEST_F(CudaDoubleWorkTest, TheLegacyStreamIsOrderedWithBlockingStreamsAlone) {
  const CuDevicePtr data = allocate(4096);
  const CuStream blocking = stream(0), free = stream(kCuStreamNonBlocking);
  const CuEvent of_legacy = event(), of_free = event();
  Gate gate(cuda_, blocking);
  EXPECT_EQ(cuda_.cuMemsetD8Async(data, 1, 4096, blocking), kCuSuccess);
  EXPECT_EQ(cuda_.cuMemsetD8Async(data, 2, 4096, nullptr), kCuSuccess);
  EXPECT_EQ(cuda_.cuEventRecord(of_legacy, nullptr), kCuSuccess);
  EXPECT_EQ(cuda_.cuEventRecord(of_free, free), kCuSuccess);
  EXPECT_EQ(cuda_.cuEventSynchronize(of_free), kCuSuccess);
  EXPECT_EQ(cuda_.cuEventQuery(of_legacy), kCuNotReady);
  EXPECT_EQ(cuda_.cuMemsetD8Async(data, 3, 4096, blocking), kCuSuccess);
  gate.open();
  EXPECT_EQ(cuda_.cuStreamSynchronize(blocking), kCuSuccess);
  EXPECT_EQ(cuda_.cuEventQuery(of_legacy), kCuSuccess);
  EXPECT_EQ(download(data, 1)[0], 3);
}

TEST_F(CudaDoubleWorkTest, EveryThreadHasADefaultStreamOfItsOwn) {
  const CuDevicePtr data = allocate(4096);
  const auto own = reinterpret_cast<CuStream>(kCuStreamPerThread);
  Gate gate(cuda_, own);
  std::thread([&] {
    EXPECT_EQ(cuda_.cuCtxSetCurrent(contexts_[0]), kCuSuccess);
    EXPECT_EQ(cuda_.cuMemsetD8Async_ptsz(data, 5, 4096, nullptr), kCuSuccess);
    EXPECT_EQ(cuda_.cuStreamSynchronize(own), kCuSuccess) << "it does not wait for another thread's";
  }).join();
  EXPECT_EQ(cuda_.cuStreamQuery(own), kCuNotReady);
}

TEST_F(CudaDoubleWorkTest, PageableCopiesBlockAsTheDriversDo) {
  const auto content = pattern(kMiB, 1);
  const CuDevicePtr data = allocate(content.size());
  const CuStream on = stream();
  {
    // Up to 64 KiB the bytes are taken along.
    Gate gate(cuda_, on);
    std::vector<std::uint8_t> small(content.begin(), content.begin() + 4096);
    EXPECT_EQ(cuda_.cuMemcpyHtoDAsync_v2(data, small.data(), small.size(), on), kCuSuccess);
    EXPECT_EQ(cuda_.cuStreamQuery(on), kCuNotReady);
    small.assign(small.size(), 0);
  }
  std::vector<std::uint8_t> back(4096);
  EXPECT_EQ(cuda_.cuMemcpyDtoHAsync_v2(back.data(), data, back.size(), on), kCuSuccess);
  EXPECT_TRUE(std::equal(back.begin(), back.end(), content.begin())) << "the call has waited";
  EXPECT_EQ(cuda_.cuMemcpyHtoDAsync_v2(data, content.data(), content.size(), on), kCuSuccess);
  EXPECT_EQ(cuda_.cuStreamQuery(on), kCuSuccess) << "the call has waited";

  // Pinned memory is copied when the stream gets there.
  void* pinned = nullptr;
  ASSERT_EQ(cuda_.cuMemHostAlloc(&pinned, kMiB, 0), kCuSuccess);
  Gate gate(cuda_, on);
  EXPECT_EQ(cuda_.cuMemcpyDtoHAsync_v2(pinned, data, kMiB, on), kCuSuccess);
  EXPECT_EQ(cuda_.cuMemcpyHtoDAsync_v2(data, pinned, kMiB, on), kCuSuccess);
  EXPECT_EQ(cuda_.cuStreamQuery(on), kCuNotReady);
}

TEST_F(CudaDoubleWorkTest, EventsTellTheTimeBetweenThem) {
  const CuEvent begin = event(0), end = event(0), untimed = event();
  float milliseconds = -1;
  EXPECT_EQ(cuda_.cuEventElapsedTime(&milliseconds, begin, end), kCuInvalidHandle) << "not recorded";
  const CuStream on = stream();
  EXPECT_EQ(cuda_.cuEventRecord(begin, on), kCuSuccess);
  EXPECT_EQ(cuda_.cuEventRecord(end, on), kCuSuccess);
  EXPECT_EQ(cuda_.cuEventRecord(untimed, on), kCuSuccess);
  EXPECT_EQ(cuda_.cuEventSynchronize(end), kCuSuccess);
  EXPECT_EQ(cuda_.cuEventElapsedTime(&milliseconds, begin, end), kCuSuccess);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(cuda_.cuEventElapsedTime(&milliseconds, begin, untimed), kCuInvalidHandle);
}

// -- Kernels ---------------------------------------------------------------------------------------------------------

void store_pointer(const KernelContext& context) {
  std::uint64_t* out = nullptr;
  std::uint64_t value = 0;
  std::memcpy(&out, context.arguments[0], sizeof out);
  std::memcpy(&value, context.arguments[1], sizeof value);
  *out = value;
}
void store_double(const KernelContext& context) {
  std::uint64_t* out = nullptr;
  std::uint64_t value = 0;
  std::memcpy(&out, context.arguments[0], sizeof out);
  std::memcpy(&value, context.arguments[1], sizeof value);
  *out = 2 * value + context.wave_width;
}
constexpr const char* kStore =
    "extern \"C\" __global__ void test_store(unsigned long long* out, unsigned long long v) {}";
constexpr const char* kStoreOther =
    "extern \"C\" __global__ void test_store(unsigned long long* out, unsigned long long twice) {}";

template <typename T>
void (*as_body(T body))(void) {
  return reinterpret_cast<void (*)(void)>(body);
}

TEST_F(CudaDoubleWorkTest, RunsBodiesThatATestAddsByTheImage) {
  ASSERT_EQ(cuda_.add_kernel("test_store", kStore, as_body(store_pointer)), 0);
  ASSERT_EQ(cuda_.add_kernel("test_store", kStoreOther, as_body(store_double)), 0);
  EXPECT_EQ(cuda_.add_kernel("test_other", kStore, as_body(store_double)), -1) << "the source declares another";
  const CuDevicePtr out = allocate(8);
  const auto stored = [&](CuFunction kernel) {
    EXPECT_EQ(launch(kernel, nullptr, out, std::uint64_t{100}), kCuSuccess);
    std::uint64_t value = 0;
    EXPECT_EQ(cuda_.cuMemcpyDtoH_v2(&value, out, 8), kCuSuccess);
    return value;
  };
  EXPECT_EQ(stored(function("test_store", kStore)), 100U);
  EXPECT_EQ(stored(function("test_store", kStoreOther)), 232U) << "a wave has 32 threads";
  EXPECT_EQ(stored(function("test_store")), 232U) << "the last one, where the image is none of the sources";
}

TEST_F(CudaDoubleWorkTest, KnowsParametersOfKernels) {
  const CuFunction stencil = function("vmem_stencil");
  const std::size_t offsets[] = {0, 8, 16, 24, 32, 36, 40, 44}, sizes[] = {8, 8, 8, 8, 4, 4, 4, 4};
  for (std::size_t i = 0; i < 8; ++i) {
    std::size_t offset = 99, bytes = 99;
    EXPECT_EQ(cuda_.cuFuncGetParamInfo(stencil, i, &offset, &bytes), kCuSuccess);
    EXPECT_EQ(offset, offsets[i]);
    EXPECT_EQ(bytes, sizes[i]);
  }
  std::size_t offset = 0;
  EXPECT_EQ(cuda_.cuFuncGetParamInfo(stencil, 8, &offset, nullptr), kCuInvalidValue);

  // The same parameters as one buffer.
  const CuDevicePtr data = allocate(64);
  struct {
    CuDevicePtr to;
    std::uint64_t bytes;
    std::uint32_t value;
  } packed{data, 64, 0x21};
  std::size_t bytes = sizeof packed;
  void* extra[] = {reinterpret_cast<void*>(1), &packed, reinterpret_cast<void*>(2), &bytes, nullptr};
  EXPECT_EQ(cuda_.cuLaunchKernel(function("vmem_fill_bytes"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra),
            kCuSuccess);
  EXPECT_EQ(download(data, 64), std::vector<std::uint8_t>(64, 0x21));
}

TEST_F(CudaDoubleWorkTest, RefusesLaunchesThatCannotBe) {
  CuModule module = nullptr;
  ASSERT_EQ(cuda_.cuModuleLoadData(&module,
                                   "\x7f"
                                   "ELF"),
            kCuSuccess);
  CuFunction found = nullptr;
  EXPECT_EQ(cuda_.cuModuleGetFunction(&found, module, "no_such_kernel"), kCuNotFound);
  const CuFunction fill = function("vmem_fill_bytes");
  const CuDevicePtr data = allocate(64);
  std::uint64_t bytes = 64;
  std::uint32_t value = 1;
  CuDevicePtr to = data;
  void* parameters[] = {&to, &bytes, &value};
  for (const unsigned block : {0U, 1025U}) {
    EXPECT_EQ(cuda_.cuLaunchKernel(fill, 1, 1, 1, block, 1, 1, 0, nullptr, parameters, nullptr), kCuInvalidValue);
  }
  EXPECT_EQ(cuda_.cuLaunchKernel(fill, 0, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr), kCuInvalidValue);
  EXPECT_EQ(cuda_.cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), kCuInvalidValue);
  ASSERT_EQ(cuda_.cuModuleUnload(module), kCuSuccess);
  EXPECT_EQ(cuda_.cuModuleUnload(module), kCuInvalidHandle);
}

TEST_F(CudaDoubleWorkTest, StreamsWriteWordsAndWaitForThem) {
  void* pinned = nullptr;
  ASSERT_EQ(cuda_.cuMemHostAlloc(&pinned, 4096, 0), kCuSuccess);
  auto* const word = static_cast<std::atomic<std::uint32_t>*>(pinned);
  word->store(0);
  const auto address = reinterpret_cast<CuDevicePtr>(pinned);
  const CuStream waiting = stream(), writing = stream();
  EXPECT_EQ(cuda_.cuStreamWaitValue32_v2(waiting, address, 5, kCuStreamWaitValueGreaterOrEqual), kCuSuccess);
  EXPECT_EQ(cuda_.cuStreamWriteValue32_v2(waiting, address + 4, 9, 0), kCuSuccess);
  EXPECT_EQ(cuda_.cuStreamWriteValue32_v2(writing, address, 4, 0), kCuSuccess);
  EXPECT_EQ(cuda_.cuStreamSynchronize(writing), kCuSuccess);
  EXPECT_EQ(cuda_.cuStreamQuery(waiting), kCuNotReady);
  word->store(6);
  EXPECT_EQ(cuda_.cuStreamSynchronize(waiting), kCuSuccess);
  EXPECT_EQ(word[1].load(), 9U);
  std::uint32_t local = 0;
  EXPECT_EQ(cuda_.cuStreamWriteValue32_v2(writing, reinterpret_cast<CuDevicePtr>(&local), 1, 0), kCuInvalidValue);
}

TEST_F(CudaDoubleWorkTest, CallbacksMayNotCallTheDriver) {
  static CudaLibrary* library = nullptr;
  static CuResult answer = kCuSuccess;
  library = &cuda_;
  const auto callback = [](void*) {
    int count = 0;
    answer = library->cuDeviceGetCount(&count);
  };
  const CuStream on = stream();
  EXPECT_EQ(cuda_.cuLaunchHostFunc(on, callback, nullptr), kCuSuccess);
  EXPECT_EQ(cuda_.cuStreamSynchronize(on), kCuSuccess);
  EXPECT_EQ(answer, kCuNotPermitted);
}

// -- Failures --------------------------------------------------------------------------------------------------------

class CudaDoubleFailureTest : public CudaDoubleTest {
 protected:
  // Every call fails with the code, of every device.
  void expect_sticky(CuResult code) {
    std::size_t free = 0, total = 0;
    CuDevicePtr address = 0;
    EXPECT_EQ(cuda_.cuMemGetInfo_v2(&free, &total), code);
    EXPECT_EQ(cuda_.cuMemAlloc_v2(&address, 4096), code);
    CuContext context = nullptr;
    EXPECT_EQ(cuda_.cuDevicePrimaryCtxRetain(&context, 1), code);
    EXPECT_EQ(cuda_.cuDevicePrimaryCtxReset_v2(0), code) << "a reset does not bring it back";
    const char* name = nullptr;
    EXPECT_EQ(cuda_.cuGetErrorName(code, &name), kCuSuccess);
  }
};

TEST_F(CudaDoubleFailureTest, AKernelThatLeavesItsMemoryTakesTheProcessWithIt) {
  const CuDevicePtr data = allocate(4096);
  const std::uint64_t bytes = 4096 + 65536;
  EXPECT_EQ(launch(function("vmem_fill_bytes"), nullptr, data, bytes, std::uint32_t{1}), kCuSuccess);
  EXPECT_EQ(cuda_.cuCtxSynchronize(), kCuIllegalAddress);
  expect_sticky(kCuIllegalAddress);
}

TEST_F(CudaDoubleFailureTest, AKernelMayNotFollowPointersNearNullOrOfTheProgram) {
  const std::uint64_t bytes = 8;
  EXPECT_EQ(launch(function("vmem_fill_bytes"), nullptr, CuDevicePtr{8}, bytes, std::uint32_t{1}), kCuSuccess);
  EXPECT_EQ(cuda_.cuCtxSynchronize(), kCuIllegalAddress);
  TearDown();
  contexts_.clear();
  SetUp();
  std::uint64_t local = 7;
  EXPECT_EQ(launch(function("vmem_fill_bytes"), nullptr, &local, bytes, std::uint32_t{1}), kCuSuccess);
  EXPECT_EQ(cuda_.cuCtxSynchronize(), kCuIllegalAddress);
  EXPECT_EQ(local, 7U);
}

TEST_F(CudaDoubleFailureTest, MemoryThatIsUnmappedUnderWorkIsAnIllegalAddress) {
  CuDevicePtr window = 0;
  ASSERT_EQ(cuda_.cuMemAddressReserve(&window, 2 * kMiB, 0, 0, 0), kCuSuccess);
  ASSERT_EQ(cuda_.cuMemMap(window, 2 * kMiB, 0, chunk(2 * kMiB, kCuLocationDevice, 0), 0), kCuSuccess);
  ASSERT_EQ(grant(window, 2 * kMiB, kCuLocationDevice, 0), kCuSuccess);
  const CuStream on = stream();
  Gate gate(cuda_, on);
  EXPECT_EQ(cuda_.cuMemsetD8Async(window, 1, 4096, on), kCuSuccess);
  EXPECT_EQ(cuda_.cuMemUnmap(window, 2 * kMiB), kCuSuccess);
  gate.open();
  EXPECT_EQ(cuda_.cuStreamSynchronize(on), kCuIllegalAddress);
  expect_sticky(kCuIllegalAddress);
}

TEST_F(CudaDoubleFailureTest, CallsAndWorkFailOnDemand) {
  const CuDevicePtr data = allocate(4096);
  cuda_.inject("cuMemAlloc", VMEM_DOUBLE_FAIL, 1, 2, kCuOutOfMemory);
  CuDevicePtr more = 0;
  EXPECT_EQ(cuda_.cuMemAlloc_v2(&more, 4096), kCuSuccess);
  EXPECT_EQ(cuda_.cuMemAlloc_v2(&more, 4096), kCuOutOfMemory);
  EXPECT_EQ(cuda_.cuMemAlloc_v2(&more, 4096), kCuOutOfMemory);
  EXPECT_EQ(cuda_.cuMemAlloc_v2(&more, 4096), kCuSuccess);
  EXPECT_EQ(cuda_.calls("cuMemAlloc"), 5U);

  cuda_.inject("cuMemsetD8Async", VMEM_DOUBLE_CORRUPT, 0, 1, 0);
  const CuStream on = stream();
  EXPECT_EQ(cuda_.cuMemsetD8Async(data, 1, 4096, on), kCuSuccess);
  EXPECT_EQ(cuda_.cuStreamSynchronize(on), kCuSuccess);
  const auto content = download(data, 4096);
  EXPECT_EQ(std::count(content.begin(), content.end(), 1), 4095);

  cuda_.inject("cuMemcpyDtoDAsync", VMEM_DOUBLE_FAIL_WORK, 0, 1, kCuEccUncorrectable);
  EXPECT_EQ(cuda_.cuMemcpyDtoDAsync_v2(data, more, 4096, on), kCuSuccess);
  EXPECT_EQ(cuda_.cuStreamSynchronize(on), kCuEccUncorrectable);
  expect_sticky(kCuEccUncorrectable);
}

TEST_F(CudaDoubleFailureTest, WorkThatHangsHoldsItsStreamAlone) {
  const CuDevicePtr data = allocate(4096);
  const CuStream hung = stream(), other = stream();
  const CuEvent end = event();
  cuda_.inject("cuMemsetD8Async", VMEM_DOUBLE_HANG, 0, 1, 0);
  EXPECT_EQ(cuda_.cuMemsetD8Async(data, 1, 4096, hung), kCuSuccess);
  EXPECT_EQ(cuda_.cuEventRecord(end, hung), kCuSuccess);
  EXPECT_EQ(cuda_.cuMemsetD8Async(data, 2, 4096, other), kCuSuccess);
  EXPECT_EQ(cuda_.cuStreamSynchronize(other), kCuSuccess);
  EXPECT_EQ(cuda_.cuEventQuery(end), kCuNotReady);
  while (cuda_.num_hung() == 0) std::this_thread::yield();
  EXPECT_EQ(cuda_.cuStreamDestroy_v2(hung), kCuSuccess) << "its work goes on without it";
  EXPECT_EQ(cuda_.cuEventQuery(end), kCuNotReady);
  cuda_.release_hung();
  EXPECT_EQ(cuda_.cuEventSynchronize(end), kCuSuccess);
  EXPECT_EQ(download(data, 1)[0], 1);
}

TEST_F(CudaDoubleFailureTest, ADeviceThatIsLostDropsItsWorkAndLeavesTheOther) {
  const CuDevicePtr data = allocate(4096);
  const CuStream on = stream();
  cuda_.inject("cuMemsetD8Async", VMEM_DOUBLE_HANG, 0, 1, 0);
  EXPECT_EQ(cuda_.cuMemsetD8Async(data, 1, 4096, on), kCuSuccess);
  cuda_.lose_device(0, kCuNoDevice);
  EXPECT_EQ(cuda_.cuStreamSynchronize(on), kCuNoDevice) << "and does not hang";
  CuDevicePtr address = 0;
  EXPECT_EQ(cuda_.cuMemAlloc_v2(&address, 4096), kCuNoDevice);
  EXPECT_EQ(cuda_.cuMemFree_v2(data), kCuNoDevice);
  EXPECT_EQ(cuda_.cuCtxSetCurrent(contexts_[1]), kCuNoDevice) << "the current one is the lost one's";
  std::thread([&] {
    EXPECT_EQ(cuda_.cuCtxSetCurrent(contexts_[1]), kCuSuccess);
    EXPECT_EQ(cuda_.cuMemAlloc_v2(&address, 4096), kCuSuccess);
    EXPECT_EQ(cuda_.cuMemcpyPeerAsync(address, contexts_[1], data, contexts_[0], 16, nullptr), kCuNoDevice);
  }).join();
}

TEST_F(CudaDoubleFailureTest, QueuesAreBoundedAndEndWithTheirWork) {
  const CuDevicePtr data = allocate(8);
  const CuStream on = stream();
  for (int i = 0; i < 5000; ++i)
    ASSERT_EQ(cuda_.cuMemsetD8Async(data, static_cast<unsigned char>(i), 8, on), kCuSuccess);
  EXPECT_EQ(cuda_.cuStreamDestroy_v2(on), kCuSuccess);
  EXPECT_EQ(cuda_.cuStreamSynchronize(on), kCuInvalidHandle);
  EXPECT_EQ(cuda_.cuMemFree_v2(data), kCuSuccess) << "waits for it";
  EXPECT_EQ(cuda_.count("work"), 0U);
}

}  // namespace
}  // namespace vmem
