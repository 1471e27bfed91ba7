// Memory of the CUDA double: allocations, windows, pinned memory; what is refused, and what faults.
#include <sys/mman.h>

#include <cstring>

#include "tests/doubles/tests/cuda_library.hpp"

namespace vmem {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20U;
constexpr std::size_t kChunk = 2 * kMiB;

class CudaDoubleMemoryTest : public CudaDoubleTest {
 protected:
  std::size_t free_bytes() {
    std::size_t free = 0, total = 0;
    EXPECT_EQ(cuda_.cuMemGetInfo_v2(&free, &total), kCuSuccess);
    EXPECT_EQ(total, 256 * kMiB);
    return free;
  }
};

TEST_F(CudaDoubleMemoryTest, KeepsWhatIsCopiedToIt) {
  const auto content = pattern(3 * kMiB + 17, 1);
  const CuDevicePtr a = allocate(content.size());
  const CuDevicePtr b = allocate(content.size());
  upload(a, content);
  EXPECT_EQ(cuda_.cuMemcpyDtoD_v2(b, a, content.size()), kCuSuccess);
  EXPECT_EQ(download(b, content.size()), content);
  EXPECT_EQ(cuda_.cuMemsetD32Async(b, 0x01020304, 16, nullptr), kCuSuccess);
  auto expected = content;
  for (std::size_t i = 0; i < 64; ++i) expected[i] = static_cast<std::uint8_t>(4 - i % 4);
  EXPECT_EQ(download(b, content.size()), expected);
}

TEST_F(CudaDoubleMemoryTest, CountsItsBytesAndGivesThemBack) {
  const std::size_t before = free_bytes();
  const CuDevicePtr a = allocate(100 * kMiB);
  EXPECT_EQ(free_bytes(), before - 100 * kMiB);
  CuDevicePtr b = 0;
  EXPECT_EQ(cuda_.cuMemAlloc_v2(&b, 200 * kMiB), kCuOutOfMemory);
  EXPECT_EQ(cuda_.cuMemAlloc_v2(&b, SIZE_MAX - 4), kCuOutOfMemory);
  EXPECT_EQ(cuda_.cuMemAlloc_v2(&b, 0), kCuInvalidValue);
  EXPECT_EQ(cuda_.cuMemFree_v2(a + 4096), kCuInvalidValue);
  EXPECT_EQ(cuda_.cuMemFree_v2(a), kCuSuccess);
  EXPECT_EQ(cuda_.cuMemFree_v2(a), kCuInvalidValue);
  EXPECT_EQ(cuda_.cuMemFree_v2(0), kCuSuccess);
  EXPECT_EQ(free_bytes(), before);
  cuda_.occupy(0, 10 * kMiB);
  EXPECT_EQ(free_bytes(), before - 10 * kMiB);
}

using CudaDoubleDeathTest = CudaDoubleMemoryTest;

TEST_F(CudaDoubleDeathTest, DeviceMemoryHasNoAccessForTheCpu) {
  const CuDevicePtr address = allocate(4096);
  upload(address, pattern(4096, 2));
  auto* const pointer = reinterpret_cast<volatile char*>(address);
  EXPECT_DEATH(static_cast<void>(pointer[0]), "");
  EXPECT_DEATH(pointer[0] = 1, "");
}

TEST_F(CudaDoubleMemoryTest, RefusesCopiesOfWrongRanges) {
  const CuDevicePtr address = allocate(8192);
  std::vector<std::uint8_t> host(16384, 7);
  EXPECT_EQ(cuda_.cuMemcpyHtoD_v2(address, host.data(), 16384), kCuInvalidValue) << "past its end";
  EXPECT_EQ(cuda_.cuMemcpyHtoD_v2(address + 16384, host.data(), 1), kCuInvalidValue);
  EXPECT_EQ(cuda_.cuMemcpyHtoD_v2(reinterpret_cast<CuDevicePtr>(host.data()), host.data(), 1), kCuInvalidValue)
      << "host memory that is not pinned";
  const CuDevicePtr other = allocate(8192);
  EXPECT_EQ(cuda_.cuMemcpyHtoD_v2(address, reinterpret_cast<const void*>(other), 16), kCuInvalidValue)
      << "device memory as host memory";
  EXPECT_EQ(cuda_.cuMemFree_v2(other), kCuSuccess);
  EXPECT_EQ(cuda_.cuMemcpyDtoD_v2(address, other, 16), kCuInvalidValue) << "freed";
  EXPECT_EQ(cuda_.cuMemcpyHtoD_v2(address, host.data(), 8192), kCuSuccess) << "none of it was sticky";
}

TEST_F(CudaDoubleMemoryTest, AWindowIsContiguousOverDevicePeerAndHost) {
  CuDevicePtr window = 0;
  ASSERT_EQ(cuda_.cuMemAddressReserve(&window, 4 * kChunk, 0, 0, 0), kCuSuccess);
  const std::size_t before = free_bytes();
  const CuMemHandle chunks[] = {chunk(kChunk, kCuLocationDevice, 0), chunk(kChunk, kCuLocationDevice, 1),
                                chunk(kChunk, kCuLocationHostNuma, 0)};
  EXPECT_EQ(free_bytes(), before - kChunk);
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(cuda_.cuMemMap(window + i * kChunk, kChunk, 0, chunks[i], 0), kCuSuccess);
  }
  EXPECT_EQ(cuda_.cuMemMap(window, kChunk, 0, chunks[0], 0), 208) << "mapped already";
  std::uint8_t byte = 1;
  EXPECT_EQ(cuda_.cuMemcpyHtoD_v2(window, &byte, 1), kCuInvalidValue) << "mapped, but access was not granted";
  ASSERT_EQ(grant(window, 3 * kChunk, kCuLocationDevice, 0), kCuSuccess);

  // One copy and one kernel over all three.
  const auto content = pattern(3 * kChunk, 3);
  upload(window, content);
  EXPECT_EQ(download(window, content.size()), content);
  const std::uint64_t bytes = kChunk + 64;
  const std::uint32_t value = 0x5A;
  ASSERT_EQ(launch(function("vmem_fill_bytes"), nullptr, window + kChunk - 32, bytes, value), kCuSuccess);
  auto expected = content;
  std::memset(expected.data() + kChunk - 32, 0x5A, bytes);
  EXPECT_EQ(download(window, content.size()), expected);

  EXPECT_EQ(cuda_.cuMemcpyHtoD_v2(window + 3 * kChunk - 1, content.data(), 2), kCuInvalidValue) << "into the hole";
  EXPECT_EQ(cuda_.cuMemUnmap(window, kChunk / 2), kCuInvalidValue) << "part of a mapping";
  EXPECT_EQ(cuda_.cuMemUnmap(window + kChunk, kChunk), kCuSuccess);
  EXPECT_EQ(cuda_.cuMemcpyDtoH_v2(&byte, window + kChunk, 1), kCuInvalidValue);
  EXPECT_EQ(cuda_.cuMemAddressFree(window, 4 * kChunk), kCuInvalidValue) << "mapped";
  EXPECT_EQ(cuda_.cuMemUnmap(window, kChunk), kCuSuccess);
  EXPECT_EQ(cuda_.cuMemUnmap(window + 2 * kChunk, kChunk), kCuSuccess);
  for (const CuMemHandle handle : chunks) EXPECT_EQ(cuda_.cuMemRelease(handle), kCuSuccess);
  EXPECT_EQ(cuda_.cuMemRelease(chunks[0]), kCuInvalidValue);
  EXPECT_EQ(cuda_.cuMemAddressFree(window, 4 * kChunk), kCuSuccess);
  EXPECT_EQ(free_bytes(), before);
  EXPECT_EQ(cuda_.count("mappings"), 0U);
  EXPECT_EQ(cuda_.count("reservations"), 0U);
}

TEST_F(CudaDoubleMemoryTest, AChunkKeepsItsBytesAtAnotherAddressAndItsMemoryWhileMapped) {
  CuDevicePtr window = 0;
  ASSERT_EQ(cuda_.cuMemAddressReserve(&window, 4 * kChunk, 0, 0, 0), kCuSuccess);
  const std::size_t before = free_bytes();
  const CuMemHandle handle = chunk(kChunk, kCuLocationDevice, 0);
  ASSERT_EQ(cuda_.cuMemMap(window, kChunk, 0, handle, 0), kCuSuccess);
  ASSERT_EQ(grant(window, kChunk, kCuLocationDevice, 0), kCuSuccess);
  const auto content = pattern(kChunk, 4);
  upload(window, content);
  ASSERT_EQ(cuda_.cuMemMap(window + 2 * kChunk, kChunk, 0, handle, 0), kCuSuccess) << "an alias";
  ASSERT_EQ(grant(window + 2 * kChunk, kChunk, kCuLocationDevice, 0), kCuSuccess);
  EXPECT_EQ(download(window + 2 * kChunk, kChunk), content);
  EXPECT_EQ(cuda_.cuMemRelease(handle), kCuSuccess);
  EXPECT_EQ(cuda_.cuMemUnmap(window, kChunk), kCuSuccess);
  EXPECT_EQ(free_bytes(), before - kChunk) << "the other mapping holds it";
  EXPECT_EQ(download(window + 2 * kChunk, kChunk), content);
  EXPECT_EQ(cuda_.cuMemUnmap(window + 2 * kChunk, kChunk), kCuSuccess);
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(CudaDoubleMemoryTest, RefusesWrongSizesOffsetsAndLocations) {
  CuMemAllocationProp properties{};
  properties.type = kCuAllocationPinned;
  properties.location = {kCuLocationDevice, 0};
  CuMemHandle handle = 0;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{6912}, kChunk + 1}) {
    EXPECT_EQ(cuda_.cuMemCreate(&handle, bytes, &properties, 0), kCuInvalidValue);
  }
  EXPECT_EQ(cuda_.cuMemCreate(&handle, 512 * kMiB, &properties, 0), kCuOutOfMemory);
  properties.location.id = 9;
  EXPECT_EQ(cuda_.cuMemCreate(&handle, kChunk, &properties, 0), kCuInvalidDevice);
  CuDevicePtr window = 0;
  EXPECT_EQ(cuda_.cuMemAddressReserve(&window, kChunk + 4096, 0, 0, 0), kCuInvalidValue);
  EXPECT_EQ(cuda_.cuMemAddressReserve(&window, kChunk, 3, 0, 0), kCuInvalidValue);
  ASSERT_EQ(cuda_.cuMemAddressReserve(&window, kChunk, 64 * kMiB, 0, 0), kCuSuccess);
  EXPECT_EQ(window % (64 * kMiB), 0U);
  const CuMemHandle mine = chunk(kChunk, kCuLocationDevice, 0);
  EXPECT_EQ(cuda_.cuMemMap(window, kChunk, 4096, mine, 0), kCuInvalidValue);
  EXPECT_EQ(cuda_.cuMemMap(window + kChunk, kChunk, 0, mine, 0), kCuInvalidValue) << "outside the reservation";
  EXPECT_EQ(cuda_.cuMemMap(window, kChunk, 0, mine, 0), kCuSuccess);
  EXPECT_EQ(grant(window, kChunk, kCuLocationHost, 0), kCuInvalidValue) << "the CPU has no access to device memory";
}

TEST_F(CudaDoubleMemoryTest, HostChunksMayBeGivenToTheCpu) {
  CuDevicePtr window = 0;
  ASSERT_EQ(cuda_.cuMemAddressReserve(&window, kChunk, 0, 0, 0), kCuSuccess);
  ASSERT_EQ(cuda_.cuMemMap(window, kChunk, 0, chunk(kChunk, kCuLocationHostNuma, 0), 0), kCuSuccess);
  ASSERT_EQ(grant(window, kChunk, kCuLocationDevice, 0), kCuSuccess);
  ASSERT_EQ(grant(window, kChunk, kCuLocationHost, 0), kCuSuccess);
  const auto content = pattern(kChunk, 5);
  upload(window, content);
  EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(window), content.data(), kChunk), 0);
  unsigned type = 0;
  EXPECT_EQ(cuda_.cuPointerGetAttribute(&type, kCuPointerMemoryType, window), kCuSuccess);
  EXPECT_EQ(type, static_cast<unsigned>(kCuMemoryHost));
}

TEST_F(CudaDoubleMemoryTest, ExportsChunksAsDescriptors) {
  CuMemAllocationProp properties{};
  properties.type = kCuAllocationPinned;
  properties.requested_handle_types = static_cast<CuMemHandleType>(kCuHandlePosixFd);
  properties.location = {static_cast<CuMemLocationType>(kCuLocationHostNuma), 0};
  CuMemHandle handle = 0;
  ASSERT_EQ(cuda_.cuMemCreate(&handle, kChunk, &properties, 0), kCuSuccess);
  int fd = -1;
  ASSERT_EQ(cuda_.cuMemExportToShareableHandle(&fd, handle, properties.requested_handle_types, 0), kCuSuccess);
  CuMemHandle imported = 0;
  ASSERT_EQ(cuda_.cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)),
                                                 properties.requested_handle_types),
            kCuSuccess);
  void* const view = ::mmap(nullptr, kChunk, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(view, MAP_FAILED);
  ::close(fd);
  CuDevicePtr window = 0;
  ASSERT_EQ(cuda_.cuMemAddressReserve(&window, kChunk, 0, 0, 0), kCuSuccess);
  ASSERT_EQ(cuda_.cuMemMap(window, kChunk, 0, imported, 0), kCuSuccess);
  ASSERT_EQ(grant(window, kChunk, kCuLocationDevice, 1), kCuSuccess);
  ASSERT_EQ(cuda_.cuCtxSetCurrent(contexts_[1]), kCuSuccess);
  const auto content = pattern(kChunk, 6);
  upload(window, content);
  EXPECT_EQ(std::memcmp(view, content.data(), kChunk), 0) << "another process would see the same bytes";
  ::munmap(view, kChunk);
  EXPECT_EQ(cuda_.cuMemExportToShareableHandle(&fd, chunk(kChunk, kCuLocationDevice, 0),
                                               properties.requested_handle_types, 0),
            kCuInvalidValue)
      << "types are fixed when memory is made";
}

TEST_F(CudaDoubleMemoryTest, PinsHostMemoryOnce) {
  std::vector<std::uint8_t> host(64 << 10U, 3);
  ASSERT_EQ(cuda_.cuMemHostRegister_v2(host.data(), host.size(), 1), kCuSuccess);
  EXPECT_EQ(cuda_.cuMemHostRegister_v2(host.data() + 4096, 4096, 1), kCuHostMemoryAlreadyRegistered);
  CuDevicePtr address = 0;
  EXPECT_EQ(cuda_.cuMemHostGetDevicePointer_v2(&address, host.data() + 8, 0), kCuSuccess);
  EXPECT_EQ(address, reinterpret_cast<CuDevicePtr>(host.data() + 8));
  const std::uint64_t bytes = host.size();
  ASSERT_EQ(launch(function("vmem_fill_bytes"), nullptr, host.data(), bytes, std::uint32_t{9}), kCuSuccess);
  ASSERT_EQ(cuda_.cuCtxSynchronize(), kCuSuccess);
  EXPECT_EQ(host, std::vector<std::uint8_t>(host.size(), 9));
  EXPECT_EQ(cuda_.cuMemHostUnregister(host.data() + 4096), kCuHostMemoryNotRegistered);
  EXPECT_EQ(cuda_.cuMemHostUnregister(host.data()), kCuSuccess);
  EXPECT_EQ(cuda_.cuMemHostUnregister(host.data()), kCuHostMemoryNotRegistered);
  EXPECT_EQ(cuda_.cuMemHostRegister_v2(reinterpret_cast<void*>(4096), 4096, 1), kCuInvalidValue);

  void* pinned = nullptr;
  ASSERT_EQ(cuda_.cuMemHostAlloc(&pinned, 10000, 0), kCuSuccess);
  EXPECT_EQ(cuda_.cuMemHostUnregister(pinned), kCuInvalidValue);
  EXPECT_EQ(cuda_.cuMemFreeHost(pinned), kCuSuccess);
  EXPECT_EQ(cuda_.count("registrations"), 0U);
}

TEST_F(CudaDoubleMemoryTest, TellsWhatAPointerIs) {
  const CuDevicePtr address = allocate(10000);
  CuPointerAttribute attributes[] = {kCuPointerContext,    kCuPointerMemoryType, kCuPointerDeviceOrdinal,
                                     kCuPointerRangeStart, kCuPointerRangeSize,  kCuPointerMapped};
  CuContext context = nullptr;
  unsigned type = 0, mapped = 7;
  int ordinal = -1;
  CuDevicePtr begin = 0;
  std::size_t bytes = 0;
  void* data[] = {&context, &type, &ordinal, &begin, &bytes, &mapped};
  ASSERT_EQ(cuda_.cuPointerGetAttributes(6, attributes, data, address + 100), kCuSuccess);
  EXPECT_EQ(context, contexts_[0]);
  EXPECT_EQ(type, static_cast<unsigned>(kCuMemoryDevice));
  EXPECT_EQ(ordinal, 0);
  EXPECT_EQ(begin, address);
  EXPECT_EQ(bytes, 10000U);
  EXPECT_EQ(mapped, 1U);
  int unknown = 0;
  ASSERT_EQ(cuda_.cuPointerGetAttributes(6, attributes, data, reinterpret_cast<CuDevicePtr>(&unknown)), kCuSuccess);
  EXPECT_EQ(ordinal, -2);
  EXPECT_EQ(type, 0U);
  EXPECT_EQ(cuda_.cuPointerGetAttribute(&type, kCuPointerMemoryType, reinterpret_cast<CuDevicePtr>(&unknown)),
            kCuInvalidValue);
  char handle[64];
  CuDevicePtr window = 0;
  ASSERT_EQ(cuda_.cuMemAddressReserve(&window, kChunk, 0, 0, 0), kCuSuccess);
  ASSERT_EQ(cuda_.cuMemMap(window, kChunk, 0, chunk(kChunk, kCuLocationDevice, 0), 0), kCuSuccess);
  EXPECT_EQ(cuda_.cuIpcGetMemHandle(handle, window), kCuInvalidValue) << "no legacy handles for virtual memory";
}

class CudaDoublePointersDifferTest : public CudaDoubleMemoryTest {
  void settings() override { ASSERT_EQ(cuda_.set("off", "pointers_differ"), 0); }
};

TEST_F(CudaDoublePointersDifferTest, RegisteredMemoryHasAnotherAddressOnTheDevice) {
  std::vector<std::uint8_t> host(10000, 3);
  ASSERT_EQ(cuda_.cuMemHostRegister_v2(host.data(), host.size(), 0), kCuSuccess);
  CuDevicePtr address = 0;
  ASSERT_EQ(cuda_.cuMemHostGetDevicePointer_v2(&address, host.data(), 0), kCuSuccess);
  EXPECT_NE(address, reinterpret_cast<CuDevicePtr>(host.data()));
  const std::uint64_t bytes = host.size() - 2;
  ASSERT_EQ(launch(function("vmem_fill_bytes"), nullptr, address + 1, bytes, std::uint32_t{9}), kCuSuccess);
  ASSERT_EQ(cuda_.cuCtxSynchronize(), kCuSuccess);
  EXPECT_EQ(host.front(), 3);
  EXPECT_EQ(host[1], 9);
  EXPECT_EQ(host[host.size() - 2], 9);
  EXPECT_EQ(host.back(), 3);
  EXPECT_EQ(cuda_.cuMemHostUnregister(host.data()), kCuSuccess);
}

}  // namespace
}  // namespace vmem
