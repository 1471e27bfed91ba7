// What a transfer does when a device does not: cases by stage, by kind of fault and by chunk.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>

#include "runtime/transfer/transfer_engine.hpp"
#include "tests/unit/transfer/transfer_machine.hpp"

namespace vmem {
namespace {

// 64 chunks of 128 KiB pass through 8 buffers.
constexpr std::size_t kBytes = 8_MiB;

TransferOptions small_staging(std::chrono::milliseconds timeout = std::chrono::milliseconds(30000)) {
  TransferOptions options;
  options.staging_bytes = 1_MiB;
  options.timeout = timeout;
  return options;
}

enum class How { kThrow, kCall, kCompletion };

struct StageFault {
  const char* call;
  bool at_source;
  How how;
};

std::string fault_name(const testing::TestParamInfo<StageFault>& info) {
  const char* how = info.param.how == How::kThrow  ? "Throws"
                    : info.param.how == How::kCall ? "FailsAtOnce"
                                                   : "FailsLater";
  return std::string(info.param.at_source ? "FirstHop" : "LastHop") + how;
}

class StageFaultTest : public testing::TestWithParam<StageFault> {};

TEST_P(StageFaultTest, FailsTheTransferAndLeavesTheGraphUsable) {
  const StageFault& fault = GetParam();
  TransferMachine machine;
  auto& engine = machine.make_engine(small_staging());
  const DeviceIndex gpu = machine.gpu(fault.at_source ? 0 : 1);
  auto& source = machine.buffer(machine.gpu(0), kBytes);
  auto& target = machine.buffer(machine.gpu(1), kBytes);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> calls{0};
    if (fault.how == How::kThrow) {
      machine.faults(gpu).set_hook([&](std::string_view call) {
        if (call == fault.call && ++calls == 4) throw std::runtime_error("chunk 3");
      });
    } else {
      machine.faults(gpu).set_fail_at(fault.how == How::kCall ? FaultControl::FailAt::kCall
                                                              : FaultControl::FailAt::kCompletion);
      machine.faults(gpu).inject({Fault::Kind::kFail, fault.call, 3, 1, StatusCode::kIoError});
    }
    const Status status =
        engine.copy({{machine.gpu(0), source.address()}, {machine.gpu(1), target.address()}, {{0, kBytes}}, {}});
    EXPECT_EQ(status.code(), fault.how == How::kThrow ? StatusCode::kInternal : StatusCode::kIoError);
    machine.faults(gpu).set_hook({});
  }
  EXPECT_EQ(engine.stats().failed, 20U);
  machine.expect_copied(machine.gpu(0), machine.gpu(1), kBytes + 1);
  EXPECT_LE(engine.stats().staging_peak_bytes, 1_MiB);
  machine.destroy_engine();
  EXPECT_EQ(machine.faults(machine.host()).num_calls("allocate"),
            machine.faults(machine.host()).num_calls("deallocate"));
}

INSTANTIATE_TEST_SUITE_P(EveryStage, StageFaultTest,
                         testing::Values(StageFault{"copy_to_host", true, How::kThrow},
                                         StageFault{"copy_to_host", true, How::kCall},
                                         StageFault{"copy_to_host", true, How::kCompletion},
                                         StageFault{"copy_from_host", false, How::kThrow},
                                         StageFault{"copy_from_host", false, How::kCall},
                                         StageFault{"copy_from_host", false, How::kCompletion}),
                         fault_name);

TEST(TransferFaultsTest, FailsASmallCopyAtEitherHop) {
  TransferMachine machine;
  auto& engine = machine.make_engine();
  auto& source = machine.buffer(machine.gpu(0), 4096);
  auto& target = machine.buffer(machine.gpu(1), 4096);
  const TransferRequest request{
      {machine.gpu(0), source.address()}, {machine.gpu(1), target.address()}, {{0, 4096}}, {}};
  machine.faults(machine.gpu(0)).inject({Fault::Kind::kFail, "copy_to_host", 0, 1, StatusCode::kIoError});
  EXPECT_EQ(engine.copy(request).code(), StatusCode::kIoError);
  machine.faults(machine.gpu(1)).inject({Fault::Kind::kFail, "copy_from_host", 0, 1, StatusCode::kIoError});
  EXPECT_EQ(engine.copy(request).code(), StatusCode::kIoError);
  EXPECT_TRUE(engine.copy(request));
}

TEST(TransferFaultsTest, FailsWhereStagingMemoryIsNotToBeHad) {
  TransferMachine machine;
  auto& engine = machine.make_engine();
  auto& source = machine.buffer(machine.gpu(0), 4_MiB);
  auto& target = machine.buffer(machine.gpu(1), 4_MiB);
  machine.faults(machine.host()).inject({Fault::Kind::kFail, "allocate", 0, 1000, StatusCode::kOutOfHostMemory});
  const TransferRequest request{
      {machine.gpu(0), source.address()}, {machine.gpu(1), target.address()}, {{0, 4_MiB}}, {}};
  EXPECT_EQ(engine.copy(request).code(), StatusCode::kOutOfHostMemory);
  machine.faults(machine.host()).clear();
  EXPECT_TRUE(engine.copy(request));
}

// The stages at which a copy may never end.
TEST(TransferFaultsTest, TimesOutAndFailsTheDeviceWhoseCopyHangs) {
  for (const std::size_t bytes : {std::size_t{4096}, kBytes}) {
    for (const bool at_source : {true, false}) {
      TransferMachine machine;
      auto& engine = machine.make_engine(small_staging(std::chrono::milliseconds(200)));
      auto& source = machine.buffer(machine.gpu(0), kBytes);
      auto& target = machine.buffer(machine.gpu(1), kBytes);
      const DeviceIndex hung = machine.gpu(at_source ? 0 : 1);
      const DeviceIndex well = machine.gpu(at_source ? 1 : 0);
      machine.faults(hung).inject({Fault::Kind::kHang, at_source ? "copy_to_host" : "copy_from_host", 0, 1, {}});
      const TransferRequest request{
          {machine.gpu(0), source.address()}, {machine.gpu(1), target.address()}, {{0, bytes}}, {}};
      EXPECT_EQ(engine.copy(request).code(), StatusCode::kTimeout);
      EXPECT_EQ(engine.copy(request).code(), StatusCode::kDeviceFailed);
      EXPECT_EQ(engine.device_status(hung).code(), StatusCode::kDeviceFailed);
      EXPECT_TRUE(engine.device_status(well));
      machine.expect_copied(machine.host(), well, 1_MiB);
      EXPECT_LE(engine.stats().staging_peak_bytes, 1_MiB);
    }
  }
}

TEST(TransferFaultsTest, TimesOutOnOneHop) {
  TransferMachine machine;
  auto& engine = machine.make_engine(small_staging(std::chrono::milliseconds(200)));
  auto& source = machine.buffer(machine.host(), kBytes);
  auto& target = machine.buffer(machine.gpu(0), kBytes);
  machine.faults(machine.gpu(0)).inject({Fault::Kind::kHang, "copy_from_host", 0, 1, {}});
  const TransferRequest request{{machine.host(), source.address()}, {machine.gpu(0), target.address()}, {{0, 64}}, {}};
  const auto first = engine.start(request);
  const auto second = engine.start(request);
  ASSERT_TRUE(first);
  ASSERT_TRUE(second);
  EXPECT_EQ(first->wait().code(), StatusCode::kTimeout);
  EXPECT_EQ(second->wait().code(), StatusCode::kTimeout);
  EXPECT_EQ(engine.start(request).error().code(), StatusCode::kDeviceFailed);
}

TEST(TransferFaultsTest, DoesNotReuseStagingMemoryThatAHungCopyMayStillWrite) {
  MachineSpec spec;
  spec.num_gpus = 3;
  TransferMachine machine(spec);
  auto& engine = machine.make_engine(small_staging(std::chrono::milliseconds(200)));
  auto& source = machine.buffer(machine.gpu(0), kBytes);
  auto& target = machine.buffer(machine.gpu(1), kBytes);
  machine.faults(machine.gpu(0)).inject({Fault::Kind::kHang, "copy_to_host", 0, 1, {}});
  EXPECT_EQ(
      engine.copy({{machine.gpu(0), source.address()}, {machine.gpu(1), target.address()}, {{0, kBytes}}, {}}).code(),
      StatusCode::kTimeout);
  // Other devices go on with what is left, and the late copies end in memory that nobody else has.
  machine.expect_copied(machine.gpu(1), machine.gpu(2), kBytes);
  machine.faults(machine.gpu(0)).clear();
  machine.expect_copied(machine.gpu(2), machine.gpu(1), kBytes);
  machine.destroy_engine();
  EXPECT_EQ(machine.faults(machine.host()).num_calls("allocate"),
            machine.faults(machine.host()).num_calls("deallocate"));
}

TEST(TransferFaultsTest, IsDestroyedBesideAHungDevice) {
  TransferMachine machine;
  auto& engine = machine.make_engine(small_staging(std::chrono::milliseconds(200)));
  auto& source = machine.buffer(machine.gpu(0), kBytes);
  auto& target = machine.buffer(machine.gpu(1), kBytes);
  machine.faults(machine.gpu(1)).inject({Fault::Kind::kHang, "copy_from_host", 5, 1, {}});
  const auto event =
      engine.start({{machine.gpu(0), source.address()}, {machine.gpu(1), target.address()}, {{0, kBytes}}, {}});
  ASSERT_TRUE(event);
  machine.destroy_engine();
  EXPECT_TRUE(event->is_done());
  EXPECT_EQ(event->wait().code(), StatusCode::kTimeout);
  // What hung completes only now: with the engine gone.
  machine.faults(machine.gpu(1)).clear();
}

TEST(TransferFaultsTest, HearsThatADeviceIsLost) {
  TransferMachine machine;
  auto& engine = machine.make_engine();
  auto& source = machine.buffer(machine.gpu(0), kBytes);
  auto& target = machine.buffer(machine.gpu(1), kBytes);
  machine.faults(machine.gpu(1)).inject({Fault::Kind::kVanish, "copy_from_host", 2, 1, {}});
  const TransferRequest request{
      {machine.gpu(0), source.address()}, {machine.gpu(1), target.address()}, {{0, kBytes}}, {}};
  EXPECT_EQ(engine.copy(request).code(), StatusCode::kDeviceFailed);
  EXPECT_EQ(engine.start(request).error().code(), StatusCode::kDeviceFailed);
}

}  // namespace
}  // namespace vmem
