// What is left when the driver, a device or a call of it fails.
#include <atomic>
#include <future>

#include "tests/unit/cuda/double_machine.hpp"

namespace vmem {
namespace {

class CudaFailureTest : public DoubleMachine {
 protected:
  // Every kind of call of a lost device fails with that, and none hangs.
  void expect_lost(std::size_t index, void* address, Stream stream) {
    Device& lost = device(index);
    std::vector<std::uint8_t> host(4096);
    for (const Status& status :
         {lost.health(), lost.memory_info().error(), lost.allocate(1).error(), lost.deallocate(address),
          outcome(lost.copy_from_host(address, host.data(), host.size(), Stream())),
          outcome(lost.copy_to_host(host.data(), address, host.size(), stream)),
          outcome(lost.fill(address, 1, 64, stream)), outcome(lost.record(stream)), lost.check_stream(stream),
          lost.wait_event(stream, Event()), lost.is_capturing(stream).error(), lost.create_stream().error(),
          lost.create_chunk(lost.info().granularity).error(), lost.reserve_window(1).error(),
          lost.register_host(host.data(), host.size()).error(), lost.destroy_stream(stream)}) {
      EXPECT_EQ(status.code(), StatusCode::kDeviceFailed) << status.to_string();
    }
  }
};

TEST_F(CudaFailureTest, FailsEveryDeviceAfterAStickyError) {
  open();
  void* const address = allocate(4096);
  void* const there = allocate(4096, 1);
  const Stream near = stream();
  const Stream far = stream(1);
  cuda.inject("cuMemsetD8Async", VMEM_DOUBLE_FAIL_WORK, 0, 1, kCuIllegalAddress);
  // At the event, or at the call where the work is over before that.
  const Status status = outcome(device().fill(address, 1, 4096, near));
  EXPECT_EQ(status.code(), StatusCode::kDeviceFailed);
  EXPECT_EQ(status.driver_code(), kCuIllegalAddress);
  EXPECT_EQ(status.driver_name(), "CUDA_ERROR_ILLEGAL_ADDRESS");
  expect_lost(0, address, near);
  expect_lost(1, there, far);
  const std::string text = device(1).health().to_string();
  EXPECT_NE(text.find("ended every CUDA device of this process"), std::string::npos) << text;
  EXPECT_NE(text.find("CUDA_ERROR_ILLEGAL_ADDRESS (700)"), std::string::npos) << text;
}

TEST_F(CudaFailureTest, NoticesAStickyErrorByItsHeartbeatAlone) {
  open();
  void* const address = allocate(4096);
  const Stream near = stream();
  EXPECT_TRUE(ok(device().health()));
  cuda.fail_all(kCuLaunchFailed);  // a kernel of the application
  EXPECT_EQ(device(1).health().code(), StatusCode::kDeviceFailed);
  EXPECT_EQ(device().health().code(), StatusCode::kDeviceFailed);
  expect_lost(0, address, near);
}

TEST_F(CudaFailureTest, KeepsTheOthersWhereOneDeviceIsLost) {
  open();
  void* const address = allocate(4096);
  void* const there = allocate(4096, 1);
  const Stream near = stream();
  cuda.inject("cuMemsetD8Async", VMEM_DOUBLE_HANG, 0, 1, 0);
  const auto hanging = device().fill(address, 1, 4096, near);
  ASSERT_TRUE(ok(hanging));
  std::promise<Status> called;
  hanging->then([&](const Status& status) { called.set_value(status); });
  cuda.lose_device(0, kCuNoDevice);
  const Status seen = called.get_future().get();
  EXPECT_EQ(seen.code(), StatusCode::kDeviceFailed) << seen.to_string();
  EXPECT_EQ(outcome(hanging).code(), StatusCode::kDeviceFailed);
  expect_lost(0, address, near);
  EXPECT_TRUE(ok(device(1).health()));
  EXPECT_TRUE(ok(outcome(device(1).fill(there, 1, 4096, Stream()))));
  EXPECT_TRUE(ok(device(1).deallocate(there)));
}

TEST_F(CudaFailureTest, CompletesWhatIsInFlightWhenTheDriverFails) {
  open();
  const std::size_t bytes = 1_MiB;
  void* const address = allocate(bytes);
  const Stream near = stream();
  cuda.inject("cuMemsetD8Async", VMEM_DOUBLE_HANG, 0, 1, 0);
  std::vector<Event> events;
  std::atomic<int> num_called{0};
  std::promise<void> all_called;
  constexpr int kEvents = 20;
  for (int i = 0; i < kEvents; ++i) {
    auto event = device().fill(address, 1, bytes, near);
    ASSERT_TRUE(ok(event));
    event->then([&](const Status& status) {
      EXPECT_EQ(status.code(), StatusCode::kDeviceFailed);
      if (++num_called == kEvents) all_called.set_value();
    });
    events.push_back(*event);
  }
  std::thread waiting([&] { EXPECT_EQ(events.back().wait().code(), StatusCode::kDeviceFailed); });
  cuda.fail_all(kCuEccUncorrectable);
  all_called.get_future().wait();
  waiting.join();
}

TEST_F(CudaFailureTest, TimesOutOnWorkThatNeverEndsAndGoesOnElsewhere) {
  open();
  void* const address = allocate(4096);
  const Stream stuck = stream();
  const Stream other = stream();
  cuda.inject("cuMemsetD8Async", VMEM_DOUBLE_HANG, 0, 1, 0);
  const auto hanging = device().fill(address, 1, 4096, stuck);
  ASSERT_TRUE(ok(hanging));
  EXPECT_EQ(wait_a_moment(*hanging).code(), StatusCode::kTimeout);
  EXPECT_FALSE(hanging->is_done());
  EXPECT_TRUE(ok(outcome(device().fill(address, 2, 64, other))));
  EXPECT_TRUE(ok(device().health()));
  release_hung();
  EXPECT_TRUE(ok(outcome(hanging)));
}

TEST_F(CudaFailureTest, ReportsACallThatFailsAndGoesOn) {
  open();
  const Stream near = stream();
  void* const address = allocate(4096);
  const std::vector<std::pair<const char*, std::function<Status()>>> calls = {
      {"cuMemAlloc",
       [&] {
         auto slab = device().allocate(1);
         return slab ? device().deallocate(*slab) : slab.error();
       }},
      {"cuMemGetInfo", [&] { return device().memory_info().error(); }},
      {"cuEventRecord", [&] { return device().record(near).error(); }},
      {"cuStreamIsCapturing", [&] { return device().is_capturing(near).error(); }},
      {"cuMemsetD8Async", [&] { return outcome(device().fill(address, 1, 64, near)); }},
      {"cuCtxPushCurrent", [&] { return device().memory_info().error(); }},
      {"cuMemCreate",
       [&] {
         auto chunk = device().create_chunk(device().info().granularity);
         return chunk ? device().destroy_chunk(*chunk) : chunk.error();
       }},
  };
  for (const auto& [entry, call] : calls) {
    EXPECT_TRUE(ok(call())) << entry;
    cuda.inject(entry, VMEM_DOUBLE_FAIL, 0, 1, kCuUnknown);
    const Status status = call();
    EXPECT_EQ(status.code(), StatusCode::kInternal) << entry << ": " << status.to_string();
    EXPECT_EQ(status.device(), "cuda:0") << entry;
    EXPECT_EQ(status.driver_name(), "CUDA_ERROR_UNKNOWN") << entry;
    EXPECT_TRUE(ok(call())) << entry;
  }
}

TEST_F(CudaFailureTest, LeavesNothingMappedWhereAccessIsRefused) {
  open();
  const std::size_t bytes = device().info().granularity;
  auto window = device().reserve_window(bytes);
  auto chunk = device().create_chunk(bytes);
  ASSERT_TRUE(ok(window) && ok(chunk));
  for (const char* const entry : {"cuMemMap", "cuMemSetAccess"}) {
    cuda.inject(entry, VMEM_DOUBLE_FAIL, 0, 1, kCuUnknown);
    EXPECT_FALSE(device().map(*window, *chunk)) << entry;
    EXPECT_EQ(cuda.count("mappings"), 0U) << entry;
  }
  EXPECT_TRUE(ok(device().map(*window, *chunk)));
  for (const char* const entry : {"cuMemUnmap"}) {
    cuda.inject(entry, VMEM_DOUBLE_FAIL, 0, 1, kCuUnknown);
    EXPECT_FALSE(device().unmap(*window, bytes)) << entry;
    EXPECT_TRUE(ok(outcome(device().fill(*window, 1, bytes, Stream())))) << "it is still there";
  }
  EXPECT_TRUE(ok(device().unmap(*window, bytes)));
  for (const char* const entry : {"cuMemRelease"}) {
    cuda.inject(entry, VMEM_DOUBLE_FAIL, 0, 1, kCuUnknown);
    EXPECT_FALSE(device().destroy_chunk(*chunk)) << entry;
  }
  EXPECT_TRUE(ok(device().destroy_chunk(*chunk)));
  EXPECT_TRUE(ok(device().release_window(*window, bytes)));
}

TEST_F(CudaFailureTest, GivesEverythingBackWithItsDevices) {
  open();
  {
    const std::size_t bytes = device().info().granularity;
    std::vector<std::uint8_t> host(8192);
    static_cast<void>(allocate(bytes));
    auto window = device().reserve_window(bytes);
    auto chunk = device().create_chunk(bytes);
    auto unused = device().create_chunk(bytes);
    ASSERT_TRUE(ok(window) && ok(chunk) && ok(unused) && ok(device().map(*window, *chunk)));
    ASSERT_TRUE(ok(device().register_host(host.data(), host.size())));
    const auto event = device().fill(*window, 1, bytes, stream());
    ASSERT_TRUE(ok(event));
    devices_.clear();
  }
  backend_.reset();
  for (const char* const what : {"streams", "events", "allocations", "chunks", "reservations", "mappings",
                                 "registrations", "modules", "contexts"}) {
    EXPECT_EQ(cuda.count(what), 0U) << what;
  }
}

TEST_F(CudaFailureTest, ReturnsToTheBaselineAfterTenThousandMappings) {
  open();
  const std::size_t bytes = device().info().granularity;
  auto window = device().reserve_window(bytes * 4);
  ASSERT_TRUE(ok(window));
  const auto before = device().memory_info();
  for (int i = 0; i < 10000; ++i) {
    auto* const at = static_cast<std::uint8_t*>(*window) + bytes * static_cast<std::size_t>(i % 4);
    auto chunk = device().create_chunk(bytes);
    ASSERT_TRUE(ok(chunk)) << i;
    ASSERT_TRUE(ok(device().map(at, *chunk))) << i;
    ASSERT_TRUE(ok(device().unmap(at, bytes))) << i;
    ASSERT_TRUE(ok(device().destroy_chunk(*chunk))) << i;
  }
  EXPECT_EQ(device().memory_info()->free_bytes, before->free_bytes);
  EXPECT_EQ(cuda.count("chunks"), 0U);
  EXPECT_EQ(cuda.count("mappings"), 0U);
  EXPECT_EQ(cuda.count("reservations"), 1U);
  EXPECT_TRUE(ok(device().release_window(*window, bytes * 4)));
  EXPECT_EQ(cuda.count("reservations"), 0U);
}

TEST_F(CudaFailureTest, LeavesOutADeviceThatAnotherProcessHasForItself) {
  open({{"FAULTS", "cuDevicePrimaryCtxRetain:fail:0:46"}});
  ASSERT_EQ(devices_.size(), 1U);
  EXPECT_EQ(device().info().name, "cuda:1");
  EXPECT_NE(log().find("device 'cuda:0' is left out"), std::string::npos) << log();
}

}  // namespace
}  // namespace vmem
