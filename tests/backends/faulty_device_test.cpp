// What the test wrapper adds to the faults that the conformance suite tests: counts, hooks, failures at the call, loss
// by hand, and a control that outlives its device.
#include "tests/support/faulty_device.hpp"

#include <gtest/gtest.h>

#include "backends/host/host_backend.hpp"

namespace vmem {
namespace {

class FaultyDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    BackendConfig config;
    config.simulated.resize(2);
    for (auto& gpu : config.simulated) gpu.total_bytes = 16_MiB;
    auto backend = create_host_backend(config);
    ASSERT_TRUE(backend);
    auto devices = (*backend)->discover();
    ASSERT_TRUE(devices);
    const std::size_t size = devices->size();
    device_ = make_faulty(std::move((*devices)[size - 2]), control_);
    peer_ = make_faulty(std::move((*devices)[size - 1]));
  }

  const std::shared_ptr<FaultControl> control_ = std::make_shared<FaultControl>();
  std::unique_ptr<FaultyDevice> device_;
  std::unique_ptr<FaultyDevice> peer_;
};

TEST_F(FaultyDeviceTest, CountsCallsByName) {
  auto address = device_->allocate(100);
  ASSERT_TRUE(address);
  ASSERT_TRUE(device_->fill(*address, 1, 10, Stream()));
  ASSERT_TRUE(device_->fill(*address, 1, 10, Stream()));
  EXPECT_EQ(control_->num_calls("fill"), 2U);
  EXPECT_EQ(control_->num_calls("allocate"), 1U);
  EXPECT_EQ(control_->num_calls("deallocate"), 0U);
  EXPECT_EQ(control_->num_calls(), 3U);
  EXPECT_EQ(device_->info().name, "sim:0");
  EXPECT_EQ(control_->num_calls(), 3U);
  control_->reset_counts();
  EXPECT_EQ(control_->num_calls(), 0U);
}

TEST_F(FaultyDeviceTest, FailsAnyCallByItsNumber) {
  control_->fail_call(2, StatusCode::kBusy);
  EXPECT_TRUE(device_->health());
  EXPECT_TRUE(device_->memory_info());
  EXPECT_EQ(device_->allocate(1).error().code(), StatusCode::kBusy);
  EXPECT_EQ(control_->num_faults(), 1U);
  EXPECT_TRUE(device_->health());
}

TEST_F(FaultyDeviceTest, FailsWorkAtItsCompletionOrAtTheCall) {
  auto address = device_->allocate(4096);
  auto stream = device_->create_stream();
  ASSERT_TRUE(address && stream);
  control_->fail_call(0);
  auto event = device_->fill(*address, 1, 4096, *stream);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->wait().code(), StatusCode::kInternal);
  EXPECT_TRUE(device_->wait_event(*stream, *event)) << "the stream goes on";
  EXPECT_TRUE(device_->record(*stream)->wait());
  control_->set_fail_at(FaultControl::FailAt::kCall);
  control_->fail_call(0);
  EXPECT_EQ(device_->fill(*address, 1, 4096, *stream).error().code(), StatusCode::kInternal);
  EXPECT_TRUE(device_->destroy_stream(*stream));
}

TEST_F(FaultyDeviceTest, CallsTheHookBeforeEachCall) {
  std::string seen;
  control_->set_hook([&](std::string_view call) {
    seen += std::string(call) + " ";
    if (call == "allocate") control_->fail_call(0);
  });
  EXPECT_TRUE(device_->health());
  EXPECT_FALSE(device_->allocate(1));
  EXPECT_EQ(seen, "health allocate ");
}

TEST_F(FaultyDeviceTest, IsAPeerOfWrappedDevices) {
  EXPECT_TRUE(device_->can_access_peer(*peer_));
  EXPECT_TRUE(device_->can_access_peer(peer_->inner()));
  auto here = device_->allocate(100);
  auto there = peer_->allocate(100);
  ASSERT_TRUE(here && there);
  EXPECT_TRUE(device_->copy_to_peer(*peer_, *there, *here, 100, Stream()));
  peer_->control()->vanish();
  EXPECT_EQ(device_->copy_to_peer(*peer_, *there, *here, 100, Stream()).error().code(), StatusCode::kDeviceFailed);
  EXPECT_TRUE(device_->health());
}

TEST_F(FaultyDeviceTest, IsLostByHandAndOutlivedByItsControl) {
  auto address = device_->allocate(4096);
  auto stream = device_->create_stream();
  ASSERT_TRUE(address && stream);
  Fault fault;
  fault.kind = Fault::Kind::kHang;
  control_->inject(fault);
  auto event = device_->fill(*address, 1, 4096, *stream);
  ASSERT_TRUE(event);
  EXPECT_EQ(control_->num_hanging(), 1U);
  control_->vanish();
  EXPECT_EQ(event->wait().code(), StatusCode::kDeviceFailed);
  EXPECT_EQ(device_->health().code(), StatusCode::kDeviceFailed);
  EXPECT_EQ(control_->num_hanging(), 0U);
  device_.reset();
  EXPECT_TRUE(control_->lost());
  EXPECT_EQ(control_->num_calls("fill"), 1U);
}

TEST_F(FaultyDeviceTest, LetsAStreamOfAnotherDeviceHangWithItsWork) {
  auto address = device_->allocate(4096);
  auto mine = device_->create_stream();
  auto theirs = peer_->create_stream();
  ASSERT_TRUE(address && mine && theirs);
  Fault fault;
  fault.kind = Fault::Kind::kHang;
  control_->inject(fault);
  auto event = device_->fill(*address, 1, 4096, *mine);
  ASSERT_TRUE(event);
  ASSERT_TRUE(peer_->wait_event(*theirs, *event));
  auto after = peer_->record(*theirs);
  ASSERT_TRUE(after);
  EXPECT_FALSE(after->is_done());
  control_->clear();
  EXPECT_EQ(event->wait().code(), StatusCode::kTimeout);
  EXPECT_TRUE(peer_->record(*theirs)->wait());
  peer_->control()->clear();
  EXPECT_TRUE(after->is_done());
  EXPECT_TRUE(device_->destroy_stream(*mine));
  EXPECT_TRUE(peer_->destroy_stream(*theirs));
}

}  // namespace
}  // namespace vmem
