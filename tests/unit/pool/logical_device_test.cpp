#include "runtime/pool/logical_device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/pool/host_backend.hpp"

namespace vmem {
namespace {

using ::testing::HasSubstr;

class LogicalDeviceTest : public ::testing::Test {
 protected:
  LogicalDeviceTest() {
    BackendConfig config;
    SimulatedDevice& card = config.simulated.emplace_back();
    card.name = "card:0";
    card.total_bytes = 64_MiB;
    backend_ = load_host_backend(config);
    devices_ = backend_->discover().value();
    for (const auto& device : devices_) {
      if (device->info().name == "card:0") card_ = device.get();
    }
    a_ = make_part("a", 24_MiB);
    b_ = make_part("b", 40_MiB);
  }

  std::unique_ptr<LogicalDevice> make_part(const char* name, std::size_t bytes) {
    DeviceInfo info = card_->info();
    info.partition = name;
    info.name += std::string("/") + name;
    info.total_bytes = bytes;
    return std::make_unique<LogicalDevice>(*card_, info);
  }

  std::unique_ptr<Backend> backend_;
  std::vector<std::unique_ptr<Device>> devices_;
  Device* card_ = nullptr;
  std::unique_ptr<LogicalDevice> a_, b_;
};

TEST_F(LogicalDeviceTest, HasItsOwnIdentityAndNoPeers) {
  EXPECT_EQ(a_->info().name, "card:0/a");
  EXPECT_EQ(a_->info().partition, "a");
  EXPECT_EQ(a_->info().total_bytes, 24_MiB);
  EXPECT_TRUE(card_->info().caps.has(DeviceCap::kPeerCopy));
  EXPECT_FALSE(a_->info().caps.has(DeviceCap::kPeerCopy));
  EXPECT_FALSE(a_->can_access_peer(*b_));
}

TEST_F(LogicalDeviceTest, ItsCapacityIsItsOwn) {
  auto all = a_->allocate(24_MiB);
  ASSERT_TRUE(all) << all.error().to_string();
  const auto more = a_->allocate(1);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code(), StatusCode::kOutOfDeviceMemory);
  EXPECT_EQ(more.error().device(), "card:0/a");
  EXPECT_THAT(std::string(more.error().message()), HasSubstr("capacity of this part 24.0 MiB"));
  EXPECT_EQ(a_->memory_info()->free_bytes, 0U);
  // The other part still has all of its own.
  EXPECT_EQ(b_->memory_info()->free_bytes, 40_MiB);
  auto other = b_->allocate(40_MiB);
  ASSERT_TRUE(other) << other.error().to_string();
  EXPECT_TRUE(b_->deallocate(*other));
  EXPECT_TRUE(a_->deallocate(*all));
  EXPECT_EQ(a_->memory_info()->free_bytes, 24_MiB);
}

TEST_F(LogicalDeviceTest, ChunksCountToo) {
  auto chunk = a_->create_chunk(16_MiB);
  ASSERT_TRUE(chunk);
  EXPECT_FALSE(a_->create_chunk(16_MiB));
  EXPECT_FALSE(a_->allocate(16_MiB));
  EXPECT_TRUE(a_->destroy_chunk(*chunk));
  EXPECT_EQ(a_->memory_info()->free_bytes, 24_MiB);
}

TEST_F(LogicalDeviceTest, WhatTheCardRefusesIsNotCounted) {
  Fault fault;
  fault.call = "allocate";
  fault.code = StatusCode::kOutOfDeviceMemory;
  ASSERT_TRUE(a_->inject(fault));
  EXPECT_FALSE(a_->allocate(2_MiB));
  fault.call = "create_chunk";
  ASSERT_TRUE(a_->inject(fault));
  EXPECT_FALSE(a_->create_chunk(2_MiB));
  EXPECT_EQ(a_->memory_info()->free_bytes, 24_MiB);
}

TEST_F(LogicalDeviceTest, AFailedFreeStaysCounted) {
  auto address = a_->allocate(2_MiB);
  ASSERT_TRUE(address);
  Fault fault;
  fault.call = "deallocate";
  ASSERT_TRUE(a_->inject(fault));
  EXPECT_FALSE(a_->deallocate(*address));
  EXPECT_EQ(a_->memory_info()->free_bytes, 22_MiB);
  EXPECT_TRUE(a_->deallocate(*address));
  EXPECT_EQ(a_->memory_info()->free_bytes, 24_MiB);
}

TEST_F(LogicalDeviceTest, TheOtherPartsMemoryIsForeign) {
  auto address = b_->allocate(2_MiB);
  auto chunk = b_->create_chunk(2_MiB);
  ASSERT_TRUE(address);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(a_->deallocate(*address).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(a_->destroy_chunk(*chunk).code(), StatusCode::kInvalidValue);
  EXPECT_TRUE(b_->deallocate(*address));
  EXPECT_TRUE(b_->destroy_chunk(*chunk));
}

TEST_F(LogicalDeviceTest, BytesMoveThroughItOnItsStreams) {
  auto address = a_->allocate(2_MiB);
  auto stream = a_->create_stream();
  ASSERT_TRUE(address);
  ASSERT_TRUE(stream);
  EXPECT_TRUE(a_->check_stream(*stream));
  std::vector<unsigned char> out(4096, 0x3C);
  std::vector<unsigned char> back(4096, 0);
  ASSERT_TRUE(a_->copy_from_host(*address, out.data(), out.size(), *stream));
  auto event = a_->copy_to_host(back.data(), *address, back.size(), *stream);
  ASSERT_TRUE(event);
  EXPECT_TRUE(event->wait());
  EXPECT_EQ(out, back);
  EXPECT_TRUE(a_->destroy_stream(*stream));
  EXPECT_TRUE(a_->deallocate(*address));
}

TEST_F(LogicalDeviceTest, WindowsAndKernelsAreTheCards) {
  auto window = a_->reserve_window(4_MiB);
  auto chunk = a_->create_chunk(2_MiB);
  ASSERT_TRUE(window);
  ASSERT_TRUE(chunk);
  ASSERT_TRUE(a_->map(*window, *chunk));
  auto filled = a_->fill(*window, 7, 2_MiB, Stream());
  ASSERT_TRUE(filled);
  EXPECT_TRUE(filled->wait());
  EXPECT_TRUE(a_->unmap(*window, 2_MiB));
  EXPECT_TRUE(a_->destroy_chunk(*chunk));
  EXPECT_TRUE(a_->release_window(*window, 4_MiB));
  KernelLaunch launch;
  launch.name = "no such kernel";
  EXPECT_EQ(a_->launch(launch, Stream()).error().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace vmem
