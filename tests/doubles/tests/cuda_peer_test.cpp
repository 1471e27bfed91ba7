// Two devices of the CUDA double: what each of them may touch of the other, and links that are not what they say.
#include <thread>

#include "tests/doubles/tests/cuda_library.hpp"

namespace vmem {
namespace {

constexpr std::size_t kBytes = 10000;
constexpr std::size_t kChunk = std::size_t{2} << 20U;

class CudaDoublePeerTest : public CudaDoubleTest {
 protected:
  void SetUp() override {
    CudaDoubleTest::SetUp();
    ASSERT_EQ(contexts_.size(), 2U);
    first_ = allocate(kBytes);
    use(1);
    second_ = allocate(kBytes);
    use(0);
    upload(first_, content_);
  }
  void use(std::size_t device) { ASSERT_EQ(cuda_.cuCtxSetCurrent(contexts_[device]), kCuSuccess); }
  CuResult copy_to_peer(CuStream on = nullptr) {
    return cuda_.cuMemcpyPeerAsync(second_, contexts_[1], first_, contexts_[0], kBytes, on);
  }
  std::vector<std::uint8_t> content_of_second() {
    use(1);
    auto found = download(second_, kBytes);
    use(0);
    return found;
  }

  const std::vector<std::uint8_t> content_ = pattern(kBytes, 9);
  CuDevicePtr first_ = 0, second_ = 0;
};

TEST_F(CudaDoublePeerTest, CopiesBetweenDevicesWithoutAccessAreStaged) {
  EXPECT_EQ(cuda_.cuMemcpyDtoD_v2(second_, first_, kBytes), kCuInvalidValue);
  EXPECT_EQ(cuda_.cuMemcpyAsync(second_, first_, kBytes, nullptr), kCuInvalidValue);
  std::uint8_t byte = 0;
  EXPECT_EQ(cuda_.cuMemcpyDtoH_v2(&byte, second_, 1), kCuInvalidValue) << "the other device's memory";
  EXPECT_EQ(copy_to_peer(), kCuSuccess);
  EXPECT_EQ(cuda_.cuCtxSynchronize(), kCuSuccess);
  EXPECT_EQ(content_of_second(), content_);
  EXPECT_EQ(cuda_.count("staged_copies"), 1U);
  EXPECT_EQ(cuda_.count("peer_copies"), 0U);
}

TEST_F(CudaDoublePeerTest, WithAccessADeviceSeesWhatThePeerAllocatedBeforeAndAfter) {
  EXPECT_EQ(cuda_.cuCtxEnablePeerAccess(contexts_[1], 0), kCuSuccess);
  EXPECT_EQ(cuda_.cuCtxEnablePeerAccess(contexts_[1], 0), kCuPeerAccessAlreadyEnabled);
  EXPECT_EQ(cuda_.cuMemcpyDtoD_v2(second_, first_, kBytes), kCuSuccess);
  EXPECT_EQ(cuda_.cuCtxSynchronize(), kCuSuccess);
  EXPECT_EQ(content_of_second(), content_);
  use(1);
  const CuDevicePtr later = allocate(kBytes);
  EXPECT_EQ(cuda_.cuMemcpyDtoD_v2(second_, first_, kBytes), kCuInvalidValue) << "access is one way";
  use(0);
  EXPECT_EQ(cuda_.cuMemcpyAsync(later, first_, kBytes, nullptr), kCuSuccess);
  EXPECT_EQ(copy_to_peer(), kCuSuccess);
  EXPECT_EQ(cuda_.cuCtxSynchronize(), kCuSuccess);
  EXPECT_EQ(cuda_.count("peer_copies"), 3U);
  EXPECT_EQ(cuda_.cuCtxDisablePeerAccess(contexts_[1]), kCuSuccess);
  EXPECT_EQ(cuda_.cuCtxDisablePeerAccess(contexts_[1]), 705);
  EXPECT_EQ(cuda_.cuMemcpyDtoD_v2(second_, first_, kBytes), kCuInvalidValue);
}

TEST_F(CudaDoublePeerTest, AKernelThatTouchesAPeerWithoutAccessIsAnIllegalAccess) {
  const std::uint64_t bytes = kBytes;
  EXPECT_EQ(launch(function("vmem_fill_bytes"), nullptr, second_, bytes, std::uint32_t{1}), kCuSuccess);
  EXPECT_EQ(cuda_.cuCtxSynchronize(), kCuIllegalAddress);
}

TEST_F(CudaDoublePeerTest, WindowsAreGrantedDeviceByDevice) {
  CuDevicePtr window = 0;
  ASSERT_EQ(cuda_.cuMemAddressReserve(&window, kChunk, 0, 0, 0), kCuSuccess);
  ASSERT_EQ(cuda_.cuMemMap(window, kChunk, 0, chunk(kChunk, kCuLocationDevice, 1), 0), kCuSuccess);
  ASSERT_EQ(grant(window, kChunk, kCuLocationDevice, 1), kCuSuccess);
  EXPECT_EQ(cuda_.cuMemcpyHtoD_v2(window, content_.data(), kBytes), kCuInvalidValue) << "device 0 has no access";
  EXPECT_EQ(cuda_.cuMemcpyPeerAsync(window, contexts_[1], first_, contexts_[0], kBytes, nullptr), kCuSuccess)
      << "the driver stages without peer mappings";
  ASSERT_EQ(grant(window, kChunk, kCuLocationDevice, 0, 1), kCuSuccess);
  EXPECT_EQ(download(window, kBytes), content_);
  EXPECT_EQ(cuda_.cuMemcpyHtoD_v2(window, content_.data(), kBytes), kCuInvalidValue) << "access to read alone";
  unsigned long long flags = 9;
  CuMemLocation location{kCuLocationDevice, 0};
  EXPECT_EQ(cuda_.cuMemGetAccess(&flags, &location, window), kCuSuccess);
  EXPECT_EQ(flags, 1U);
}

TEST_F(CudaDoublePeerTest, TellsWhichDevicesAreWhich) {
  char text[16] = "";
  ASSERT_EQ(cuda_.cuDeviceGetPCIBusId(text, sizeof text, 1), kCuSuccess);
  CuDevice device = -1;
  EXPECT_EQ(cuda_.cuDeviceGetByPCIBusId(&device, text), kCuSuccess);
  EXPECT_EQ(device, 1);
  CuUuid a{}, b{};
  EXPECT_EQ(cuda_.cuDeviceGetUuid_v2(&a, 0), kCuSuccess);
  EXPECT_EQ(cuda_.cuDeviceGetUuid_v2(&b, 1), kCuSuccess);
  EXPECT_NE(std::string(a.bytes, 16), std::string(b.bytes, 16));
  int value = -1;
  EXPECT_EQ(cuda_.cuDeviceGetP2PAttribute(&value, 2, 0, 1), kCuSuccess);
  EXPECT_EQ(value, 1);
  EXPECT_EQ(cuda_.cuDeviceCanAccessPeer(&value, 0, 0), kCuSuccess);
  EXPECT_EQ(value, 0);
}

class CudaDoubleAbsentPeerTest : public CudaDoublePeerTest {
  void settings() override { ASSERT_EQ(cuda_.set("peer", "0>1:absent"), 0); }
};

TEST_F(CudaDoubleAbsentPeerTest, ALinkMayBeThereInOneDirectionAlone) {
  int can = -1;
  EXPECT_EQ(cuda_.cuDeviceCanAccessPeer(&can, 0, 1), kCuSuccess);
  EXPECT_EQ(can, 0);
  EXPECT_EQ(cuda_.cuDeviceCanAccessPeer(&can, 1, 0), kCuSuccess);
  EXPECT_EQ(can, 1);
  EXPECT_EQ(cuda_.cuCtxEnablePeerAccess(contexts_[1], 0), 217);
  CuDevicePtr window = 0;
  ASSERT_EQ(cuda_.cuMemAddressReserve(&window, kChunk, 0, 0, 0), kCuSuccess);
  ASSERT_EQ(cuda_.cuMemMap(window, kChunk, 0, chunk(kChunk, kCuLocationDevice, 1), 0), kCuSuccess);
  EXPECT_EQ(grant(window, kChunk, kCuLocationDevice, 0), 217);
}

class CudaDoubleLyingPeerTest : public CudaDoublePeerTest {
  void settings() override { ASSERT_EQ(cuda_.set("peer", "0>1:lies,1>0:works"), 0); }
};

TEST_F(CudaDoubleLyingPeerTest, BytesOverALinkThatLiesDoNotArrive) {
  use(1);
  ASSERT_EQ(cuda_.cuMemsetD8Async(second_, 7, kBytes, nullptr), kCuSuccess);
  ASSERT_EQ(cuda_.cuCtxSynchronize(), kCuSuccess);
  use(0);
  EXPECT_EQ(copy_to_peer(), kCuSuccess);
  EXPECT_EQ(cuda_.cuCtxSynchronize(), kCuSuccess);
  EXPECT_EQ(content_of_second(), content_) << "staged, so right";
  use(1);
  ASSERT_EQ(cuda_.cuMemsetD8Async(second_, 7, kBytes, nullptr), kCuSuccess);
  ASSERT_EQ(cuda_.cuCtxSynchronize(), kCuSuccess);
  use(0);
  int can = 0;
  EXPECT_EQ(cuda_.cuDeviceCanAccessPeer(&can, 0, 1), kCuSuccess);
  EXPECT_EQ(can, 1);
  EXPECT_EQ(cuda_.cuCtxEnablePeerAccess(contexts_[1], 0), kCuSuccess);
  EXPECT_EQ(copy_to_peer(), kCuSuccess);
  EXPECT_EQ(cuda_.cuCtxSynchronize(), kCuSuccess);
  EXPECT_EQ(content_of_second(), std::vector<std::uint8_t>(kBytes, 7));
  // The other direction is true to its word.
  use(1);
  EXPECT_EQ(cuda_.cuCtxEnablePeerAccess(contexts_[0], 0), kCuSuccess);
  EXPECT_EQ(cuda_.cuMemcpyPeerAsync(second_, contexts_[1], first_, contexts_[0], kBytes, nullptr), kCuSuccess);
  EXPECT_EQ(cuda_.cuCtxSynchronize(), kCuSuccess);
  EXPECT_EQ(content_of_second(), content_);
}

class CudaDoubleHangingPeerTest : public CudaDoublePeerTest {
  void settings() override { ASSERT_EQ(cuda_.set("peer", "hangs"), 0); }
};

TEST_F(CudaDoubleHangingPeerTest, CopiesOverALinkThatHangsNeverEnd) {
  const CuStream on = stream();
  EXPECT_EQ(cuda_.cuCtxEnablePeerAccess(contexts_[1], 0), kCuSuccess);
  EXPECT_EQ(copy_to_peer(on), kCuSuccess);
  while (cuda_.num_hung() == 0) std::this_thread::yield();
  EXPECT_EQ(cuda_.cuStreamQuery(on), kCuNotReady);
  cuda_.release_hung();
  EXPECT_EQ(cuda_.cuStreamSynchronize(on), kCuSuccess);
  EXPECT_EQ(content_of_second(), content_);
}

class CudaDoubleCrashingPeerDeathTest : public CudaDoublePeerTest {
  void settings() override { ASSERT_EQ(cuda_.set("peer", "crashes"), 0); }
};

TEST_F(CudaDoubleCrashingPeerDeathTest, CopiesOverALinkThatCrashesEndTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        cuda_.cuCtxEnablePeerAccess(contexts_[1], 0);
        copy_to_peer();
        cuda_.cuCtxSynchronize();
      },
      "");
}

}  // namespace
}  // namespace vmem
