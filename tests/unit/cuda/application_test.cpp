// Beside an application of the same driver: its contexts, streams, captures, memory and registrations.
#include <atomic>
#include <thread>

#include "tests/unit/cuda/double_machine.hpp"

namespace vmem {
namespace {

class CudaApplicationTest : public DoubleMachine {
 protected:
  void SetUp() override {
    open();
    ASSERT_EQ(cuda.cuDevicePrimaryCtxRetain(&primary_, 0), kCuSuccess);
    ASSERT_EQ(cuda.cuCtxSetCurrent(primary_), kCuSuccess);
  }
  void TearDown() override {
    cuda.cuCtxSetCurrent(nullptr);
    DoubleMachine::TearDown();
  }
  CuStream application_stream(unsigned flags = kCuStreamNonBlocking) {
    CuStream made = nullptr;
    EXPECT_EQ(cuda.cuStreamCreate(&made, flags), kCuSuccess);
    return made;
  }
  CuContext current() {
    CuContext context = nullptr;
    EXPECT_EQ(cuda.cuCtxGetCurrent(&context), kCuSuccess);
    return context;
  }
  // A round of all that the backend does in normal work.
  void work(Device& on, Stream used) {
    std::vector<std::uint8_t> host(8192, 0x5A);
    auto address = on.allocate(host.size());
    ASSERT_TRUE(ok(address));
    ASSERT_TRUE(ok(outcome(on.copy_from_host(*address, host.data(), host.size(), used))));
    ASSERT_TRUE(ok(outcome(on.fill(*address, 1, 4096, Stream()))));
    ASSERT_TRUE(ok(outcome(on.record(used))));
    std::atomic<bool> called{false};
    auto event = on.copy_to_host(host.data(), *address, host.size(), used);
    ASSERT_TRUE(ok(event));
    event->then([&](const Status& status) { called = status.is_ok(); });
    while (!called) std::this_thread::yield();
    ASSERT_TRUE(ok(on.register_host(host.data(), host.size())));
    ASSERT_TRUE(ok(on.unregister_host(host.data())));
    auto window = on.reserve_window(1);
    auto chunk = on.create_chunk(on.info().granularity);
    ASSERT_TRUE(ok(window) && ok(chunk));
    ASSERT_TRUE(ok(on.map(*window, *chunk)));
    ASSERT_TRUE(ok(on.unmap(*window, on.info().granularity)));
    ASSERT_TRUE(ok(on.destroy_chunk(*chunk)));
    ASSERT_TRUE(ok(on.release_window(*window, 1)));
    ASSERT_TRUE(ok(on.health()));
    ASSERT_TRUE(ok(on.memory_info()));
    ASSERT_TRUE(ok(on.deallocate(*address)));
  }

  CuContext primary_ = nullptr;
};

TEST_F(CudaApplicationTest, OrdersWorkOnTheApplicationsStreams) {
  const CuStream theirs = application_stream();
  const Stream used(theirs);
  EXPECT_TRUE(ok(device().check_stream(used)));
  EXPECT_EQ(device(1).check_stream(used).code(), StatusCode::kInvalidValue) << "of another device";
  EXPECT_EQ(device().destroy_stream(used).code(), StatusCode::kInvalidValue) << "the application destroys it";
  void* const address = allocate(4096);
  cuda.inject("cuMemsetD8Async", VMEM_DOUBLE_HANG, 0, 1, 0);
  const auto written = device().fill(address, 7, 4096, used);
  const Stream own = stream();
  ASSERT_TRUE(ok(written) && ok(device().wait_event(own, *written)));
  const auto after = device().record(own);
  ASSERT_TRUE(ok(after));
  EXPECT_FALSE(after->is_done());
  release_hung();
  EXPECT_TRUE(ok(outcome(after)));
  EXPECT_TRUE(written->is_done());
  EXPECT_EQ(cuda.cuStreamDestroy_v2(theirs), kCuSuccess);
  EXPECT_TRUE(ok(written->wait())) << "an event outlives its stream";
}

TEST_F(CudaApplicationTest, TakesTheDefaultStreamsOfEachDevice) {
  for (const std::uintptr_t handle : {std::uintptr_t{0}, kCuStreamLegacy, kCuStreamPerThread}) {
    const Stream used(reinterpret_cast<void*>(handle));
    for (std::size_t index : {0U, 1U}) {
      EXPECT_TRUE(ok(device(index).check_stream(used)));
      void* const address = allocate(4096, index);
      EXPECT_TRUE(ok(outcome(device(index).fill(address, 1, 4096, used))));
      EXPECT_TRUE(ok(outcome(device(index).record(used))));
      EXPECT_EQ(device(index).destroy_stream(used).code(), StatusCode::kInvalidValue);
      EXPECT_TRUE(ok(device(index).deallocate(address)));
    }
  }
}

TEST_F(CudaApplicationTest, RefusesStreamsOfAnotherContext) {
  CuContext other = nullptr;
  ASSERT_EQ(cuda.cuCtxCreate_v2(&other, 0, 0), kCuSuccess);
  const CuStream theirs = application_stream();
  const Status status = device().check_stream(Stream(theirs));
  EXPECT_EQ(status.code(), StatusCode::kInvalidValue);
  EXPECT_NE(status.to_string().find("primary context"), std::string::npos) << status.to_string();
  EXPECT_EQ(current(), other);
}

TEST_F(CudaApplicationTest, LeavesTheCallersContextAsItWas) {
  CuContext other = nullptr;
  ASSERT_EQ(cuda.cuCtxCreate_v2(&other, 0, 1), kCuSuccess);
  for (const CuContext context : {primary_, other}) {
    ASSERT_EQ(cuda.cuCtxSetCurrent(context), kCuSuccess);
    work(device(), stream());
    work(device(1), stream(1));
    EXPECT_EQ(current(), context);
  }
  std::thread without([&] {
    work(device(), stream());
    EXPECT_EQ(current(), nullptr);
  });
  without.join();
}

TEST_F(CudaApplicationTest, DisturbsNoCaptureElsewhere) {
  for (const auto mode : {kCuCaptureGlobal, kCuCaptureThreadLocal, kCuCaptureRelaxed}) {
    const CuStream captured = application_stream();
    ASSERT_EQ(cuda.cuStreamBeginCapture_v2(captured, mode), kCuSuccess);
    std::thread elsewhere([&] { work(device(), stream()); });
    elsewhere.join();
    work(device(), stream());  // in the thread that captures, too
    EXPECT_TRUE(*device().is_capturing(Stream(captured)));
    ASSERT_EQ(cuda.cuMemsetD8Async(reinterpret_cast<CuDevicePtr>(allocate(4096)), 1, 64, captured), kCuSuccess);
    CuGraph graph = nullptr;
    EXPECT_EQ(cuda.cuStreamEndCapture(captured, &graph), kCuSuccess) << "mode " << mode;
    EXPECT_FALSE(*device().is_capturing(Stream(captured)));
  }
  CuStreamCaptureMode mode = kCuCaptureGlobal;
  EXPECT_EQ(cuda.cuThreadExchangeStreamCaptureMode(&mode), kCuSuccess);
  EXPECT_EQ(mode, kCuCaptureGlobal) << "the thread's own mode is as before";
}

TEST_F(CudaApplicationTest, PutsNothingIntoACapture) {
  const CuStream theirs = application_stream(0);
  const Stream used(theirs);
  void* const address = allocate(4096);
  std::vector<std::uint8_t> host(4096);
  const auto before = device().record(stream());
  ASSERT_TRUE(ok(before));
  ASSERT_EQ(cuda.cuStreamBeginCapture_v2(theirs, kCuCaptureThreadLocal), kCuSuccess);
  for (const Status& status :
       {device().fill(address, 1, 64, used).error(), device().copy_to_host(host.data(), address, 64, used).error(),
        device().record(used).error(), device().wait_event(used, *before),
        device().launch(KernelLaunch{"vmem_triad", {}, {}, 0, {}}, used).error()}) {
    EXPECT_TRUE(status.code() == StatusCode::kUnsupported || status.code() == StatusCode::kInvalidValue)
        << status.to_string();
  }
  EXPECT_TRUE(ok(device().check_stream(used)));
  // A blocking stream is ordered with the legacy one, which can't be used meanwhile.
  EXPECT_TRUE(*device().is_capturing(Stream(nullptr)));
  EXPECT_EQ(device().record(Stream(nullptr)).error().code(), StatusCode::kUnsupported);
  CuGraph graph = nullptr;
  ASSERT_EQ(cuda.cuStreamEndCapture(theirs, &graph), kCuSuccess);
  EXPECT_TRUE(ok(outcome(device().record(used))));
  EXPECT_FALSE(*device().is_capturing(Stream(nullptr)));
}

TEST_F(CudaApplicationTest, CopiesTheApplicationsOwnMemory) {
  CuDevicePtr theirs = 0;
  ASSERT_EQ(cuda.cuMemAlloc_v2(&theirs, 10000), kCuSuccess);
  auto* const pointer = reinterpret_cast<void*>(theirs);
  std::vector<std::uint8_t> host(10000, 0x3C);
  std::vector<std::uint8_t> back(10000);
  ASSERT_TRUE(ok(outcome(device().copy_from_host(pointer, host.data(), host.size(), Stream()))));
  ASSERT_TRUE(ok(outcome(device().copy_to_host(back.data(), pointer, back.size(), Stream()))));
  EXPECT_EQ(back, host);
  EXPECT_EQ(outcome(device().fill(pointer, 1, 1_MiB * 16, Stream())).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(outcome(device(1).fill(pointer, 1, 64, Stream())).code(), StatusCode::kInvalidValue) << "another device's";
  EXPECT_EQ(device().deallocate(pointer).code(), StatusCode::kInvalidValue) << "the application frees it";
  ASSERT_EQ(cuda.cuMemFree_v2(theirs), kCuSuccess);
  EXPECT_EQ(outcome(device().fill(pointer, 1, 64, Stream())).code(), StatusCode::kInvalidValue);
}

TEST_F(CudaApplicationTest, SharesOneRegistrationAmongItsDevices) {
  std::vector<std::uint8_t> host(64 << 10U);
  const auto first = device().register_host(host.data(), host.size());
  const auto second = device(1).register_host(host.data(), host.size());
  ASSERT_TRUE(ok(first) && ok(second));
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(cuda.count("registrations"), 1U);
  EXPECT_EQ(device(1).register_host(host.data(), host.size()).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(device(1).register_host(host.data() + 4096, 4096).error().code(), StatusCode::kInvalidValue);
  EXPECT_TRUE(ok(device().unregister_host(host.data())));
  EXPECT_EQ(device().unregister_host(host.data()).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(cuda.count("registrations"), 1U);
  EXPECT_TRUE(ok(outcome(device().fill(*second, 9, host.size(), Stream())))) << "one address space";
  EXPECT_EQ(host.back(), 9);
  EXPECT_TRUE(ok(device(1).unregister_host(host.data())));
  EXPECT_EQ(cuda.count("registrations"), 0U);
}

TEST_F(CudaApplicationTest, SaysThatPagesAreRegisteredByTheApplication) {
  std::vector<std::uint8_t> host(64 << 10U);
  ASSERT_EQ(cuda.cuMemHostRegister_v2(host.data(), host.size(), 0), kCuSuccess);
  const Status status = device().register_host(host.data(), host.size()).error();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(status.driver_code(), kCuHostMemoryAlreadyRegistered);
  EXPECT_NE(status.to_string().find("registered already by another part of this process"), std::string::npos)
      << status.to_string();
  ASSERT_EQ(cuda.cuMemHostUnregister(host.data()), kCuSuccess);
  EXPECT_TRUE(ok(device().register_host(host.data(), host.size())));
}

TEST_F(CudaApplicationTest, SaysThatPagesCannotBeLocked) {
  std::vector<std::uint8_t> host(64 << 10U);
  cuda.inject("cuMemHostRegister", VMEM_DOUBLE_FAIL, 0, 1, kCuOutOfMemory);
  const Status status = device().register_host(host.data(), host.size()).error();
  EXPECT_EQ(status.code(), StatusCode::kOutOfHostMemory);
  EXPECT_NE(status.to_string().find("ulimit -l"), std::string::npos) << status.to_string();
  EXPECT_TRUE(ok(device().register_host(host.data(), host.size())));
}

TEST_F(CudaApplicationTest, CountsWhatOthersUse) {
  const std::uint64_t before = device().memory_info()->free_bytes;
  cuda.occupy(0, 16_MiB);
  EXPECT_EQ(device().memory_info()->free_bytes, before - 16_MiB);
  EXPECT_EQ(device().memory_info()->total_bytes, 64_MiB);
}

TEST_F(CudaApplicationTest, AsksNobodyAboutEventsThatNobodyWaitsFor) {
  const Stream own = stream();
  ASSERT_TRUE(ok(device().record(own)));  // makes the event
  const std::uint64_t queries = cuda.calls("cuEventQuery");
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t before = cuda.calls("");
    ASSERT_TRUE(ok(device().record(own)));
    // Which context is current, is the stream captured, the record.
    EXPECT_LE(cuda.calls("") - before, 3U);
  }
  EXPECT_EQ(cuda.calls("cuEventQuery"), queries);
  EXPECT_LE(cuda.count("events"), 4U) << "they are used again";
}

TEST_F(CudaApplicationTest, RunsKernelsThatTheApplicationAdds) {
  const KernelImage image{"application_kernel", [](const KernelContext&) {},
                          "extern \"C\" __global__ void application_kernel(unsigned long long n) {}"};
  ASSERT_TRUE(ok(device().add_kernel(image)));
  const std::uint64_t n = 3;
  const std::uint32_t narrow = 3;
  EXPECT_TRUE(ok(outcome(device().launch({image.name, {1, 1, 1}, {1, 1, 1}, 0, {{&n, sizeof n}}}, Stream()))));
  // A parameter too few, too many, too narrow would be read past its end by the driver.
  for (const std::vector<KernelArgument>& wrong :
       {std::vector<KernelArgument>{}, {{&n, sizeof n}, {&n, sizeof n}}, {{&narrow, sizeof narrow}}}) {
    EXPECT_EQ(outcome(device().launch({image.name, {1, 1, 1}, {1, 1, 1}, 0, wrong}, Stream())).code(),
              StatusCode::kInvalidValue);
  }
  EXPECT_EQ(device().add_kernel({"another", nullptr, nullptr}).code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace vmem
