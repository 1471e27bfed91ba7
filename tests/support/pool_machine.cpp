#include "tests/support/pool_machine.hpp"

#include <algorithm>
#include <utility>

#include "backends/host/host_backend.hpp"
#include "runtime/pool/pool_impl.hpp"
#include "runtime/support/check.hpp"
#include "runtime/topology/assemble.hpp"

namespace vmem {
namespace {

BackendConfig config_of(const PoolMachineSpec& spec) {
  BackendConfig config;
  config.host_limit_bytes = spec.host_bytes;
  config.log = [](LogLevel, std::string_view) {};
  for (std::size_t i = 0; i < spec.gpu_bytes.size(); ++i) {
    SimulatedDevice device;
    device.name = "sim:" + std::to_string(i);
    device.vendor = i < spec.vendors.size() ? spec.vendors[i] : "one";
    device.total_bytes = spec.gpu_bytes[i];
    device.granularity = 16_KiB;
    device.caps = spec.caps;
    if (spec.adjust) spec.adjust(device);
    config.simulated.push_back(device);
  }
  return config;
}

}  // namespace

PoolMachine::PoolMachine(const PoolMachineSpec& spec) {
  const BackendConfig config = config_of(spec);
  auto backend = create_host_backend(config);
  VMEM_CHECK(backend.has_value());
  backend_ = std::move(*backend);
  auto found = backend_->discover();
  VMEM_CHECK(found.has_value());
  std::vector<DeviceInfo> infos;
  for (const auto& device : *found) infos.push_back(device->info());
  AssembleInput input;
  input.devices = infos;
  input.simulated = config.simulated;
  auto assembled = assemble_topology(input);
  VMEM_CHECK(assembled.has_value());
  topology_ = std::move(assembled->topology);
  for (const std::size_t backing : assembled->backing) {
    controls_.push_back(std::make_shared<FaultControl>());
    devices_.push_back(make_faulty(std::move((*found)[backing]), controls_.back()));
    free_at_start_.push_back(devices_.back()->memory_info()->free_bytes);
    context_.devices.push_back(devices_.back().get());
  }
  TransferOptions options;
  options.timeout = spec.copy_timeout;
  options.staging_bytes = 1_MiB;
  options.copy_threads = 2;
  auto transfers = TransferEngine::create(context_.devices, topology_, log_, options);
  VMEM_CHECK(transfers.has_value());
  transfers_ = std::move(*transfers);
  context_.log = &log_;
  context_.topology = &topology_;
  context_.transfers = transfers_.get();
  context_.fork = &fork_;
  auto pool = make_pool(spec.pool);
  VMEM_CHECK(pool.has_value());
  pool_ = std::move(*pool);
}

Result<std::unique_ptr<Pool>> PoolMachine::make_pool(const PoolOptions& options) {
  VMEM_ASSIGN_OR_RETURN(auto impl, Pool::Impl::create(context_, options));
  return std::make_unique<Pool>(std::move(impl));
}

void PoolMachine::end_pool() {
  if (!pool_) return;
  pool_.reset();
  transfers_.reset();
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (controls_[i]->lost()) continue;
    controls_[i]->clear();
    const auto memory = devices_[i]->memory_info();
    ASSERT_TRUE(memory.has_value());
    // Host memory's figure also follows what the rest of the machine takes.
    if (devices_[i]->info().tier != Tier::kDevice) continue;
    EXPECT_EQ(memory->free_bytes, free_at_start_[i]) << i;
  }
}

PoolMachine::~PoolMachine() { end_pool(); }

std::vector<std::uint8_t> test_pattern(std::size_t bytes, std::uint64_t seed) {
  std::vector<std::uint8_t> pattern(bytes);
  std::uint64_t state = seed * 0x9E3779B97F4A7C15ULL + 1;
  for (auto& byte : pattern) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    byte = static_cast<std::uint8_t>(state >> 56U);
  }
  return pattern;
}

}  // namespace vmem
