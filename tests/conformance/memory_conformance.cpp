// Identity, allocations and copies: what every device can do.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "tests/conformance/conformance.hpp"
#include "tests/support/huge.hpp"

namespace vmem {
namespace {

TEST_P(DeviceConformance, SaysWhatItIs) {
  const DeviceInfo& info = device().info();
  EXPECT_NE(info.name.find(':'), std::string::npos) << info.name;
  EXPECT_FALSE(info.backend.empty());
  EXPECT_FALSE(info.uuid.empty());
  EXPECT_FALSE(info.vendor.empty());
  EXPECT_FALSE(info.address_space.empty());
  EXPECT_GE(info.granularity, kPageBytes);
  EXPECT_EQ(info.granularity & (info.granularity - 1), 0U);
  EXPECT_GT(info.total_bytes, 0U);
  if (has(DeviceCap::kKernels)) {
    EXPECT_TRUE(info.wave_width == 32 || info.wave_width == 64) << info.wave_width;
  } else {
    EXPECT_EQ(info.wave_width, 0U);
  }
}

TEST_P(DeviceConformance, IsHealthyAndHasNoMoreFreeThanTotal) {
  EXPECT_TRUE(succeeded(device().health()));
  const auto memory = device().memory_info();
  ASSERT_TRUE(succeeded(memory));
  EXPECT_LE(memory->free_bytes, memory->total_bytes);
  EXPECT_EQ(memory->total_bytes, device().info().total_bytes);
}

TEST_P(DeviceConformance, ChargesAnAllocationByTheGranularity) {
  const std::uint64_t before = free_bytes();
  void* const address = allocate(1);
  ASSERT_NE(address, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % granularity(), 0U);
  if (GetParam().exact_memory) {
    EXPECT_EQ(free_bytes(), before - granularity());
  }
  deallocate(address);
  if (GetParam().exact_memory) {
    EXPECT_EQ(free_bytes(), before);
  }
}

TEST_P(DeviceConformance, RefusesToAllocateNothing) {
  EXPECT_EQ(device().allocate(0).error().code(), StatusCode::kInvalidValue);
}

TEST_P(DeviceConformance, RefusesWhatCannotFit) {
  const StatusCode expected =
      device().info().tier == Tier::kHost ? StatusCode::kOutOfHostMemory : StatusCode::kOutOfDeviceMemory;
  const std::size_t highest = std::numeric_limits<std::size_t>::max();
  for (const std::size_t bytes : {highest, highest - granularity() + 1, highest / 2 + 1,
                                  static_cast<std::size_t>(device().info().total_bytes) + 1}) {
    const auto address = device().allocate(bytes);
    ASSERT_FALSE(address) << bytes;
    EXPECT_EQ(address.error().code(), expected) << address.error().to_string();
    EXPECT_EQ(address.error().device(), device().info().name);
  }
}

TEST_P(DeviceConformance, CanBeFilledToTheLastByteAndEmptied) {
  if (!GetParam().exact_memory) return;
  const std::uint64_t before = free_bytes();
  std::vector<void*> held;
  for (;;) {
    const auto address = device().allocate(granularity() * 4);
    if (!address) break;
    held.push_back(*address);
    ASSERT_LE(held.size(), before / granularity());
  }
  EXPECT_LT(free_bytes(), granularity() * 4);
  EXPECT_EQ(std::set<void*>(held.begin(), held.end()).size(), held.size());
  for (void* const address : held) deallocate(address);
  EXPECT_EQ(free_bytes(), before);
  deallocate(allocate(granularity() * 4));
}

TEST_P(DeviceConformance, RefusesForeignInteriorAndDoubleFrees) {
  void* const address = allocate(granularity() * 2);
  void* const neighbour = allocate(granularity());
  ASSERT_NE(address, nullptr);
  const auto bytes = pattern(granularity(), 7);
  upload(neighbour, bytes);
  int on_the_stack = 0;
  for (void* const wrong : {static_cast<void*>(nullptr), static_cast<void*>(&on_the_stack), offset(address, 1),
                            offset(address, kPageBytes), offset(address, granularity())}) {
    EXPECT_EQ(device().deallocate(wrong).code(), StatusCode::kInvalidValue) << wrong;
  }
  if (Device* const stranger = other()) {
    EXPECT_FALSE(stranger->deallocate(address));
  }
  deallocate(address);
  EXPECT_EQ(device().deallocate(address).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(download(neighbour, bytes.size()), bytes);
  deallocate(neighbour);
}

TEST_P(DeviceConformance, MovesBytesInAndOutAtOddPlacesAndSizes) {
  const std::size_t capacity = granularity() * 2;
  void* const address = allocate(capacity);
  ASSERT_NE(address, nullptr);
  std::vector<std::uint8_t> expected(capacity, 0x11);
  ASSERT_TRUE(finished(device().fill(address, 0x11, capacity, Stream())));
  std::uint64_t seed = 1;
  for (const std::size_t at : {std::size_t{0}, std::size_t{1}, kPageBytes - 1, granularity() - 3}) {
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{3}, std::size_t{511}, kPageBytes, kPageBytes + 1}) {
      const auto part = pattern(bytes, ++seed);
      upload(offset(address, at), part);
      std::copy(part.begin(), part.end(), expected.begin() + static_cast<std::ptrdiff_t>(at));
      EXPECT_EQ(download(offset(address, at), bytes), part) << at << " " << bytes;
    }
  }
  EXPECT_EQ(download(address, capacity), expected);
  deallocate(address);
}

TEST_P(DeviceConformance, CopiesAndFillsWithinItself) {
  void* const address = allocate(granularity() * 2);
  ASSERT_NE(address, nullptr);
  const auto bytes = pattern(granularity(), 3);
  upload(address, bytes);
  ASSERT_TRUE(finished(device().copy_within(offset(address, granularity()), address, bytes.size(), Stream())));
  EXPECT_EQ(download(offset(address, granularity()), bytes.size()), bytes);
  ASSERT_TRUE(finished(device().fill(offset(address, 5), 0xAB, 9, Stream())));
  auto expected = bytes;
  std::fill_n(expected.begin() + 5, 9, std::uint8_t{0xAB});
  EXPECT_EQ(download(address, bytes.size()), expected);
  deallocate(address);
}

TEST_P(DeviceConformance, DoesNothingForZeroBytes) {
  void* const address = allocate(granularity());
  std::uint8_t host = 0x5A;
  EXPECT_TRUE(finished(device().copy_from_host(address, &host, 0, Stream())));
  EXPECT_TRUE(finished(device().copy_to_host(&host, address, 0, Stream())));
  EXPECT_TRUE(finished(device().copy_within(address, address, 0, Stream())));
  EXPECT_TRUE(finished(device().fill(address, 1, 0, Stream())));
  EXPECT_EQ(host, 0x5A);
  deallocate(address);
}

TEST_P(DeviceConformance, RefusesRangesThatAreNotItsOwn) {
  void* const address = allocate(granularity());
  ASSERT_NE(address, nullptr);
  std::vector<std::uint8_t> host(granularity() * 2);
  const std::size_t bytes = granularity();
  const auto code = [](const Result<Event>& event) { return outcome(event).code(); };
  // Past the end, before the beginning, host memory, nothing at all.
  for (void* const wrong :
       {offset(address, 1), static_cast<void*>(static_cast<std::uint8_t*>(address) - 1), static_cast<void*>(nullptr)}) {
    EXPECT_EQ(code(device().copy_from_host(wrong, host.data(), bytes, Stream())), StatusCode::kInvalidValue);
    EXPECT_EQ(code(device().copy_to_host(host.data(), wrong, bytes, Stream())), StatusCode::kInvalidValue);
    EXPECT_EQ(code(device().fill(wrong, 0, bytes, Stream())), StatusCode::kInvalidValue);
    EXPECT_EQ(code(device().copy_within(wrong, address, bytes, Stream())), StatusCode::kInvalidValue);
  }
  EXPECT_EQ(code(device().fill(host.data(), 0, bytes, Stream())), StatusCode::kInvalidValue);
  EXPECT_EQ(code(device().fill(address, 0, std::numeric_limits<std::size_t>::max(), Stream())),
            StatusCode::kInvalidValue);
  EXPECT_EQ(code(device().copy_from_host(address, nullptr, 1, Stream())), StatusCode::kInvalidValue);
  deallocate(address);
  EXPECT_EQ(code(device().fill(address, 0, 1, Stream())), StatusCode::kInvalidValue);
}

TEST_P(DeviceConformance, KeepsNeighboursApart) {
  void* const first = allocate(granularity());
  void* const second = allocate(granularity());
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  ASSERT_TRUE(finished(device().fill(second, 0x22, granularity(), Stream())));
  ASSERT_TRUE(finished(device().fill(first, 0x11, granularity(), Stream())));
  EXPECT_EQ(download(second, granularity()), std::vector<std::uint8_t>(granularity(), 0x22));
  deallocate(first);
  deallocate(second);
}

TEST_P(DeviceConformance, MakesWindowsWhereChunksAppearContiguous) {
  if (!has(DeviceCap::kVirtualMemory)) return;
  const std::size_t bytes = granularity();
  auto window = device().reserve_window(bytes * 4);
  ASSERT_TRUE(succeeded(window));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(*window) % granularity(), 0U);
  std::vector<Chunk> chunks;
  for (std::size_t i = 0; i < 3; ++i) {
    auto chunk = device().create_chunk(bytes);
    ASSERT_TRUE(succeeded(chunk));
    chunks.push_back(*chunk);
    EXPECT_TRUE(succeeded(device().map(offset(*window, i * bytes), *chunk)));
  }
  const auto content = pattern(bytes * 3, 5);
  upload(*window, content);  // one copy across the seams
  EXPECT_EQ(download(*window, content.size()), content);
  // The middle one moves to the end, with its bytes.
  ASSERT_TRUE(succeeded(device().unmap(offset(*window, bytes), bytes)));
  ASSERT_TRUE(succeeded(device().map(offset(*window, bytes * 3), chunks[1])));
  EXPECT_EQ(download(offset(*window, bytes * 3), bytes),
            std::vector<std::uint8_t>(content.begin() + static_cast<std::ptrdiff_t>(bytes),
                                      content.begin() + static_cast<std::ptrdiff_t>(bytes * 2)));
  EXPECT_EQ(outcome(device().fill(offset(*window, bytes - 1), 0, 2, Stream())).code(), StatusCode::kInvalidValue);
  for (const std::size_t i : {0U, 2U, 3U}) EXPECT_TRUE(succeeded(device().unmap(offset(*window, i * bytes), bytes)));
  for (const Chunk& chunk : chunks) EXPECT_TRUE(succeeded(device().destroy_chunk(chunk)));
  EXPECT_TRUE(succeeded(device().release_window(*window, bytes * 4)));
}

TEST_P(DeviceConformance, ChargesAChunkFromCreationToDestruction) {
  if (!has(DeviceCap::kVirtualMemory)) return;
  const std::uint64_t before = free_bytes();
  auto window = device().reserve_window(granularity() * 2);
  ASSERT_TRUE(succeeded(window));
  if (GetParam().exact_memory) {
    EXPECT_EQ(free_bytes(), before);
  }
  auto chunk = device().create_chunk(granularity() * 2);
  ASSERT_TRUE(succeeded(chunk));
  EXPECT_EQ(chunk->bytes, granularity() * 2);
  if (GetParam().exact_memory) {
    EXPECT_EQ(free_bytes(), before - granularity() * 2);
  }
  ASSERT_TRUE(succeeded(device().map(*window, *chunk)));
  if (GetParam().exact_memory) {
    EXPECT_EQ(free_bytes(), before - granularity() * 2);
  }
  ASSERT_TRUE(succeeded(device().unmap(*window, granularity() * 2)));
  ASSERT_TRUE(succeeded(device().destroy_chunk(*chunk)));
  EXPECT_TRUE(succeeded(device().release_window(*window, granularity() * 2)));
}

TEST_P(DeviceConformance, RefusesWrongChunksAndWindows) {
  if (!has(DeviceCap::kVirtualMemory)) return;
  const std::size_t bytes = granularity();
  EXPECT_EQ(device().create_chunk(0).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(device().create_chunk(bytes + 1).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(device().reserve_window(0).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(device().reserve_window(std::numeric_limits<std::size_t>::max()).error().code(),
            StatusCode::kOutOfAddresses);
  EXPECT_EQ(device().destroy_chunk(Chunk{0xDEAD, bytes}).code(), StatusCode::kInvalidValue);

  auto window = device().reserve_window(bytes * 2);
  auto chunk = device().create_chunk(bytes);
  auto second = device().create_chunk(bytes);
  ASSERT_TRUE(succeeded(window) && succeeded(chunk) && succeeded(second));
  EXPECT_EQ(device().map(offset(*window, 1), *chunk).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(device().map(offset(*window, bytes * 2), *chunk).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(device().map(*window, Chunk{0xDEAD, bytes}).code(), StatusCode::kInvalidValue);
  ASSERT_TRUE(succeeded(device().map(*window, *chunk)));
  EXPECT_EQ(device().map(*window, *second).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(device().destroy_chunk(*chunk).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(device().release_window(*window, bytes * 2).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(device().unmap(*window, bytes / 2).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(device().unmap(*window, bytes * 2).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(device().unmap(offset(*window, bytes), bytes).code(), StatusCode::kInvalidValue);

  ASSERT_TRUE(succeeded(device().unmap(*window, bytes)));
  EXPECT_EQ(device().unmap(*window, bytes).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(device().release_window(offset(*window, bytes), bytes).code(), StatusCode::kInvalidValue);
  EXPECT_TRUE(succeeded(device().release_window(*window, bytes * 2)));
  EXPECT_EQ(device().release_window(*window, bytes * 2).code(), StatusCode::kInvalidValue);
  EXPECT_TRUE(succeeded(device().destroy_chunk(*chunk)));
  EXPECT_TRUE(succeeded(device().destroy_chunk(*second)));
  EXPECT_EQ(device().destroy_chunk(*chunk).code(), StatusCode::kInvalidValue);
}

TEST_P(DeviceConformance, DoesNotConfuseSlabsWithMappings) {
  if (!has(DeviceCap::kVirtualMemory)) return;
  void* const slab = allocate(granularity());
  EXPECT_EQ(device().unmap(slab, granularity()).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(device().release_window(slab, granularity()).code(), StatusCode::kInvalidValue);
  auto window = device().reserve_window(granularity());
  ASSERT_TRUE(succeeded(window));
  EXPECT_EQ(device().deallocate(*window).code(), StatusCode::kInvalidValue);
  EXPECT_TRUE(succeeded(device().release_window(*window, granularity())));
  deallocate(slab);
}

TEST_P(DeviceConformance, ReservesFarMoreAddressesThanItHasMemory) {
  if (!has(DeviceCap::kVirtualMemory)) return;
  const std::size_t bytes = kHugeBytes;
  auto window = device().reserve_window(bytes);
  ASSERT_TRUE(succeeded(window));
  auto chunk = device().create_chunk(granularity());
  ASSERT_TRUE(succeeded(chunk));
  void* const last = offset(*window, bytes - granularity());
  ASSERT_TRUE(succeeded(device().map(last, *chunk)));
  const auto content = pattern(granularity(), 9);
  upload(last, content);
  EXPECT_EQ(download(last, content.size()), content);
  EXPECT_TRUE(succeeded(device().unmap(last, granularity())));
  EXPECT_TRUE(succeeded(device().destroy_chunk(*chunk)));
  EXPECT_TRUE(succeeded(device().release_window(*window, bytes)));
}

TEST_P(DeviceConformance, ComesBackToItsBaselineAfterManyCycles) {
  if (!has(DeviceCap::kVirtualMemory)) return;
  auto window = device().reserve_window(granularity() * 2);
  ASSERT_TRUE(succeeded(window));
  const std::uint64_t before = free_bytes();
  for (int i = 0; i < 200; ++i) {
    auto chunk = device().create_chunk(granularity());
    ASSERT_TRUE(succeeded(chunk)) << i;
    void* const at = offset(*window, (i % 2 == 0) ? 0 : granularity());
    ASSERT_TRUE(succeeded(device().map(at, *chunk)));
    ASSERT_TRUE(finished(device().fill(at, static_cast<std::uint8_t>(i), 64, Stream())));
    ASSERT_TRUE(succeeded(device().unmap(at, granularity())));
    ASSERT_TRUE(succeeded(device().destroy_chunk(*chunk)));
  }
  if (GetParam().exact_memory) {
    EXPECT_EQ(free_bytes(), before);
  }
  EXPECT_TRUE(succeeded(device().release_window(*window, granularity() * 2)));
}

TEST_P(DeviceConformance, CopiesStraightToAPeer) {
  Device* const neighbour = peer();
  if (neighbour == nullptr) return;
  const auto bytes = pattern(granularity(), 21);
  void* const here = allocate(bytes.size());
  auto there = neighbour->allocate(bytes.size());
  ASSERT_TRUE(succeeded(there));
  upload(here, bytes);
  ASSERT_TRUE(finished(device().copy_to_peer(*neighbour, *there, here, bytes.size(), Stream())));
  EXPECT_EQ(download_from(*neighbour, *there, bytes.size()), bytes);
  EXPECT_EQ(outcome(device().copy_to_peer(*neighbour, here, here, 1, Stream())).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(outcome(device().copy_to_peer(*neighbour, *there, *there, 1, Stream())).code(), StatusCode::kInvalidValue);
  EXPECT_TRUE(succeeded(neighbour->deallocate(*there)));
  deallocate(here);
}

TEST_P(DeviceConformance, IsNoPeerOfItself) {
  EXPECT_FALSE(device().can_access_peer(device()));
  void* const address = allocate(granularity());
  EXPECT_EQ(outcome(device().copy_to_peer(device(), address, address, 1, Stream())).code(), StatusCode::kUnsupported);
  deallocate(address);
}

TEST_P(DeviceConformance, AnswersUnsupportedForEveryGroupThatItLacks) {
  const auto expect = [&](const Status& status) {
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << status.to_string();
    EXPECT_EQ(status.device(), device().info().name);
  };
  if (!has(DeviceCap::kVirtualMemory)) {
    expect(device().create_chunk(granularity()).error());
    expect(device().destroy_chunk(Chunk{1, granularity()}));
    expect(device().reserve_window(granularity()).error());
    expect(device().release_window(nullptr, granularity()));
    expect(device().map(nullptr, Chunk{1, granularity()}));
    expect(device().unmap(nullptr, granularity()));
  }
  if (!has(DeviceCap::kPeerCopy)) {
    if (Device* const stranger = other()) {
      EXPECT_FALSE(device().can_access_peer(*stranger));
      expect(device().copy_to_peer(*stranger, nullptr, nullptr, 1, Stream()).error());
    }
  }
  if (!has(DeviceCap::kHostRegistration)) {
    std::vector<std::uint8_t> host(kPageBytes);
    expect(device().register_host(host.data(), host.size()).error());
    expect(device().unregister_host(host.data()));
  }
  if (!has(DeviceCap::kKernels)) {
    expect(device().add_kernel(KernelImage{"any", nullptr, nullptr}));
    expect(device().launch(KernelLaunch{"any", {}, {}, 0, {}}, Stream()).error());
  }
  if (!has(DeviceCap::kStreamSignals)) {
    const Stream stream = create_stream();
    std::uint32_t word = 0;
    expect(device().write_signal(stream, &word, 1));
    expect(device().wait_signal(stream, &word, 1));
    EXPECT_TRUE(succeeded(device().destroy_stream(stream)));
  }
  if (!has(DeviceCap::kFaultInjection)) {
    expect(device().inject(Fault()));
    expect(device().clear_faults());
  }
}

TEST_P(DeviceConformance, GivesRegisteredHostMemoryAnAddressOnTheDevice) {
  if (!has(DeviceCap::kHostRegistration)) return;
  // The pool's staging lies in a host device's memory.
  Device* host_device = device().info().tier == Tier::kHost ? &device() : other();
  if (host_device == nullptr || host_device->info().tier != Tier::kHost) return;
  const std::size_t bytes = 256_KiB;
  auto host = host_device->allocate(bytes);
  ASSERT_TRUE(succeeded(host));
  auto registered = device().register_host(*host, bytes);
  ASSERT_TRUE(succeeded(registered));
  EXPECT_EQ(device().register_host(*host, bytes).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(device().unregister_host(offset(*host, 1)).code(), StatusCode::kInvalidValue);

  // Both addresses work as the host's side of a copy; the device's also in copies within it.
  void* const address = allocate(bytes);
  const auto content = pattern(bytes, 31);
  upload(address, content);
  ASSERT_TRUE(finished(device().copy_to_host(*host, address, bytes, Stream())));
  EXPECT_EQ(download_from(*host_device, *host, bytes), content);
  ASSERT_TRUE(finished(device().fill(*registered, 0x77, bytes / 2, Stream())));
  EXPECT_EQ(download_from(*host_device, *host, bytes / 2), std::vector<std::uint8_t>(bytes / 2, 0x77));
  ASSERT_TRUE(finished(device().copy_within(address, *registered, bytes, Stream())));
  auto expected = content;
  std::fill_n(expected.begin(), bytes / 2, std::uint8_t{0x77});
  EXPECT_EQ(download(address, bytes), expected);

  EXPECT_TRUE(succeeded(device().unregister_host(*host)));
  EXPECT_EQ(device().unregister_host(*host).code(), StatusCode::kInvalidValue);
  EXPECT_TRUE(succeeded(device().register_host(*host, bytes)));
  EXPECT_TRUE(succeeded(device().unregister_host(*host)));
  deallocate(address);
  EXPECT_TRUE(succeeded(host_device->deallocate(*host)));
}

}  // namespace
}  // namespace vmem
