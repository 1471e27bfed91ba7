#include "tests/unit/transfer/transfer_machine.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/host/host_backend.hpp"

namespace vmem {
namespace {

std::vector<std::unique_ptr<Device>> make_devices(const BackendConfig& config,
                                                  std::vector<std::unique_ptr<Backend>>& backends) {
  auto backend = create_host_backend(config);
  EXPECT_TRUE(backend) << backend.error().to_string();
  auto devices = (*backend)->discover();
  EXPECT_TRUE(devices) << devices.error().to_string();
  backends.push_back(std::move(*backend));
  return std::move(*devices);
}

bool contains(const std::vector<std::pair<DeviceIndex, DeviceIndex>>& pairs, DeviceIndex from, DeviceIndex to) {
  return std::find(pairs.begin(), pairs.end(), std::pair(from, to)) != pairs.end();
}

}  // namespace

std::vector<std::uint8_t> pattern_bytes(std::size_t bytes, std::uint64_t seed) {
  std::vector<std::uint8_t> pattern(bytes);
  std::uint64_t state = seed * 0x9E3779B97F4A7C15U + 1;
  for (std::size_t i = 0; i < bytes; i += sizeof state) {
    state ^= state << 13U;
    state ^= state >> 7U;
    state ^= state << 17U;
    std::memcpy(pattern.data() + i, &state, std::min(sizeof state, bytes - i));
  }
  return pattern;
}

DeviceBuffer::DeviceBuffer(Device& device, std::size_t bytes) : device_(device), bytes_(bytes) {
  auto address = device.allocate(bytes);
  EXPECT_TRUE(address) << address.error().to_string();
  address_ = address.value_or(nullptr);
}

DeviceBuffer::~DeviceBuffer() { static_cast<void>(device_.deallocate(address_)); }

void DeviceBuffer::write(const std::vector<std::uint8_t>& bytes, std::size_t offset) {
  const auto event = device_.copy_from_host(at(offset), bytes.data(), bytes.size(), Stream());
  ASSERT_TRUE(event) << event.error().to_string();
  ASSERT_TRUE(event->wait());
}

void DeviceBuffer::read_into(std::vector<std::uint8_t>& bytes, std::size_t offset) const {
  const auto event = device_.copy_to_host(bytes.data(), at(offset), bytes.size(), Stream());
  ASSERT_TRUE(event) << event.error().to_string();
  ASSERT_TRUE(event->wait());
}

std::vector<std::uint8_t> DeviceBuffer::read() const {
  std::vector<std::uint8_t> bytes(bytes_);
  read_into(bytes);
  return bytes;
}

TransferMachine::TransferMachine(const MachineSpec& spec) : spec_(spec) {
  logger_.set_callback([this](LogLevel, std::string_view message) {
    const std::lock_guard lock(mutex_);
    messages_.emplace_back(message);
  });
  BackendConfig config;
  config.log = [](LogLevel, std::string_view) {};
  std::vector<std::unique_ptr<Device>> hosts;
  // Each further node is another backend's: this machine may have one only.
  for (std::size_t i = 1; i < spec.num_hosts; ++i) {
    auto devices = make_devices(config, backends_);
    hosts.push_back(std::move(devices.front()));
  }
  for (std::size_t i = 0; i < spec.num_gpus; ++i) {
    SimulatedDevice gpu;
    gpu.total_bytes = 4_GiB;
    gpu.caps = spec.caps;
    gpu.alias_offset = spec.alias_offset;
    gpu.enforce_links = spec.enforced_rate > 0;
    if (spec.enforced_rate > 0) {
      gpu.bandwidth_in = gpu.bandwidth_out = gpu.bandwidth_peer = spec.enforced_rate;
    }
    config.simulated.push_back(gpu);
  }
  auto devices = make_devices(config, backends_);
  hosts.insert(hosts.begin(), std::move(devices.front()));
  for (auto& host : hosts) devices_.push_back(make_faulty(std::move(host)));
  for (auto& device : devices) {
    if (device && device->info().tier == Tier::kDevice) devices_.push_back(make_faulty(std::move(device)));
  }

  std::vector<TopologyDevice> described;
  for (const auto& device : devices_) described.push_back({device->info(), device->info().total_bytes, "", {}, {}, {}});
  std::vector<Link> links;
  for (DeviceIndex from = 0; from < devices_.size(); ++from) {
    for (DeviceIndex to = 0; to < devices_.size(); ++to) {
      const bool peers = contains(spec.peers, from, to);
      if (from == to || contains(spec.without_link, from, to)) continue;
      if (!peers && from >= spec.num_hosts && to >= spec.num_hosts) continue;
      const double host_rate = spec.enforced_rate > 0 ? spec.enforced_rate : 10e9;
      const double rate = peers && spec.peer_rate > 0 ? spec.peer_rate : host_rate;
      links.push_back({from, to, peers, rate, std::chrono::microseconds(5), LinkSource::kMeasured});
    }
  }
  topology_ = Topology(std::move(described), std::move(links), {}, {}, {});
}

TransferMachine::~TransferMachine() {
  engine_.reset();
  buffers_.clear();
}

std::vector<Device*> TransferMachine::devices() const {
  std::vector<Device*> devices;
  for (const auto& device : devices_) devices.push_back(device.get());
  return devices;
}

std::vector<std::string> TransferMachine::messages() const {
  const std::lock_guard lock(mutex_);
  return messages_;
}

TransferEngine& TransferMachine::make_engine(const TransferOptions& options) {
  engine_.reset();
  auto engine = TransferEngine::create(devices(), topology_, logger_, options);
  EXPECT_TRUE(engine) << engine.error().to_string();
  engine_ = std::move(engine).value();
  return *engine_;
}

DeviceBuffer& TransferMachine::buffer(DeviceIndex index, std::size_t bytes) {
  buffers_.push_back(std::make_unique<DeviceBuffer>(device(index), bytes));
  return *buffers_.back();
}

void TransferMachine::expect_copied(DeviceIndex from, DeviceIndex to, std::size_t bytes, std::size_t unaligned) {
  DeviceBuffer source(device(from), bytes + 2 * unaligned + 1);
  DeviceBuffer destination(device(to), bytes + 2 * unaligned + 1);
  const auto new_bytes = pattern_bytes(source.bytes(), next_seed_++);
  auto expected = pattern_bytes(destination.bytes(), next_seed_++);
  source.write(new_bytes);
  destination.write(expected);
  std::copy_n(new_bytes.begin(), bytes, expected.begin() + static_cast<std::ptrdiff_t>(unaligned));
  const Status status = engine_->copy({{from, source.address()}, {to, destination.at(unaligned)}, {{0, bytes}}, {}});
  ASSERT_TRUE(status) << status.to_string();
  // Not with EXPECT_EQ: it would print megabytes.
  EXPECT_TRUE(destination.read() == expected) << bytes << " bytes from device " << from << " to " << to;
  EXPECT_TRUE(source.read() == new_bytes);
}

void TransferMachine::expect_ranges_copied(DeviceIndex from, DeviceIndex to, const std::vector<ByteRange>& ranges) {
  const std::size_t bytes = ranges.empty() ? 1 : ranges.back().offset + ranges.back().bytes + 1;
  DeviceBuffer source(device(from), bytes);
  DeviceBuffer destination(device(to), bytes);
  const auto new_bytes = pattern_bytes(bytes, next_seed_++);
  auto expected = pattern_bytes(bytes, next_seed_++);
  source.write(new_bytes);
  destination.write(expected);
  for (const ByteRange& range : ranges) {
    const auto offset = static_cast<std::ptrdiff_t>(range.offset);
    std::copy_n(new_bytes.begin() + offset, range.bytes, expected.begin() + offset);
  }
  const Status status = engine_->copy({{from, source.address()}, {to, destination.address()}, ranges, {}});
  ASSERT_TRUE(status) << status.to_string();
  EXPECT_TRUE(destination.read() == expected) << ranges.size() << " ranges from device " << from << " to " << to;
}

}  // namespace vmem
