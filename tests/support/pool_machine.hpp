// A machine of simulated GPUs and host memory with a pool on it, for tests: small, and every device can misbehave.
#pragma once

#include <gtest/gtest.h>
#include <vmem/backend_config.hpp>
#include <vmem/pool.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/pool/fork_marker.hpp"
#include "runtime/pool/pool_context.hpp"
#include "runtime/support/log.hpp"
#include "runtime/transfer/transfer_engine.hpp"
#include "tests/support/faulty_device.hpp"

namespace vmem {

struct PoolMachineSpec {
  std::vector<std::uint64_t> gpu_bytes{8 * 64_KiB, 8 * 64_KiB};
  std::vector<std::string> vendors;  // of each GPU; empty: all of one
  DeviceCaps caps{0x3FU};
  std::uint64_t host_bytes = 64_MiB;
  PoolOptions pool;
  std::chrono::milliseconds copy_timeout{20'000};
  std::function<void(SimulatedDevice&)> adjust;  // called for each GPU before it is made; may be empty

  PoolMachineSpec() {
    pool.block_bytes = 64_KiB;
    pool.address_bytes = 64_GiB;
  }
};

// Devices are in the order GPU 0, GPU 1, ..., host. The pool goes before the machine.
class PoolMachine {
 public:
  explicit PoolMachine(const PoolMachineSpec& spec = {});
  ~PoolMachine();
  PoolMachine(const PoolMachine&) = delete;
  PoolMachine& operator=(const PoolMachine&) = delete;

  Pool& pool() { return *pool_; }
  // One more pool on the same devices; it goes before `end_pool`.
  Result<std::unique_ptr<Pool>> make_pool(const PoolOptions& options);
  const Topology& topology() const { return topology_; }
  DeviceIndex host() const { return devices_.size() - 1; }
  DeviceIndex num_devices() const { return devices_.size(); }
  FaultyDevice& device(DeviceIndex index) { return *devices_[index]; }
  FaultControl& faults(DeviceIndex index) { return *controls_[index]; }
  // Takes the pool down; the devices are checked to have all memory back unless they are lost.
  void end_pool();
  // Takes the pool down, and nothing else.
  void drop_pool() { pool_.reset(); }

 private:
  std::unique_ptr<Backend> backend_;
  std::vector<std::unique_ptr<FaultyDevice>> devices_;
  std::vector<std::shared_ptr<FaultControl>> controls_;  // shared with the devices
  std::vector<std::uint64_t> free_at_start_;
  Topology topology_;
  Logger log_{LogLevel::kOff};
  ForkMarker fork_;
  std::unique_ptr<TransferEngine> transfers_;
  PoolContext context_;
  std::unique_ptr<Pool> pool_;
};

// Bytes that differ from place to place and from seed to seed.
std::vector<std::uint8_t> test_pattern(std::size_t bytes, std::uint64_t seed);

}  // namespace vmem
