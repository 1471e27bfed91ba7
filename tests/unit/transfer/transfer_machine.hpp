// A machine of simulated GPUs for tests of transfers: its devices can misbehave, its buffers know what they must hold.
#pragma once

#include <gtest/gtest.h>
#include <vmem/backend.hpp>
#include <vmem/backend_config.hpp>
#include <vmem/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/support/log.hpp"
#include "runtime/transfer/transfer_engine.hpp"
#include "tests/support/faulty_device.hpp"

namespace vmem {

struct MachineSpec {
  std::size_t num_hosts = 1;
  std::size_t num_gpus = 2;
  DeviceCaps caps = DeviceCaps(0x3FU).without(DeviceCap::kPeerCopy);
  double enforced_rate = 0;  // bytes per second of every link; 0: as fast as it goes
  double peer_rate = 0;      // of links between peers, told to the topology; 0: as the others
  std::uint64_t alias_offset = 0;
  // Pairs of devices that have no link although they might, and pairs that are peers.
  std::vector<std::pair<DeviceIndex, DeviceIndex>> without_link;
  std::vector<std::pair<DeviceIndex, DeviceIndex>> peers;
};

std::vector<std::uint8_t> pattern_bytes(std::size_t bytes, std::uint64_t seed);

// Memory on a device, given back at the end.
class DeviceBuffer {
 public:
  DeviceBuffer(Device& device, std::size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  void write(const std::vector<std::uint8_t>& bytes, std::size_t offset = 0);
  // As many bytes as the vector has.
  void read_into(std::vector<std::uint8_t>& bytes, std::size_t offset = 0) const;
  std::vector<std::uint8_t> read() const;
  void* address() const { return address_; }
  void* at(std::size_t offset) const { return static_cast<std::uint8_t*>(address_) + offset; }
  std::size_t bytes() const { return bytes_; }

 private:
  Device& device_;
  const std::size_t bytes_;
  void* address_ = nullptr;
};

// Devices 0 to num_hosts - 1 are host memory, the simulated GPUs follow.
class TransferMachine {
 public:
  explicit TransferMachine(const MachineSpec& spec = {});
  ~TransferMachine();

  DeviceIndex host(std::size_t i = 0) const { return i; }
  DeviceIndex gpu(std::size_t i) const { return spec_.num_hosts + i; }
  // Without faults, and without being counted.
  Device& device(DeviceIndex index) { return devices_[index]->inner(); }
  FaultControl& faults(DeviceIndex index) { return *devices_[index]->control(); }
  const Topology& topology() const { return topology_; }
  Logger& logger() { return logger_; }
  std::vector<Device*> devices() const;
  std::vector<std::string> messages() const;

  // The engine, made anew; at most one at a time.
  TransferEngine& make_engine(const TransferOptions& options = {});
  void destroy_engine() { engine_.reset(); }
  TransferEngine& engine() { return *engine_; }
  void destroy_devices() { devices_.clear(); }

  DeviceBuffer& buffer(DeviceIndex device, std::size_t bytes);
  void free_buffers() { buffers_.clear(); }

  // Copies pattern bytes of that size from one device to the other and compares all of it and its surroundings.
  void expect_copied(DeviceIndex from, DeviceIndex to, std::size_t bytes, std::size_t unaligned = 0);
  // The same for ranges of a larger buffer.
  void expect_ranges_copied(DeviceIndex from, DeviceIndex to, const std::vector<ByteRange>& ranges);

 private:
  const MachineSpec spec_;
  mutable std::mutex mutex_;
  std::vector<std::string> messages_;
  Logger logger_{LogLevel::kDebug};
  std::vector<std::unique_ptr<Backend>> backends_;
  std::vector<std::unique_ptr<FaultyDevice>> devices_;
  Topology topology_;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers_;
  std::unique_ptr<TransferEngine> engine_;
  std::uint64_t next_seed_ = 1;
};

}  // namespace vmem
