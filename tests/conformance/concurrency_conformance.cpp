// Every call from any thread at any time.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/conformance/conformance.hpp"

namespace vmem {
namespace {

constexpr int kThreads = 6;

// The same work in several threads at once; each must see nothing but its own bytes.
template <typename Body>
void in_threads(Body body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([=] { body(i); });
  for (auto& thread : threads) thread.join();
}

TEST_P(DeviceConformance, AllocatesAndCopiesInManyThreads) {
  in_threads([this](int thread) {
    const auto seed = static_cast<std::uint64_t>(thread);
    auto stream = device().create_stream();
    ASSERT_TRUE(succeeded(stream));
    for (std::uint64_t round = 0; round < 10; ++round) {
      const std::size_t bytes = granularity();
      auto address = device().allocate(bytes * 2);
      ASSERT_TRUE(succeeded(address));
      const auto content = pattern(bytes, seed * 100 + round);
      std::vector<std::uint8_t> result(bytes);
      ASSERT_TRUE(succeeded(device().copy_from_host(*address, content.data(), bytes, *stream)));
      ASSERT_TRUE(succeeded(device().copy_within(offset(*address, bytes), *address, bytes, *stream)));
      ASSERT_TRUE(finished(device().copy_to_host(result.data(), offset(*address, bytes), bytes, *stream)));
      ASSERT_EQ(result, content);
      ASSERT_TRUE(succeeded(device().deallocate(*address)));
    }
    EXPECT_TRUE(succeeded(device().destroy_stream(*stream)));
  });
}

TEST_P(DeviceConformance, SharesAStreamAmongManyThreads) {
  const Stream stream = create_stream();
  void* const address = allocate(granularity() * kThreads);
  in_threads([&](int thread) {
    void* const own = offset(address, granularity() * static_cast<std::size_t>(thread));
    for (std::uint64_t round = 0; round < 20; ++round) {
      const auto content = pattern(512, static_cast<std::uint64_t>(thread) * 1000 + round);
      std::vector<std::uint8_t> result(content.size());
      ASSERT_TRUE(succeeded(device().copy_from_host(own, content.data(), content.size(), stream)));
      ASSERT_TRUE(finished(device().copy_to_host(result.data(), own, result.size(), stream)));
      ASSERT_EQ(result, content);
    }
  });
  EXPECT_TRUE(succeeded(device().destroy_stream(stream)));
  deallocate(address);
}

TEST_P(DeviceConformance, MapsAndUnmapsOneWindowInManyThreads) {
  if (!has(DeviceCap::kVirtualMemory)) return;
  const std::size_t bytes = granularity();
  const std::size_t written = std::min<std::size_t>(bytes, 64_KiB);
  auto window = device().reserve_window(bytes * kThreads);
  ASSERT_TRUE(succeeded(window));
  in_threads([&](int thread) {
    void* const own = offset(*window, bytes * static_cast<std::size_t>(thread));
    for (std::uint64_t round = 0; round < 20; ++round) {
      auto chunk = device().create_chunk(bytes);
      ASSERT_TRUE(succeeded(chunk));
      ASSERT_TRUE(succeeded(device().map(own, *chunk)));
      const auto content = pattern(written, static_cast<std::uint64_t>(thread) * 1000 + round);
      std::vector<std::uint8_t> result(written);
      ASSERT_TRUE(finished(device().copy_from_host(own, content.data(), written, Stream())));
      ASSERT_TRUE(finished(device().copy_to_host(result.data(), own, written, Stream())));
      ASSERT_EQ(result, content);
      ASSERT_TRUE(succeeded(device().unmap(own, bytes)));
      ASSERT_TRUE(succeeded(device().destroy_chunk(*chunk)));
    }
  });
  EXPECT_TRUE(succeeded(device().release_window(*window, bytes * kThreads)));
}

TEST_P(DeviceConformance, LetsOneOfManyFreesOfAnAddressWin) {
  for (int round = 0; round < 20; ++round) {
    void* const address = allocate(granularity());
    std::atomic<int> num_freed{0};
    in_threads([&](int) {
      const Status status = device().deallocate(address);
      if (status) {
        ++num_freed;
      } else {
        EXPECT_EQ(status.code(), StatusCode::kInvalidValue);
      }
    });
    EXPECT_EQ(num_freed.load(), 1);
  }
}

TEST_P(DeviceConformance, ReturnsToItsBaselineWhenManyThreadsFillIt) {
  if (!GetParam().exact_memory) return;
  const std::uint64_t before = free_bytes();
  in_threads([this](int) {
    for (int round = 0; round < 5; ++round) {
      std::vector<void*> held;
      for (;;) {
        auto address = device().allocate(granularity());
        if (!address) {
          EXPECT_EQ(address.error().code(), StatusCode::kOutOfDeviceMemory);
          break;
        }
        held.push_back(*address);
      }
      for (void* const address : held) ASSERT_TRUE(succeeded(device().deallocate(address)));
    }
  });
  EXPECT_EQ(free_bytes(), before);
}

TEST_P(DeviceConformance, LosesNoEventWhenItVanishesUnderManyThreads) {
  if (!has(DeviceCap::kFaultInjection)) return;
  expect_no_accounting();
  void* const address = allocate(granularity() * kThreads);
  Fault fault;
  fault.kind = Fault::Kind::kVanish;
  fault.call = "fill";
  fault.after = 100;
  ASSERT_TRUE(succeeded(device().inject(fault)));
  std::vector<Stream> streams;
  for (int i = 0; i < kThreads; ++i) streams.push_back(create_stream());
  std::atomic<int> num_failed{0};
  in_threads([&](int thread) {
    void* const own = offset(address, granularity() * static_cast<std::size_t>(thread));
    const Stream stream = streams[static_cast<std::size_t>(thread)];
    for (int i = 0; i < 100; ++i) {
      const Status status = outcome(device().fill(own, 1, 4096, stream));
      if (status) continue;
      EXPECT_EQ(status.code(), StatusCode::kDeviceFailed) << status.to_string();
      ++num_failed;
    }
  });
  EXPECT_GT(num_failed.load(), 0);
  EXPECT_EQ(device().health().code(), StatusCode::kDeviceFailed);
}

}  // namespace
}  // namespace vmem
