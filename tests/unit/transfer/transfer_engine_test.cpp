#include "runtime/transfer/transfer_engine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "backends/kernels/kernels.hpp"
#include "runtime/support/host_registrations.hpp"
#include "tests/unit/transfer/transfer_machine.hpp"

namespace vmem {
namespace {

std::uint64_t copies_of(const TransferStats& stats, HopKind kind) {
  std::uint64_t copies = 0;
  for (const HopStats& hop : stats.hops) copies += hop.kind == kind ? hop.copies : 0;
  return copies;
}

std::uint64_t bytes_of(const TransferStats& stats, DeviceIndex from, DeviceIndex to, HopKind kind) {
  for (const HopStats& hop : stats.hops) {
    if (hop.from == from && hop.to == to && hop.kind == kind) return hop.bytes;
  }
  return 0;
}

// Pages of 4 KiB, every other one missing.
std::vector<ByteRange> every_other_page(std::size_t count) {
  std::vector<ByteRange> ranges;
  for (std::size_t i = 0; i < count; ++i) ranges.push_back({2 * i * kPageBytes, kPageBytes});
  return ranges;
}

TEST(TransferEngineTest, CopiesEverySizeBetweenEveryPairOfDevices) {
  MachineSpec spec;
  spec.num_hosts = 2;
  TransferMachine machine(spec);
  machine.make_engine();
  const std::size_t sizes[] = {1, 7, 4096, 64_KiB, 64_KiB + 1, 1_MiB + 13, 2_MiB + 4097};
  for (DeviceIndex from = 0; from < 4; ++from) {
    for (DeviceIndex to = 0; to < 4; ++to) {
      for (const std::size_t bytes : sizes) machine.expect_copied(from, to, bytes, bytes % 3);
    }
  }
  const TransferStats stats = machine.engine().stats();
  EXPECT_EQ(stats.started, 16U * 7U);
  EXPECT_EQ(stats.completed, stats.started);
  EXPECT_EQ(stats.failed, 0U);
}

TEST(TransferEngineTest, CountsBytesByHop) {
  TransferMachine machine;
  machine.make_engine();
  machine.expect_copied(machine.gpu(0), machine.gpu(1), 3_MiB + 1);
  machine.expect_copied(machine.host(), machine.gpu(1), 100);
  const TransferStats stats = machine.engine().stats();
  EXPECT_EQ(bytes_of(stats, machine.gpu(0), machine.host(), HopKind::kDeviceToHost), 3_MiB + 1);
  EXPECT_EQ(bytes_of(stats, machine.host(), machine.gpu(1), HopKind::kHostToDevice), 3_MiB + 101);
  EXPECT_EQ(stats.bytes, 3_MiB + 101);
  EXPECT_EQ(std::string(to_string(HopKind::kDeviceToHost)), "device to host");
}

TEST(TransferEngineTest, CopiesStraightBetweenPeers) {
  MachineSpec spec;
  spec.caps = DeviceCaps(0x3FU);
  spec.peers = {{1, 2}, {2, 1}};
  TransferMachine machine(spec);
  machine.make_engine();
  machine.expect_copied(machine.gpu(0), machine.gpu(1), 5_MiB + 3);
  EXPECT_EQ(bytes_of(machine.engine().stats(), 1, 2, HopKind::kPeer), 5_MiB + 3);
  EXPECT_EQ(machine.engine().stats().staging_peak_bytes, 0U);
}

TEST(TransferEngineTest, BouncesWhereTheDevicesAreNoPeersAfterAll) {
  MachineSpec spec;
  spec.peers = {{1, 2}, {2, 1}};  // says the topology; the devices have no peer copy
  TransferMachine machine(spec);
  machine.make_engine();
  machine.expect_copied(machine.gpu(0), machine.gpu(1), 5_MiB + 3);
  EXPECT_EQ(bytes_of(machine.engine().stats(), 1, 0, HopKind::kDeviceToHost), 5_MiB + 3);
}

TEST(TransferEngineTest, RelaysThroughAPeer) {
  MachineSpec spec;
  spec.num_gpus = 3;
  spec.caps = DeviceCaps(0x3FU);
  spec.peers = {{1, 2}, {2, 3}};
  spec.without_link = {{1, 0}};  // no way through host memory
  TransferMachine machine(spec);
  machine.make_engine();
  machine.expect_copied(machine.gpu(0), machine.gpu(2), 5_MiB + 5);
  machine.expect_copied(machine.gpu(0), machine.gpu(2), 17);
  const TransferStats stats = machine.engine().stats();
  EXPECT_EQ(bytes_of(stats, 1, 2, HopKind::kPeer), 5_MiB + 22);
  EXPECT_EQ(bytes_of(stats, 2, 3, HopKind::kPeer), 5_MiB + 22);
}

TEST(TransferEngineTest, BouncesOverTwoHostNodes) {
  MachineSpec spec;
  spec.num_hosts = 2;
  spec.without_link = {{0, 3}, {2, 1}};  // gpu 0 reaches host 0 only, gpu 1 is reached from host 1 only
  TransferMachine machine(spec);
  machine.make_engine();
  machine.expect_copied(machine.gpu(0), machine.gpu(1), 5_MiB + 5);
  EXPECT_EQ(bytes_of(machine.engine().stats(), 0, 1, HopKind::kHostToHost), 5_MiB + 5);
}

TEST(TransferEngineTest, CompletesAtOnceWithoutBytes) {
  TransferMachine machine;
  machine.make_engine();
  const auto nothing = machine.engine().start({{0, nullptr}, {1, nullptr}, {}, {}});
  ASSERT_TRUE(nothing);
  EXPECT_TRUE(nothing->is_done());
  const auto empty = machine.engine().start({{0, nullptr}, {1, nullptr}, {{0, 0}, {8, 0}}, {}});
  ASSERT_TRUE(empty);
  EXPECT_TRUE(empty->is_done());
  EXPECT_EQ(machine.engine().stats().started, 0U);
}

TEST(TransferEngineTest, RefusesWhatCannotBe) {
  TransferMachine machine;
  auto& engine = machine.make_engine();
  auto& source = machine.buffer(1, 1_MiB);
  auto& target = machine.buffer(2, 1_MiB);
  const auto code = [&](Endpoint from, Endpoint to, std::vector<ByteRange> ranges) {
    return engine.start({from, to, std::move(ranges), {}}).error().code();
  };
  const Endpoint from{1, source.address()};
  const Endpoint to{2, target.address()};
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  EXPECT_EQ(code({9, source.address()}, to, {{0, 1}}), StatusCode::kInvalidValue);
  EXPECT_EQ(code(from, {9, target.address()}, {{0, 1}}), StatusCode::kInvalidValue);
  EXPECT_EQ(code(from, {9, target.address()}, {}), StatusCode::kInvalidValue);
  EXPECT_EQ(code({1, nullptr}, to, {{0, 1}}), StatusCode::kInvalidValue);
  EXPECT_EQ(code(from, to, {{8, kMost}}), StatusCode::kInvalidValue);
  EXPECT_EQ(code(from, to, {{0, kMost}}), StatusCode::kInvalidValue);
  EXPECT_EQ(code(from, to, {{64, 1}, {0, 1}}), StatusCode::kInvalidValue);
  EXPECT_EQ(code(from, to, {{0, 65}, {64, 1}}), StatusCode::kInvalidValue);
  EXPECT_EQ(code(from, {1, source.at(100)}, {{0, 101}}), StatusCode::kInvalidValue);
  EXPECT_EQ(code(from, {1, source.at(100)}, {{0, 100}}), StatusCode::kOk);
  EXPECT_EQ(engine.device_status(9).code(), StatusCode::kInvalidValue);
}

TEST(TransferEngineTest, SaysThatThereIsNoRoute) {
  MachineSpec spec;
  spec.without_link = {{0, 2}};
  TransferMachine machine(spec);
  auto& engine = machine.make_engine();
  auto& source = machine.buffer(1, 4096);
  auto& target = machine.buffer(2, 4096);
  EXPECT_EQ(engine.copy({{1, source.address()}, {2, target.address()}, {{0, 4096}}, {}}).code(), StatusCode::kNotFound);
}

TEST(TransferEngineTest, RefusesImpossibleOptions) {
  TransferMachine machine;
  const auto code = [&](const TransferOptions& options) {
    return TransferEngine::create(machine.devices(), machine.topology(), machine.logger(), options).error().code();
  };
  TransferOptions options;
  options.staging_bytes = 1000;
  EXPECT_EQ(code(options), StatusCode::kInvalidValue);
  options = {};
  options.timeout = std::chrono::milliseconds(0);
  EXPECT_EQ(code(options), StatusCode::kInvalidValue);
  options = {};
  options.max_in_flight = 0;
  EXPECT_EQ(code(options), StatusCode::kInvalidValue);
  auto devices = machine.devices();
  devices.pop_back();
  EXPECT_EQ(TransferEngine::create(devices, machine.topology(), machine.logger(), {}).error().code(),
            StatusCode::kInvalidValue);
}

TEST(TransferEngineTest, StaysWithinTheStagingLimit) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr std::size_t kBytes = 64_MiB;  // a sanitizer's shadow makes each byte many times as slow
#else
  constexpr std::size_t kBytes = 1_GiB;
#endif
  TransferMachine machine;
  TransferOptions options;
  options.staging_bytes = kBytes / 16;
  machine.make_engine(options);
  constexpr std::size_t kPiece = 4_MiB;
  auto& source = machine.buffer(machine.gpu(0), kBytes);
  auto& target = machine.buffer(machine.gpu(1), kBytes);
  auto piece = pattern_bytes(kPiece, 1);
  std::vector<std::uint32_t> sums;
  for (std::size_t offset = 0; offset < kBytes; offset += kPiece) {
    piece[offset / kPiece] ^= 0xFFU;  // no two pieces are alike
    source.write(piece, offset);
    sums.push_back(crc32_of(piece.data(), piece.size()));
  }
  const Status status = machine.engine().copy(
      {{machine.gpu(0), source.address()}, {machine.gpu(1), target.address()}, {{0, kBytes}}, {}});
  ASSERT_TRUE(status) << status.to_string();
  for (std::size_t offset = 0; offset < kBytes; offset += kPiece) {
    target.read_into(piece, offset);
    EXPECT_EQ(crc32_of(piece.data(), piece.size()), sums[offset / kPiece]);
  }
  const TransferStats stats = machine.engine().stats();
  EXPECT_GT(stats.staging_peak_bytes, 0U);
  EXPECT_LE(stats.staging_peak_bytes, options.staging_bytes);
}

TEST(TransferEngineTest, RunsOnTheLeastStaging) {
  MachineSpec spec;
  spec.num_gpus = 4;
  spec.num_hosts = 2;
  TransferMachine machine(spec);
  TransferOptions options;
  options.staging_bytes = 512_KiB;
  machine.make_engine(options);
  for (std::size_t from = 0; from < 4; ++from) {
    for (std::size_t to = 0; to < 4; ++to) machine.expect_copied(machine.gpu(from), machine.gpu(to), 3_MiB + 1);
  }
  EXPECT_LE(machine.engine().stats().staging_peak_bytes, 512_KiB);
}

// Two GPUs with a fast link between them: each one's slot carries bytes of the other.
MachineSpec fast_peers() {
  MachineSpec spec;
  spec.caps = DeviceCaps(0x3FU);
  spec.peers = {{1, 2}, {2, 1}};
  spec.peer_rate = 80e9;
  return spec;
}

TEST(TransferEngineTest, APeersLinkCarriesAPartOfALargeCopy) {
  TransferMachine machine(fast_peers());
  TransferEngine& engine = machine.make_engine();
  machine.expect_copied(machine.host(), machine.gpu(0), 64_MiB + 3, 5);
  const TransferStats in = engine.stats();
  const std::uint64_t straight = bytes_of(in, 0, 1, HopKind::kHostToDevice);
  const std::uint64_t relayed = bytes_of(in, 2, 1, HopKind::kPeer);
  EXPECT_EQ(straight + relayed, 64_MiB + 3);
  EXPECT_EQ(bytes_of(in, 0, 2, HopKind::kHostToDevice), relayed);
  EXPECT_GT(straight, 24_MiB);
  EXPECT_GT(relayed, 24_MiB);
  machine.expect_copied(machine.gpu(0), machine.host(), 64_MiB + 3, 5);
  EXPECT_GT(bytes_of(engine.stats(), 1, 2, HopKind::kPeer), 24_MiB);
}

TEST(TransferEngineTest, APeerWithoutMemoryForRelayingIsPassedBy) {
  TransferMachine machine(fast_peers());
  TransferEngine& engine = machine.make_engine();
  machine.faults(machine.gpu(1)).set_fail_at(FaultControl::FailAt::kCall);
  machine.faults(machine.gpu(1)).inject({Fault::Kind::kFail, "allocate", 0, 1000, StatusCode::kOutOfDeviceMemory});
  machine.expect_copied(machine.host(), machine.gpu(0), 64_MiB + 3, 5);
  EXPECT_EQ(bytes_of(engine.stats(), 2, 1, HopKind::kPeer), 0U);
  // It is asked again each time.
  machine.faults(machine.gpu(1)).clear();
  machine.expect_copied(machine.host(), machine.gpu(0), 64_MiB + 3, 5);
  EXPECT_GT(bytes_of(engine.stats(), 2, 1, HopKind::kPeer), 24_MiB);
}

TEST(TransferEngineTest, HostMemoryCarriesAPartBesideAPeerLink) {
  TransferMachine machine(fast_peers());
  TransferEngine& engine = machine.make_engine();
  machine.expect_copied(machine.gpu(0), machine.gpu(1), 90_MiB);
  const std::uint64_t beside = bytes_of(engine.stats(), 1, 0, HopKind::kDeviceToHost);
  EXPECT_EQ(bytes_of(engine.stats(), 1, 2, HopKind::kPeer) + beside, 90_MiB);
  EXPECT_GT(beside, 5_MiB);
  EXPECT_LT(beside, 15_MiB);
}

TEST(TransferEngineTest, SmallCopiesAndScatteredPagesTakeOneRoute) {
  TransferMachine machine(fast_peers());
  TransferEngine& engine = machine.make_engine();
  machine.expect_copied(machine.host(), machine.gpu(0), 1_MiB);
  machine.expect_ranges_copied(machine.host(), machine.gpu(0), every_other_page(1500));
  EXPECT_EQ(bytes_of(engine.stats(), 2, 1, HopKind::kPeer), 0U);
}

TEST(TransferEngineTest, AnErrorOnOneOfSeveralRoutesIsTheTransfers) {
  TransferMachine machine(fast_peers());
  TransferEngine& engine = machine.make_engine();
  DeviceBuffer& source = machine.buffer(machine.host(), 64_MiB);
  DeviceBuffer& target = machine.buffer(machine.gpu(0), 64_MiB);
  Fault fault;
  fault.call = "copy_to_peer";
  fault.code = StatusCode::kIoError;
  machine.faults(machine.gpu(1)).inject(fault);
  const Status status =
      engine.copy({{machine.host(), source.address()}, {machine.gpu(0), target.address()}, {{0, 64_MiB}}, {}});
  EXPECT_EQ(status.code(), StatusCode::kIoError) << status.to_string();
  machine.expect_copied(machine.host(), machine.gpu(0), 64_MiB);
}

TEST(TransferEngineTest, MovesScatteredPagesWithOneLaunchAChunk) {
  MachineSpec spec;
  spec.alias_offset = std::uint64_t{0} - 64_GiB;  // registered memory has another address on the device
  TransferMachine machine(spec);
  TransferOptions options;
  options.staging_bytes = 1_MiB;  // little enough to be locked on any machine
  machine.make_engine(options);
  machine.expect_ranges_copied(machine.gpu(0), machine.gpu(1), every_other_page(1000));
  machine.expect_ranges_copied(machine.host(), machine.gpu(1), every_other_page(1000));
  machine.expect_ranges_copied(machine.gpu(0), machine.host(), every_other_page(1000));
  EXPECT_EQ(machine.faults(machine.gpu(0)).num_calls("copy_to_host"), 0U);
  EXPECT_EQ(machine.faults(machine.gpu(1)).num_calls("copy_from_host"), 0U);
  EXPECT_GT(machine.faults(machine.gpu(0)).num_calls("launch"), 0U);
  EXPECT_LT(machine.faults(machine.gpu(0)).num_calls("launch"), 250U);
}

TEST(TransferEngineTest, MovesScatteredPagesOfRegisteredMemoryWithOneLaunchAndNoCpu) {
  MachineSpec spec;
  spec.alias_offset = std::uint64_t{0} - 64_GiB;
  TransferMachine machine(spec);
  TransferOptions options;
  options.staging_bytes = 1_MiB;
  TransferEngine& engine = machine.make_engine(options);
  const std::vector<ByteRange> ranges = every_other_page(200);  // little enough to be locked, too
  const std::size_t bytes = ranges.back().offset + ranges.back().bytes;
  const auto content = pattern_bytes(bytes, 7);
  DeviceBuffer& host = machine.buffer(machine.host(), bytes);
  DeviceBuffer& back = machine.buffer(machine.host(), bytes);
  DeviceBuffer& gpu = machine.buffer(machine.gpu(0), bytes);
  host.write(content);
  back.write(std::vector<std::uint8_t>(bytes, 0));
  gpu.write(std::vector<std::uint8_t>(bytes, 1));
  for (const DeviceBuffer* buffer : {&host, &back}) engine.registrations().add_for_all(buffer->address(), bytes);
  ASSERT_NE(engine.registrations().address_on(back.address(), bytes, machine.gpu(0)), nullptr);
  ASSERT_TRUE(engine.copy({{machine.host(), host.address()}, {machine.gpu(0), gpu.address()}, ranges, {}}));
  ASSERT_TRUE(engine.copy({{machine.gpu(0), gpu.address()}, {machine.host(), back.address()}, ranges, {}}));
  std::vector<std::uint8_t> on_gpu(bytes, 1), on_host(bytes, 0);
  for (const ByteRange& range : ranges) {
    std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(range.offset), range.bytes,
                on_gpu.begin() + static_cast<std::ptrdiff_t>(range.offset));
    std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(range.offset), range.bytes,
                on_host.begin() + static_cast<std::ptrdiff_t>(range.offset));
  }
  EXPECT_EQ(gpu.read(), on_gpu);
  EXPECT_EQ(back.read(), on_host);
  EXPECT_EQ(machine.faults(machine.gpu(0)).num_calls("launch"), 2U);
  EXPECT_EQ(copies_of(engine.stats(), HopKind::kHostToHost), 0U);
  for (const DeviceBuffer* buffer : {&host, &back}) engine.registrations().remove(buffer->address());
}

TEST(TransferEngineTest, ScatteredPagesOfRegisteredMemoryTakeTheRouteToo) {
  MachineSpec spec;
  spec.caps = DeviceCaps(0x3FU);
  spec.peers = {{2, 1}};
  spec.without_link = {{0, 1}};  // to the first GPU by way of the second
  TransferMachine machine(spec);
  TransferEngine& engine = machine.make_engine();
  const std::vector<ByteRange> ranges = every_other_page(100);
  const std::size_t bytes = ranges.back().offset + ranges.back().bytes;
  DeviceBuffer& host = machine.buffer(machine.host(), bytes);
  DeviceBuffer& gpu = machine.buffer(machine.gpu(0), bytes);
  host.write(pattern_bytes(bytes, 3));
  gpu.write(std::vector<std::uint8_t>(bytes, 0));
  engine.registrations().add_for_all(host.address(), bytes);
  const Status copied = engine.copy({{machine.host(), host.address()}, {machine.gpu(0), gpu.address()}, ranges, {}});
  ASSERT_TRUE(copied) << copied.to_string();
  EXPECT_EQ(bytes_of(engine.stats(), 2, 1, HopKind::kPeer), 100 * kPageBytes);
  engine.registrations().remove(host.address());
}

TEST(TransferEngineTest, MovesScatteredPagesWithoutKernels) {
  for (const DeviceCap missing : {DeviceCap::kKernels, DeviceCap::kHostRegistration}) {
    MachineSpec spec;
    spec.caps = spec.caps.without(missing);
    TransferMachine machine(spec);
    machine.make_engine();
    machine.expect_ranges_copied(machine.gpu(0), machine.gpu(1), every_other_page(500));
    machine.expect_ranges_copied(machine.host(), machine.gpu(1), every_other_page(500));
    machine.expect_ranges_copied(machine.gpu(0), machine.host(), every_other_page(500));
    machine.expect_ranges_copied(machine.gpu(0), machine.gpu(0), {{0, 5}});
    EXPECT_EQ(machine.faults(machine.gpu(0)).num_calls("launch"), 0U);
  }
}

TEST(TransferEngineTest, MovesPagesByCopiesWhereTheKernelIsMissing) {
  TransferMachine machine;
  TransferOptions options;
  options.staging_bytes = 1_MiB;
  machine.make_engine(options);
  machine.faults(machine.gpu(0)).set_fail_at(FaultControl::FailAt::kCall);
  machine.faults(machine.gpu(0)).inject({Fault::Kind::kFail, "launch", 0, 1000, StatusCode::kNotFound});
  machine.expect_ranges_copied(machine.gpu(0), machine.gpu(1), every_other_page(200));
  EXPECT_GT(copies_of(machine.engine().stats(), HopKind::kDeviceToHost), 0U);
  EXPECT_GT(machine.faults(machine.gpu(0)).num_calls("copy_to_host"), 100U);
}

TEST(TransferEngineTest, MovesRangesOfAnySize) {
  std::vector<ByteRange> ranges;
  std::size_t offset = 3;
  for (std::size_t i = 0; i < 300; ++i) {
    const std::size_t bytes = 1 + (i * 7919) % 9000;
    ranges.push_back({offset, bytes});
    offset += bytes + i % 3;  // some touch their neighbour
  }
  TransferMachine machine;
  TransferOptions options;
  options.staging_bytes = 1_MiB;
  machine.make_engine(options);
  for (DeviceIndex from = 0; from < 3; ++from) {
    for (DeviceIndex to = 0; to < 3; ++to) machine.expect_ranges_copied(from, to, ranges);
  }
}

TEST(TransferEngineTest, CopiesPageableWhereMemoryCannotBeRegistered) {
  TransferMachine machine;
  machine.faults(machine.gpu(0)).inject({Fault::Kind::kFail, "register_host", 0, 1000, StatusCode::kOutOfHostMemory});
  machine.make_engine();
  machine.expect_copied(machine.gpu(0), machine.gpu(1), 10_MiB);
  machine.expect_copied(machine.gpu(1), machine.gpu(0), 10_MiB);
  const auto messages = machine.messages();
  EXPECT_EQ(std::count_if(messages.begin(), messages.end(),
                          [](const std::string& message) {
                            return message.find("device 'sim:0' can't register host memory") != std::string::npos;
                          }),
            1);
}

TEST(TransferEngineTest, GivesStagingMemoryBackAtTheEnd) {
  TransferMachine machine;
  TransferOptions options;
  options.staging_bytes = 1_MiB;  // little enough to be locked on any machine
  machine.make_engine(options);
  machine.expect_copied(machine.gpu(0), machine.gpu(1), 10_MiB);
  EXPECT_GT(machine.engine().stats().staging_bytes, 0U);
  machine.destroy_engine();
  auto& host = machine.faults(machine.host());
  auto& gpu = machine.faults(machine.gpu(0));
  EXPECT_EQ(host.num_calls("allocate"), host.num_calls("deallocate"));
  EXPECT_EQ(gpu.num_calls("register_host"), gpu.num_calls("unregister_host"));
  EXPECT_EQ(gpu.num_calls("create_stream"), gpu.num_calls("destroy_stream"));
}

TEST(TransferEngineTest, ServesTheOthersWhereOneDeviceHasNoStreams) {
  TransferMachine machine;
  machine.faults(machine.gpu(0)).set_fail_at(FaultControl::FailAt::kCall);
  machine.faults(machine.gpu(0)).inject({Fault::Kind::kFail, "create_stream", 0, 1000, StatusCode::kDeviceFailed});
  auto& engine = machine.make_engine();
  machine.expect_copied(machine.host(), machine.gpu(1), 1_MiB);
  EXPECT_EQ(engine.device_status(machine.gpu(0)).code(), StatusCode::kDeviceFailed);
  auto& source = machine.buffer(machine.gpu(0), 4096);
  auto& target = machine.buffer(machine.gpu(1), 4096);
  EXPECT_EQ(
      engine.copy({{machine.gpu(0), source.address()}, {machine.gpu(1), target.address()}, {{0, 4096}}, {}}).code(),
      StatusCode::kDeviceFailed);
}

}  // namespace
}  // namespace vmem
