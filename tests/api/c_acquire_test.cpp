#include <cstring>

#include "tests/api/c_machine.hpp"

namespace {

class CAcquireTest : public CMachine {};

TEST_F(CAcquireTest, AListGivesAPointerForEachRange) {
  const vmemAddress_t a = allocate(kMiB);
  const vmemAddress_t b = allocate(3 * kMiB);
  const vmemRange_t ranges[] = {{b + 4096, 8192, vmemAccessWrite}, {a, kMiB, vmemAccessWrite}};
  vmemAcquired_t acquired = nullptr;
  void* pointers[2] = {nullptr, nullptr};
  ASSERT_OK(vmemAcquire(pool_, host_, VMEM_NO_STREAM, ranges, 2, &acquired, pointers));
  // Host memory may be touched by the CPU.
  std::memset(pointers[0], 0x11, 8192);
  std::memset(pointers[1], 0x22, kMiB);
  EXPECT_OK(vmemAcquiredGetStatus(acquired));
  EXPECT_OK(vmemRelease(acquired));
  EXPECT_EQ(read(b + 4096, 8192), std::vector<unsigned char>(8192, 0x11));
  EXPECT_EQ(read(a, kMiB), std::vector<unsigned char>(kMiB, 0x22));
}

TEST_F(CAcquireTest, BytesFollowFromDeviceToDevice) {
  const vmemAddress_t address = allocate(2 * kMiB);
  const auto bytes = pattern(2 * kMiB, 5);
  write(address, bytes);
  vmemDevice_t devices[] = {gpu_, other_gpu_, host_, gpu_};
  for (vmemDevice_t device : devices) {
    const vmemRange_t range = {address, bytes.size(), vmemAccessRead};
    vmemAcquired_t acquired = nullptr;
    void* pointer = nullptr;
    ASSERT_OK(vmemAcquire(pool_, device, VMEM_NO_STREAM, &range, 1, &acquired, &pointer));
    std::vector<unsigned char> back(bytes.size());
    EXPECT_OK(vmemCopy(host_, back.data(), VMEM_NO_STREAM, device, pointer, VMEM_NO_STREAM, back.size()));
    EXPECT_EQ(back, bytes);
    EXPECT_OK(vmemRelease(acquired));
  }
}

TEST_F(CAcquireTest, StreamsOrderHolders) {
  const vmemAddress_t address = allocate(kMiB);
  vmemStream_t first = nullptr;
  vmemStream_t second = nullptr;
  ASSERT_OK(vmemStreamCreate(gpu_, &first));
  ASSERT_OK(vmemStreamCreate(other_gpu_, &second));
  const auto bytes = pattern(kMiB, 6);
  const vmemRange_t to_write = {address, kMiB, vmemAccessWriteDiscard};
  vmemAcquired_t acquired = nullptr;
  void* pointer = nullptr;
  ASSERT_OK(vmemAcquire(pool_, gpu_, first, &to_write, 1, &acquired, &pointer));
  vmemEvent_t event = nullptr;
  EXPECT_OK(vmemCopyAsync(gpu_, pointer, first, host_, bytes.data(), VMEM_NO_STREAM, kMiB, &event));
  EXPECT_OK(vmemRelease(acquired));
  const vmemRange_t to_read = {address, kMiB, vmemAccessRead};
  ASSERT_OK(vmemAcquire(pool_, other_gpu_, second, &to_read, 1, &acquired, &pointer));
  std::vector<unsigned char> back(kMiB);
  EXPECT_OK(vmemCopy(host_, back.data(), VMEM_NO_STREAM, other_gpu_, pointer, second, kMiB));
  EXPECT_EQ(back, bytes);
  EXPECT_OK(vmemRelease(acquired));
  EXPECT_OK(vmemEventSynchronize(event));
  EXPECT_OK(vmemEventDestroy(event));
  EXPECT_OK(vmemStreamDestroy(gpu_, first));
  EXPECT_OK(vmemStreamDestroy(other_gpu_, second));
}

TEST_F(CAcquireTest, AHolderMakesOthersWaitUntilTheirDeadline) {
  const vmemAddress_t address = allocate(kMiB);
  const vmemRange_t range = {address, kMiB, vmemAccessWrite};
  vmemAcquired_t holder = nullptr;
  void* pointer = nullptr;
  ASSERT_OK(vmemAcquire(pool_, host_, VMEM_NO_STREAM, &range, 1, &holder, &pointer));
  vmemAcquired_t waiter = holder;
  void* other = pointer;
  EXPECT_EQ(vmemAcquireWithDeadline(pool_, gpu_, VMEM_NO_STREAM, &range, 1, 0, &waiter, &other), vmemErrorBusy);
  EXPECT_EQ(waiter, nullptr);
  EXPECT_EQ(other, nullptr);
  EXPECT_EQ(vmemFree(pool_, address), vmemErrorBusy);
  EXPECT_FAILS(vmemErrorBusy, "1 acquires", vmemPoolDestroy(pool_));
  EXPECT_OK(vmemRelease(holder));
  EXPECT_OK(vmemAcquireWithDeadline(pool_, gpu_, VMEM_NO_STREAM, &range, 1, UINT64_MAX, &waiter, &other));
  EXPECT_OK(vmemRelease(waiter));
}

TEST_F(CAcquireTest, ReadersShareARange) {
  const vmemAddress_t address = allocate(kMiB);
  ASSERT_OK(vmemMemset(pool_, address, 3, kMiB));
  const vmemRange_t range = {address, kMiB, vmemAccessRead};
  vmemAcquired_t first = nullptr;
  vmemAcquired_t second = nullptr;
  void* pointer = nullptr;
  ASSERT_OK(vmemAcquire(pool_, gpu_, VMEM_NO_STREAM, &range, 1, &first, &pointer));
  ASSERT_OK(vmemAcquireWithDeadline(pool_, other_gpu_, VMEM_NO_STREAM, &range, 1, 0, &second, &pointer));
  EXPECT_OK(vmemRelease(first));
  EXPECT_OK(vmemRelease(second));
}

TEST_F(CAcquireTest, MoreThanADeviceHoldsIsWorkedOnInTurn) {
  // Three times a GPU's memory, written on one and read on the other, in pieces.
  constexpr std::size_t kPiece = 16 * kMiB;
  constexpr std::size_t kBytes = 3 * 256 * kMiB;
  const vmemAddress_t address = allocate(kBytes);
  std::vector<unsigned char> bytes(kPiece);
  for (std::size_t offset = 0; offset < kBytes; offset += kPiece) {
    std::memset(bytes.data(), static_cast<int>(offset / kPiece + 1), kPiece);
    const vmemRange_t range = {address + offset, kPiece, vmemAccessWriteDiscard};
    vmemAcquired_t acquired = nullptr;
    void* pointer = nullptr;
    ASSERT_OK(vmemAcquire(pool_, gpu_, VMEM_NO_STREAM, &range, 1, &acquired, &pointer));
    ASSERT_OK(vmemCopy(gpu_, pointer, VMEM_NO_STREAM, host_, bytes.data(), VMEM_NO_STREAM, kPiece));
    ASSERT_OK(vmemRelease(acquired));
  }
  for (std::size_t offset = 0; offset < kBytes; offset += kPiece) {
    const vmemRange_t range = {address + offset, kPiece, vmemAccessRead};
    vmemAcquired_t acquired = nullptr;
    void* pointer = nullptr;
    ASSERT_OK(vmemAcquire(pool_, other_gpu_, VMEM_NO_STREAM, &range, 1, &acquired, &pointer));
    ASSERT_OK(vmemCopy(host_, bytes.data(), VMEM_NO_STREAM, other_gpu_, pointer, VMEM_NO_STREAM, kPiece));
    ASSERT_OK(vmemRelease(acquired));
    const auto expected = static_cast<unsigned char>(offset / kPiece + 1);
    ASSERT_EQ(bytes[0], expected);
    ASSERT_EQ(std::memcmp(bytes.data(), bytes.data() + 1, kPiece - 1), 0);
  }
  vmemStats_t stats = VMEM_STATS_INIT;
  ASSERT_OK(vmemGetStats(pool_, &stats));
  EXPECT_GT(stats.evictions, 0U);
  EXPECT_GT(stats.evicted_bytes, 0U);
  EXPECT_OK(vmemFree(pool_, address));
}

}  // namespace
