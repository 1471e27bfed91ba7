#include <gtest/gtest.h>

#include "runtime/transfer/transfer_engine.hpp"
#include "tests/unit/transfer/transfer_machine.hpp"

namespace vmem {
namespace {

// Copies from one device to another between work on streams of both: what comes before is seen, what comes after waits.
void expect_stream_order(TransferMachine& machine, DeviceIndex from, DeviceIndex to, bool with_source_stream,
                         bool with_destination_stream) {
  const std::size_t bytes = 256_KiB + 5;
  Device& source_device = machine.device(from);
  Device& target_device = machine.device(to);
  auto& source = machine.buffer(from, bytes);
  auto& target = machine.buffer(to, bytes);
  auto& after = machine.buffer(to, bytes);
  source.write(pattern_bytes(bytes, 1));
  target.write(pattern_bytes(bytes, 2));
  const Stream source_stream = with_source_stream ? source_device.create_stream().value() : Stream();
  const Stream target_stream = with_destination_stream ? target_device.create_stream().value() : Stream();
  // Before: the source's bytes are made on its stream, the target's are still needed on its own.
  auto& kept = machine.buffer(to, bytes);
  ASSERT_TRUE(source_device.fill(source.address(), 0x5A, bytes, source_stream));
  ASSERT_TRUE(target_device.copy_within(kept.address(), target.address(), bytes, target_stream));
  const auto event = machine.engine().copy_pointers({to, target.address()}, target_stream, {from, source.address()},
                                                    source_stream, bytes);
  ASSERT_TRUE(event) << event.error().to_string();
  // After: the target's stream reads, the source's writes.
  if (!with_source_stream || !with_destination_stream) {
    ASSERT_TRUE(event->wait());
  }
  ASSERT_TRUE(source_device.fill(source.address(), 0x11, bytes, source_stream));
  const auto read = target_device.copy_within(after.address(), target.address(), bytes, target_stream);
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->wait());
  EXPECT_TRUE(event->wait());
  EXPECT_TRUE(kept.read() == pattern_bytes(bytes, 2));
  EXPECT_TRUE(after.read() == std::vector<std::uint8_t>(bytes, 0x5A)) << from << " to " << to;
  if (with_source_stream) {
    EXPECT_TRUE(source_device.destroy_stream(source_stream));
  }
  if (with_destination_stream) {
    EXPECT_TRUE(target_device.destroy_stream(target_stream));
  }
}

TEST(CopyPointersTest, KeepsTheOrderOfBothStreams) {
  for (const bool peers : {false, true}) {
    MachineSpec spec;
    spec.enforced_rate = 200e6;
    if (peers) {
      spec.caps = DeviceCaps(0x3FU);
      spec.peers = {{1, 2}, {2, 1}};
    }
    TransferMachine machine(spec);
    machine.make_engine();
    for (const DeviceIndex from : {machine.host(), machine.gpu(0)}) {
      for (const DeviceIndex to : {machine.host(), machine.gpu(0), machine.gpu(1)}) {
        for (int streams = 0; streams < 4; ++streams) {
          expect_stream_order(machine, from, to, (streams & 1) != 0, (streams & 2) != 0);
        }
      }
    }
  }
}

TEST(CopyPointersTest, RefusesStreamsOfOtherDevices) {
  TransferMachine machine;
  auto& engine = machine.make_engine();
  auto& source = machine.buffer(machine.gpu(0), 64);
  auto& target = machine.buffer(machine.gpu(1), 64);
  Device& gpu = machine.device(machine.gpu(0));
  const Stream stream = gpu.create_stream().value();
  const Endpoint from{machine.gpu(0), source.address()};
  const Endpoint to{machine.gpu(1), target.address()};
  EXPECT_EQ(engine.copy_pointers(to, stream, from, Stream(), 64).error().code(), StatusCode::kInvalidValue);
  EXPECT_TRUE(engine.copy_pointers(to, Stream(), from, stream, 64));
  EXPECT_TRUE(engine.copy_pointers(to, Stream(), from, stream, 0));
  EXPECT_EQ(engine.copy_pointers({9, nullptr}, Stream(), from, stream, 0).error().code(), StatusCode::kInvalidValue);
  EXPECT_TRUE(gpu.destroy_stream(stream));
}

TEST(CopyPointersTest, TimesOutOnAStreamOfTheApplication) {
  TransferMachine machine;
  TransferOptions options;
  options.timeout = std::chrono::milliseconds(200);
  auto& engine = machine.make_engine(options);
  auto& source = machine.buffer(machine.host(), 64);
  auto& target = machine.buffer(machine.gpu(0), 64);
  Device& gpu = *machine.devices()[machine.gpu(0)];
  const Stream stream = gpu.create_stream().value();
  machine.faults(machine.gpu(0)).inject({Fault::Kind::kHang, "copy_from_host", 0, 1, {}});
  const auto event = engine.copy_pointers({machine.gpu(0), target.address()}, stream,
                                          {machine.host(), source.address()}, Stream(), 64);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->wait().code(), StatusCode::kTimeout);
  EXPECT_EQ(engine.device_status(machine.gpu(0)).code(), StatusCode::kDeviceFailed);
  machine.faults(machine.gpu(0)).clear();
  EXPECT_TRUE(gpu.destroy_stream(stream));
}

}  // namespace
}  // namespace vmem
