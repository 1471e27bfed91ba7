#include "runtime/pool/link_meter.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "tests/unit/pool/host_backend.hpp"

namespace vmem {
namespace {

class LinkMeterTest : public ::testing::Test {
 protected:
  LinkMeterTest() {
    BackendConfig config;
    for (int i = 0; i < 2; ++i) {
      SimulatedDevice& device = config.simulated.emplace_back();
      device.total_bytes = 8_MiB;
    }
    backend_ = load_host_backend(config);
    auto devices = backend_->discover().value();
    for (auto& device : devices) {
      if (device->info().tier == Tier::kHost && host_) continue;
      if (device->info().tier == Tier::kHost) host_ = true;
      devices_.push_back(device.get());
      owned_.push_back(std::move(device));
    }
  }

  std::unique_ptr<Backend> backend_;
  std::vector<std::unique_ptr<Device>> owned_;
  std::vector<Device*> devices_;  // host:0, sim:0, sim:1
  bool host_ = false;
};

TEST_F(LinkMeterTest, EveryKindOfLinkTakesTime) {
  LinkMeter meter(devices_, 1_MiB, std::chrono::seconds(30));
  for (DeviceIndex from = 0; from < devices_.size(); ++from) {
    for (DeviceIndex to = 0; to < devices_.size(); ++to) {
      if (from == to) continue;
      const auto seconds = meter.copy(from, to, 1_MiB);
      ASSERT_TRUE(seconds) << from << " to " << to << ": " << seconds.error().to_string();
      EXPECT_GT(*seconds, 0);
    }
  }
}

TEST_F(LinkMeterTest, ALinkThatFailsGivesBackWhatItTook) {
  {
    LinkMeter meter(devices_, 4_MiB, std::chrono::seconds(30));
    Fault fault;
    fault.call = "copy_from_host";
    ASSERT_TRUE(devices_[1]->inject(fault));
    EXPECT_FALSE(meter.copy(0, 1, 4_MiB));
    fault.call = "fill";
    ASSERT_TRUE(devices_[2]->inject(fault));
    EXPECT_FALSE(meter.copy(0, 2, 4_MiB));
    fault.call = "create_stream";
    ASSERT_TRUE(devices_[2]->inject(fault));
    EXPECT_FALSE(meter.copy(0, 2, 4_MiB));
    EXPECT_TRUE(meter.copy(0, 2, 4_MiB));
  }
  // The same capacity twice more: nothing of the failures stayed.
  auto all = devices_[1]->allocate(8_MiB);
  ASSERT_TRUE(all) << all.error().to_string();
  EXPECT_TRUE(devices_[1]->deallocate(*all));
  all = devices_[2]->allocate(8_MiB);
  ASSERT_TRUE(all) << all.error().to_string();
  EXPECT_TRUE(devices_[2]->deallocate(*all));
}

TEST_F(LinkMeterTest, ACopyThatNeverEndsIsGivenUp) {
  Fault fault;
  fault.kind = Fault::Kind::kHang;
  fault.call = "copy_from_host";
  ASSERT_TRUE(devices_[1]->inject(fault));
  {
    LinkMeter meter(devices_, 1_MiB, std::chrono::milliseconds(10));
    EXPECT_EQ(meter.copy(0, 1, 1_MiB).error().code(), StatusCode::kTimeout);
  }
  ASSERT_TRUE(devices_[1]->clear_faults());
}

TEST_F(LinkMeterTest, WithoutRoomThereIsNoFigure) {
  LinkMeter meter(devices_, 16_MiB, std::chrono::seconds(30));
  const auto seconds = meter.copy(0, 1, 1_MiB);
  ASSERT_FALSE(seconds);
  EXPECT_EQ(seconds.error().code(), StatusCode::kOutOfDeviceMemory);
}

}  // namespace
}  // namespace vmem
