#include "runtime/transfer/staging.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/transfer/transfer_machine.hpp"

namespace vmem {
namespace {

class CountingWaiter final : public StagingRing::Waiter {
 public:
  void lane_available() override { ++calls; }
  int calls = 0;
};

TEST(StagingRingTest, HasSoManyLanesAsTheLimitAllows) {
  TransferMachine machine;
  HostRegistrations registrations(machine.devices(), machine.logger());
  StagingRing ring(machine.devices(), 1_MiB, registrations, machine.logger());
  EXPECT_EQ(ring.buffer_bytes(), 128_KiB);
  const LaneShape shape{{0}, {{1, 2}}};
  CountingWaiter waiter;
  std::vector<LanePtr> lanes;
  for (int i = 0; i < 8; ++i) lanes.push_back(ring.take(shape, &waiter).value());
  EXPECT_EQ(ring.take(shape, &waiter).error().code(), StatusCode::kBusy);
  EXPECT_EQ(ring.take(shape, &waiter).error().code(), StatusCode::kBusy);
  EXPECT_TRUE(ring.has_waiters());
  EXPECT_EQ(ring.peak_bytes(), 1_MiB);
  ring.give_back(lanes.back());
  lanes.pop_back();
  EXPECT_EQ(waiter.calls, 1);
  EXPECT_FALSE(ring.has_waiters());
  EXPECT_EQ(ring.idle_buffers(), 1U);
  EXPECT_TRUE(ring.take_now(shape));
  for (const auto& lane : lanes) ring.give_back(lane);
}

TEST(StagingRingTest, MovesMemoryToWhereItIsNeeded) {
  MachineSpec spec;
  spec.num_hosts = 2;
  TransferMachine machine(spec);
  HostRegistrations registrations(machine.devices(), machine.logger());
  StagingRing ring(machine.devices(), 1_MiB, registrations, machine.logger());
  for (const DeviceIndex place : {DeviceIndex{0}, DeviceIndex{1}}) {
    std::vector<LanePtr> lanes;
    for (int i = 0; i < 8; ++i) lanes.push_back(ring.take({{place}, {{2}}}, nullptr).value());
    for (const auto& lane : lanes) ring.give_back(lane);
  }
  EXPECT_EQ(ring.allocated_bytes(), 1_MiB);
  // Both at once or none.
  std::vector<LanePtr> lanes;
  for (int i = 0; i < 4; ++i) lanes.push_back(ring.take({{0, 1}, {{2}, {3}}}, nullptr).value());
  EXPECT_EQ(ring.take({{0, 1}, {{2}, {3}}}, nullptr).error().code(), StatusCode::kBusy);
  for (const auto& lane : lanes) ring.give_back(lane);
  EXPECT_EQ(ring.idle_buffers(), 8U);
}

TEST(StagingRingTest, KeepsABusyLaneAsideUntilItsCopiesEnd) {
  TransferMachine machine;
  HostRegistrations registrations(machine.devices(), machine.logger());
  StagingRing ring(machine.devices(), 1_MiB, registrations, machine.logger());
  const LaneShape shape{{0}, {{1, 2}}};
  CountingWaiter waiter;
  std::vector<LanePtr> lanes;
  for (int i = 0; i < 8; ++i) lanes.push_back(ring.take(shape, &waiter).value());
  EXPECT_FALSE(ring.take(shape, &waiter));
  for (const auto& lane : lanes) {
    lane->busy = 1;
    ring.give_back(lane);
  }
  EXPECT_EQ(waiter.calls, 1);
  // Nobody will give anything back: to wait would be for ever.
  EXPECT_EQ(ring.take(shape, &waiter).error().code(), StatusCode::kOutOfHostMemory);
  EXPECT_EQ(ring.take_now(shape).error().code(), StatusCode::kBusy);
  for (const auto& lane : lanes) lane->busy = 0;
  const auto lane = ring.take(shape, &waiter);
  ASSERT_TRUE(lane);
  ring.give_back(*lane);
}

TEST(StagingRingTest, RegistersOnceForAnAddressSpace) {
  MachineSpec spec;
  spec.caps = DeviceCaps(0x3FU);  // peers share an address space
  TransferMachine machine(spec);
  HostRegistrations registrations(machine.devices(), machine.logger());
  StagingRing ring(machine.devices(), 1_MiB, registrations, machine.logger());
  const auto lane = ring.take({{0}, {{1, 2}}}, nullptr);
  ASSERT_TRUE(lane);
  EXPECT_EQ(machine.faults(1).num_calls("register_host") + machine.faults(2).num_calls("register_host"), 1U);
  EXPECT_NE(registrations.address_on((*lane)->buffers.front()->address, ring.buffer_bytes(), 2), nullptr);
  ring.give_back(*lane);
}

}  // namespace
}  // namespace vmem
