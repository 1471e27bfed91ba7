#include <cstring>

#include "tests/api/c_machine.hpp"

namespace {

class CCopyTest : public CMachine {
 protected:
  void SetUp() override {
    CMachine::SetUp();
    ASSERT_OK(vmemStreamCreate(gpu_, &stream_));
  }
  void TearDown() override {
    EXPECT_OK(vmemStreamDestroy(gpu_, stream_));
    CMachine::TearDown();
  }

  vmemStream_t stream_ = nullptr;
};

TEST_F(CCopyTest, MemcpyTellsPoolAndHostApart) {
  constexpr std::size_t kBytes = 3 * kMiB + 11;
  const vmemAddress_t a = allocate(kBytes);
  const vmemAddress_t b = allocate(kBytes);
  const auto bytes = pattern(kBytes, 7);
  EXPECT_OK(vmemMemcpy(pool_, a, VMEM_HOST_ADDRESS(bytes.data()), kBytes));
  EXPECT_OK(vmemMemcpy(pool_, b, a, kBytes));
  std::vector<unsigned char> back(kBytes);
  EXPECT_OK(vmemMemcpy(pool_, VMEM_HOST_ADDRESS(back.data()), b, kBytes));
  EXPECT_EQ(back, bytes);
  std::vector<unsigned char> copy(kBytes);
  EXPECT_OK(vmemMemcpy(pool_, VMEM_HOST_ADDRESS(copy.data()), VMEM_HOST_ADDRESS(back.data()), kBytes));
  EXPECT_EQ(copy, bytes);
}

TEST_F(CCopyTest, MemsetSetsTheLowByte) {
  const vmemAddress_t address = allocate(2 * kMiB + 5);
  ASSERT_OK(vmemMemset(pool_, address, 0x1FF, 2 * kMiB + 5));
  ASSERT_OK(vmemMemset(pool_, address + 3, 0x44, kMiB));
  auto expected = std::vector<unsigned char>(2 * kMiB + 5, 0xFF);
  std::memset(expected.data() + 3, 0x44, kMiB);
  EXPECT_EQ(read(address, 2 * kMiB + 5), expected);
}

TEST_F(CCopyTest, StreamOrderedCopiesFollowOneAnother) {
  constexpr std::size_t kBytes = 40 * kMiB + 3;  // several pieces
  const vmemAddress_t a = allocate(kBytes);
  const vmemAddress_t b = allocate(kBytes);
  const auto bytes = pattern(kBytes, 8);
  std::vector<unsigned char> back(kBytes);
  vmemEvent_t event = nullptr;
  ASSERT_OK(vmemMemcpyAsync(pool_, a, VMEM_HOST_ADDRESS(bytes.data()), kBytes, gpu_, stream_, nullptr));
  ASSERT_OK(vmemMemcpyAsync(pool_, b, a, kBytes, gpu_, stream_, nullptr));
  ASSERT_OK(vmemMemcpyAsync(pool_, VMEM_HOST_ADDRESS(back.data()), b, kBytes, gpu_, stream_, &event));
  EXPECT_OK(vmemEventSynchronize(event));
  int done = 0;
  EXPECT_OK(vmemEventQuery(event, &done));
  EXPECT_EQ(done, 1);
  EXPECT_OK(vmemEventDestroy(event));
  EXPECT_EQ(back, bytes);
  // What a stream has written is there for everybody else, too.
  EXPECT_EQ(read(b, kBytes), bytes);
}

TEST_F(CCopyTest, AStreamOrderedCopyMayBeLargerThanItsDevice) {
  constexpr std::size_t kBytes = 300 * kMiB;
  const vmemAddress_t address = allocate(kBytes);
  const std::vector<unsigned char> bytes(kBytes, 0x6D);
  vmemEvent_t event = nullptr;
  ASSERT_OK(vmemMemcpyAsync(pool_, address, VMEM_HOST_ADDRESS(bytes.data()), kBytes, gpu_, stream_, &event));
  EXPECT_OK(vmemEventSynchronize(event));
  EXPECT_OK(vmemEventDestroy(event));
  EXPECT_EQ(read(address + kBytes - kMiB, kMiB), std::vector<unsigned char>(kMiB, 0x6D));
}

// The copy goes piece by piece, and what follows a buffer may be another.
TEST_F(CCopyTest, ACopyThatPassesTheEndOfABufferTouchesNoNeighbour) {
  constexpr std::size_t kBytes = 16 * kMiB;
  const vmemAddress_t row[] = {allocate(kBytes), allocate(kBytes), allocate(kBytes)};
  ASSERT_TRUE(row[1] == row[0] + kBytes || row[2] == row[1] + kBytes) << "the test means to have neighbours";
  const vmemAddress_t large = allocate(2 * kBytes);
  std::vector<unsigned char> host(2 * kBytes, 0xEE);
  for (const vmemAddress_t address : row) ASSERT_OK(vmemMemset(pool_, address, 0x11, kBytes));
  ASSERT_OK(vmemMemset(pool_, large, 0x22, 2 * kBytes));
  const vmemAddress_t memory = VMEM_HOST_ADDRESS(host.data());
  for (const vmemAddress_t address : row) {
    for (const vmemStream_t stream : {stream_, static_cast<vmemStream_t>(VMEM_NO_STREAM)}) {
      EXPECT_EQ(vmemMemcpyAsync(pool_, address, memory, 2 * kBytes, gpu_, stream, nullptr), vmemErrorInvalidValue);
      EXPECT_EQ(vmemMemcpyAsync(pool_, memory, address, 2 * kBytes, gpu_, stream, nullptr), vmemErrorInvalidValue);
      EXPECT_EQ(vmemMemcpyAsync(pool_, address, large, 2 * kBytes, gpu_, stream, nullptr), vmemErrorInvalidValue);
      EXPECT_EQ(vmemMemcpyAsync(pool_, large, address, 2 * kBytes, gpu_, stream, nullptr), vmemErrorInvalidValue);
    }
  }
  for (const vmemAddress_t address : row) EXPECT_EQ(read(address, kBytes), std::vector<unsigned char>(kBytes, 0x11));
  EXPECT_EQ(read(large, 2 * kBytes), std::vector<unsigned char>(2 * kBytes, 0x22));
  EXPECT_EQ(host, std::vector<unsigned char>(2 * kBytes, 0xEE));
}

TEST_F(CCopyTest, WithoutAStreamItIsTheSynchronousForm) {
  const vmemAddress_t address = allocate(kMiB);
  const auto bytes = pattern(kMiB, 9);
  vmemEvent_t event = nullptr;
  ASSERT_OK(vmemMemcpyAsync(pool_, address, VMEM_HOST_ADDRESS(bytes.data()), kMiB, nullptr, VMEM_NO_STREAM, &event));
  int done = 0;
  EXPECT_OK(vmemEventQuery(event, &done));
  EXPECT_EQ(done, 1);
  EXPECT_OK(vmemEventDestroy(event));
  EXPECT_EQ(read(address, kMiB), bytes);
}

TEST_F(CCopyTest, CopiesOfNothingAreSuccesses) {
  vmemEvent_t event = nullptr;
  EXPECT_OK(vmemMemcpy(pool_, 0, 0, 0));
  EXPECT_OK(vmemMemset(pool_, 0, 1, 0));
  EXPECT_OK(vmemMemcpyAsync(pool_, 0, 0, 0, nullptr, VMEM_NO_STREAM, &event));
  EXPECT_OK(vmemEventSynchronize(event));
  EXPECT_OK(vmemEventDestroy(event));
  EXPECT_OK(vmemCopy(gpu_, nullptr, VMEM_NO_STREAM, host_, nullptr, VMEM_NO_STREAM, 0));
}

TEST_F(CCopyTest, PointersOfTwoVendorsAreCopied) {
  const vmemAddress_t address = allocate(2 * kMiB);
  const vmemAddress_t other = allocate(2 * kMiB);
  const auto bytes = pattern(2 * kMiB, 10);
  write(address, bytes);
  vmemStream_t other_stream = nullptr;
  ASSERT_OK(vmemStreamCreate(other_gpu_, &other_stream));
  const vmemRange_t from = {address, bytes.size(), vmemAccessRead};
  const vmemRange_t to = {other, bytes.size(), vmemAccessWriteDiscard};
  vmemAcquired_t source = nullptr;
  vmemAcquired_t destination = nullptr;
  void* src = nullptr;
  void* dst = nullptr;
  ASSERT_OK(vmemAcquire(pool_, gpu_, stream_, &from, 1, &source, &src));
  ASSERT_OK(vmemAcquire(pool_, other_gpu_, other_stream, &to, 1, &destination, &dst));
  EXPECT_OK(vmemCopy(other_gpu_, dst, other_stream, gpu_, src, stream_, bytes.size()));
  EXPECT_OK(vmemRelease(source));
  EXPECT_OK(vmemRelease(destination));
  EXPECT_EQ(read(other, bytes.size()), bytes);
  EXPECT_OK(vmemStreamDestroy(other_gpu_, other_stream));
}

}  // namespace
