// Many threads on one pool that is too small for what they use: every byte stays right, nothing deadlocks, nothing
// leaks.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "tests/support/pool_machine.hpp"

namespace vmem {
namespace {

constexpr std::size_t kBufferBytes = 4 * 64_KiB;

// Adds one to every byte of a range through an acquire.
Status increment(PoolMachine& machine, const AcquireRange& range, DeviceIndex device, Stream stream) {
  AcquireOptions options;
  options.device = device;
  options.stream = stream;
  VMEM_ASSIGN_OR_RETURN(Acquired acquired, machine.pool().acquire(range, options));
  Device& inner = machine.device(device).inner();
  std::vector<std::uint8_t> bytes(range.bytes);
  VMEM_ASSIGN_OR_RETURN(const Event read, inner.copy_to_host(bytes.data(), acquired.data(), bytes.size(), stream));
  VMEM_RETURN_IF_ERROR(read.wait());
  for (auto& byte : bytes) ++byte;
  VMEM_ASSIGN_OR_RETURN(const Event written, inner.copy_from_host(acquired.data(), bytes.data(), bytes.size(), stream));
  VMEM_RETURN_IF_ERROR(written.wait());
  return acquired.release();
}

TEST(PoolThreadsTest, IncrementsFromManyThreadsAndDevicesAllCount) {
  PoolMachine machine;
  BufferOptions zeroed;
  zeroed.zeroed = true;
  auto buffer = machine.pool().allocate(kBufferBytes, zeroed);
  ASSERT_TRUE(buffer.has_value());
  constexpr int kThreads = 4;
  constexpr int kRounds = 24;
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        const auto device = static_cast<DeviceIndex>((t + i) % 3);
        if (!increment(machine, buffer->all(Access::kWrite), device, Stream())) ++failures;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  std::vector<std::uint8_t> found(kBufferBytes);
  ASSERT_TRUE(machine.pool().copy_out(found.data(), buffer->address(), found.size()).is_ok());
  for (const auto byte : found) ASSERT_EQ(byte, kThreads * kRounds);
}

TEST(PoolThreadsTest, ThreadsThatOvercommitTwoDevicesKeepTheirBytes) {
  PoolMachine machine;
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      auto buffer = machine.pool().allocate(6 * 64_KiB);
      if (!buffer) return void(++failures);
      std::vector<std::uint8_t> model = test_pattern(buffer->bytes(), t);
      if (!machine.pool().copy_in(buffer->address(), model.data(), model.size())) ++failures;
      auto stream = machine.device(t % 2).create_stream();
      for (int i = 0; i < 60; ++i) {
        const std::size_t offset = random() % model.size();
        const std::size_t bytes = 1 + random() % std::min<std::size_t>(model.size() - offset, 2 * 64_KiB);
        const Stream used = random() % 2 == 0 ? *stream : Stream();
        const Status status = increment(machine, buffer->range(offset, bytes, Access::kWrite), t % 2, used);
        EXPECT_TRUE(status.is_ok()) << status.to_string();
        for (std::size_t k = 0; k < bytes; ++k) ++model[offset + k];
      }
      std::vector<std::uint8_t> found(model.size());
      if (!machine.pool().copy_out(found.data(), buffer->address(), found.size())) ++failures;
      if (found != model) ++failures;
      if (!buffer->free()) ++failures;
      if (!machine.device(t % 2).destroy_stream(*stream)) ++failures;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
}

// Case C6: sixteen threads allocate, use and free at the edge of what there is.
TEST(PoolThreadsTest, SixteenThreadsAtTheEdgeLeaveNothingBehind) {
  PoolMachine machine;
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (int i = 0; i < 12; ++i) {
        auto buffer = machine.pool().allocate(1 + random() % (2 * 64_KiB));
        if (!buffer || !machine.pool().fill(buffer->address(), static_cast<std::uint8_t>(t), buffer->bytes())) {
          ++failures;
          continue;
        }
        const Status status = increment(machine, buffer->all(Access::kWrite), random() % 3, Stream());
        EXPECT_TRUE(status.is_ok()) << status.to_string();
        std::vector<std::uint8_t> found(buffer->bytes());
        if (!machine.pool().copy_out(found.data(), buffer->address(), found.size())) ++failures;
        for (const auto byte : found) failures += byte != t + 1 ? 1 : 0;
        if (!buffer->free()) ++failures;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(machine.pool().stats().buffers, 0U);
  EXPECT_EQ(machine.pool().stats().allocated_bytes, 0U);
  for (const DeviceStats& device : machine.pool().stats().devices) {
    EXPECT_LE(device.used_bytes, 64_KiB) << device.name << ": at most an empty shared block";
    EXPECT_EQ(device.pinned_bytes, 0U) << device.name;
  }
}

TEST(PoolThreadsTest, OppositeOrdersOfTwoBuffersDoNotDeadlock) {
  PoolMachine machine;
  auto a = machine.pool().allocate(64_KiB);
  auto b = machine.pool().allocate(64_KiB);
  std::atomic<int> failures{0};
  const auto work = [&](const Buffer& first, const Buffer& second, DeviceIndex device) {
    for (int i = 0; i < 100; ++i) {
      AcquireOptions options;
      options.device = device;
      auto both = machine.pool().acquire({first.all(Access::kWrite), second.all(Access::kWrite)}, options);
      if (!both || !both->release()) ++failures;
    }
  };
  std::thread one([&] { work(*a, *b, 0); });
  std::thread two([&] { work(*b, *a, 1); });
  one.join();
  two.join();
  EXPECT_EQ(failures, 0);
}

}  // namespace
}  // namespace vmem
