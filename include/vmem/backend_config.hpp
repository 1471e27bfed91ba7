/// What the core tells a backend when it makes it: simulated devices, limits, where its messages go.
#pragma once

#include <vmem/backend.hpp>
#include <vmem/log_level.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vmem {

/// A simulated GPU, as a topology file or a test describes it. It moves real bytes; time is enforced only where asked.
struct SimulatedDevice {
  std::string name;  ///< empty: "sim:N"
  std::string vendor = "simulated";
  std::string model = "simulated GPU";
  std::string uuid;  ///< empty: made from the name
  std::uint64_t total_bytes = 0;
  std::size_t granularity = 2 * 1024 * 1024;
  unsigned wave_width = 32;      ///< 32 or 64
  DeviceCaps caps{0x3FU};        ///< every optional group
  bool enforce_links = false;    ///< copies take latency + bytes / bandwidth
  double bandwidth_in = 25e9;    ///< host to device, bytes per second
  double bandwidth_out = 25e9;   ///< device to host
  double bandwidth_peer = 50e9;  ///< to a peer of the same vendor
  std::chrono::nanoseconds latency{5000};
  std::optional<PciAddress> pci;
  std::optional<unsigned> numa_node;
  std::uint64_t alias_offset = 0;  ///< registered memory's address on the device is the host's plus this (case F11)
  std::vector<Fault> faults;       ///< injected from the start
};

struct BackendConfig {
  std::vector<SimulatedDevice> simulated;  ///< only the host backend makes them
  /// Upper bound of each NUMA node's memory given to the pool, bytes; 0: half of what is available.
  std::uint64_t host_limit_bytes = 0;
  /// Takes the backend's messages; called from any thread; never empty when the core makes the backend.
  LogCallback log;
};

}  // namespace vmem
