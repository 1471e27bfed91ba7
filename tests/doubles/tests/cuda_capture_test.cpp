// Captures on the CUDA double: what they record, what is forbidden meanwhile, and to whom.
#include <thread>

#include "tests/doubles/tests/cuda_library.hpp"

namespace vmem {
namespace {

class CudaDoubleCaptureTest : public CudaDoubleTest {
 protected:
  void begin(CuStream on, CuStreamCaptureMode mode = kCuCaptureGlobal) {
    ASSERT_EQ(cuda_.cuStreamBeginCapture_v2(on, mode), kCuSuccess);
  }
  CuStreamCaptureStatus status(CuStream on) {
    auto found = static_cast<CuStreamCaptureStatus>(7);
    EXPECT_EQ(cuda_.cuStreamIsCapturing(on, &found), kCuSuccess);
    return found;
  }
  CuResult end(CuStream on) {
    CuGraph graph = nullptr;
    const CuResult result = cuda_.cuStreamEndCapture(on, &graph);
    if (graph != nullptr) {
      EXPECT_EQ(cuda_.cuGraphDestroy(graph), kCuSuccess);
    }
    return result;
  }
  template <typename Body>
  void on_another_thread(Body body) {
    std::thread([&] {
      EXPECT_EQ(cuda_.cuCtxSetCurrent(contexts_[0]), kCuSuccess);
      body();
    }).join();
  }
};

TEST_F(CudaDoubleCaptureTest, UnsafeCallsEndTheCaptureOfTheirThread) {
  const CuDevicePtr data = allocate(64);
  const CuStream on = stream();
  EXPECT_EQ(status(on), kCuCaptureNone);
  begin(on);
  EXPECT_EQ(status(on), kCuCaptureActive);
  EXPECT_EQ(cuda_.cuStreamBeginCapture_v2(on, kCuCaptureGlobal), kCuInvalidValue) << "it is captured already";
  CuModule module = nullptr;
  EXPECT_EQ(cuda_.cuModuleLoadData(&module, "image"), kCuStreamCaptureUnsupported);
  EXPECT_EQ(cuda_.cuMemsetD8Async(data, 0, 64, on), kCuStreamCaptureInvalidated);
  EXPECT_EQ(end(on), kCuStreamCaptureInvalidated);
  EXPECT_EQ(cuda_.cuMemsetD8Async(data, 0, 64, on), kCuSuccess);
  EXPECT_EQ(end(on), kCuInvalidValue) << "none any more";
}

TEST_F(CudaDoubleCaptureTest, ReplaysAGraphAsOftenAsItIsLaunched) {
  const CuFunction add = function("vmem_add_strided");
  const CuDevicePtr data = allocate(64);
  upload(data, std::vector<std::uint8_t>(64, 0));
  const CuStream on = stream(), branch = stream();
  const CuEvent fork = event(), join = event();
  const std::uint64_t count = 8, first = 0, stride = 1, value = 3;
  begin(on);
  EXPECT_EQ(launch(add, on, data, count, first, stride, value), kCuSuccess);
  EXPECT_EQ(cuda_.cuEventRecord(fork, on), kCuSuccess);
  EXPECT_EQ(cuda_.cuStreamWaitEvent(branch, fork, 0), kCuSuccess);
  EXPECT_EQ(status(branch), kCuCaptureActive);
  EXPECT_EQ(launch(add, branch, data, count, first, stride, value), kCuSuccess);
  EXPECT_EQ(cuda_.cuEventRecord(join, branch), kCuSuccess);
  EXPECT_EQ(cuda_.cuStreamWaitEvent(on, join, 0), kCuSuccess);
  CuGraph graph = nullptr;
  ASSERT_EQ(cuda_.cuStreamEndCapture(on, &graph), kCuSuccess);
  EXPECT_EQ(status(branch), kCuCaptureNone);
  EXPECT_EQ(download(data, 1)[0], 0) << "nothing has run";
  CuGraphExec instance = nullptr;
  ASSERT_EQ(cuda_.cuGraphInstantiateWithFlags(&instance, graph, 0), kCuSuccess);
  ASSERT_EQ(cuda_.cuGraphDestroy(graph), kCuSuccess);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(cuda_.cuGraphLaunch(instance, on), kCuSuccess);
  EXPECT_EQ(cuda_.cuStreamSynchronize(on), kCuSuccess);
  EXPECT_EQ(download(data, 1)[0], 30);
  EXPECT_EQ(cuda_.cuGraphExecDestroy(instance), kCuSuccess);
  EXPECT_EQ(cuda_.cuGraphLaunch(instance, on), kCuInvalidValue);
}

TEST_F(CudaDoubleCaptureTest, ABranchThatIsNotJoinedIsAnError) {
  const CuStream on = stream(), branch = stream();
  const CuEvent fork = event();
  begin(on);
  EXPECT_EQ(cuda_.cuEventRecord(fork, on), kCuSuccess);
  EXPECT_EQ(cuda_.cuStreamWaitEvent(branch, fork, 0), kCuSuccess);
  EXPECT_EQ(end(branch), kCuStreamCaptureUnmatched) << "it began in another stream";
  EXPECT_EQ(end(on), kCuStreamCaptureInvalidated);
  begin(on);
  EXPECT_EQ(cuda_.cuEventRecord(fork, on), kCuSuccess);
  EXPECT_EQ(cuda_.cuStreamWaitEvent(branch, fork, 0), kCuSuccess);
  EXPECT_EQ(end(on), kCuStreamCaptureUnjoined);
}

TEST_F(CudaDoubleCaptureTest, WaitingForWorkThatIsNotCapturedIsAnError) {
  const CuStream on = stream(), other = stream();
  const CuEvent outside = event();
  EXPECT_EQ(cuda_.cuEventRecord(outside, other), kCuSuccess);
  begin(on);
  EXPECT_EQ(cuda_.cuStreamWaitEvent(on, outside, 0), kCuStreamCaptureIsolation);
  EXPECT_EQ(end(on), kCuStreamCaptureInvalidated);
}

TEST_F(CudaDoubleCaptureTest, AQueryOnAnotherThreadEndsAGlobalCapture) {
  const CuStream on = stream();
  const CuEvent polled = event();
  begin(on, kCuCaptureGlobal);
  on_another_thread([&] { EXPECT_EQ(cuda_.cuEventQuery(polled), kCuStreamCaptureUnsupported); });
  EXPECT_EQ(status(on), kCuCaptureWasInvalidated);
  EXPECT_EQ(end(on), kCuStreamCaptureInvalidated);
}

TEST_F(CudaDoubleCaptureTest, ARelaxedThreadMayDoWhatItLikes) {
  const CuStream on = stream();
  const CuEvent polled = event();
  begin(on, kCuCaptureGlobal);
  on_another_thread([&] {
    CuStreamCaptureMode mode = kCuCaptureRelaxed;
    EXPECT_EQ(cuda_.cuThreadExchangeStreamCaptureMode(&mode), kCuSuccess);
    EXPECT_EQ(mode, kCuCaptureGlobal);
    EXPECT_EQ(cuda_.cuEventQuery(polled), kCuSuccess);
    EXPECT_EQ(cuda_.cuMemFree_v2(allocate(4096)), kCuSuccess);
    EXPECT_EQ(cuda_.cuThreadExchangeStreamCaptureMode(&mode), kCuSuccess);
    EXPECT_EQ(mode, kCuCaptureRelaxed);
  });
  EXPECT_EQ(status(on), kCuCaptureActive);
  EXPECT_EQ(end(on), kCuSuccess);
}

TEST_F(CudaDoubleCaptureTest, AThreadLocalCaptureForbidsItsOwnThreadAlone) {
  const CuStream on = stream();
  const CuEvent polled = event();
  begin(on, kCuCaptureThreadLocal);
  on_another_thread([&] {
    EXPECT_EQ(cuda_.cuEventQuery(polled), kCuSuccess);
    CuGraph graph = nullptr;
    EXPECT_EQ(cuda_.cuStreamEndCapture(on, &graph), 908) << "another thread's";
  });
  EXPECT_EQ(status(on), kCuCaptureActive);
  CuDevicePtr address = 0;
  EXPECT_EQ(cuda_.cuMemAlloc_v2(&address, 4096), kCuStreamCaptureUnsupported);
  EXPECT_EQ(end(on), kCuStreamCaptureInvalidated);
}

TEST_F(CudaDoubleCaptureTest, TheLegacyStreamMayNotDependOnACapture) {
  const CuStream blocking = stream(0);
  const CuDevicePtr data = allocate(64);
  begin(blocking, kCuCaptureRelaxed);
  auto found = kCuCaptureNone;
  EXPECT_EQ(cuda_.cuStreamIsCapturing(nullptr, &found), kCuStreamCaptureImplicit);
  EXPECT_EQ(status(blocking), kCuCaptureActive) << "asking does no harm";
  EXPECT_EQ(cuda_.cuMemsetD8Async(data, 1, 64, nullptr), kCuStreamCaptureImplicit);
  EXPECT_EQ(end(blocking), kCuStreamCaptureInvalidated);
  EXPECT_EQ(cuda_.cuStreamBeginCapture_v2(nullptr, kCuCaptureRelaxed), kCuStreamCaptureUnsupported);
}

TEST_F(CudaDoubleCaptureTest, AStreamThatIsCapturedIsNotWaitedFor) {
  const CuStream on = stream();
  const CuEvent inside = event();
  begin(on, kCuCaptureRelaxed);
  CuStreamCaptureMode relaxed = kCuCaptureRelaxed;
  ASSERT_EQ(cuda_.cuThreadExchangeStreamCaptureMode(&relaxed), kCuSuccess);
  EXPECT_EQ(cuda_.cuEventRecord(inside, on), kCuSuccess);
  EXPECT_EQ(cuda_.cuEventQuery(inside), kCuCapturedEvent);
  EXPECT_EQ(cuda_.cuEventSynchronize(inside), kCuCapturedEvent);
  EXPECT_EQ(cuda_.cuStreamSynchronize(on), kCuStreamCaptureUnsupported);
  EXPECT_EQ(end(on), kCuStreamCaptureInvalidated);
  ASSERT_EQ(cuda_.cuThreadExchangeStreamCaptureMode(&relaxed), kCuSuccess);
}

}  // namespace
}  // namespace vmem
