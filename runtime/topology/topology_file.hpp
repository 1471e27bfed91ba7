// What a user says about the machine: the JSON file of `--topology` and VMEM_TOPOLOGY. tools/topologies/README.md
// documents the form; topology.schema.json beside it is the same for machines.
#pragma once

#include <vmem/backend_config.hpp>
#include <vmem/status.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vmem {

// One of the logical devices that a card is split into. It has no peers.
struct DevicePart {
  std::string name;  // the logical device is "DEVICE/name"
  std::uint64_t capacity_bytes = 0;
};

// `device` is a name, a UUID or a PCI address here and below; what it means is found when the devices are known.
struct DeviceCorrection {
  std::string device;
  bool hide = false;
  std::optional<std::uint64_t> capacity_bytes;
  std::optional<std::uint64_t> limit_bytes;
  std::optional<unsigned> numa_node;
  std::vector<DevicePart> split;
  std::size_t line = 0;
};

struct LinkCorrection {
  std::string from;
  std::string to;
  bool hide = false;
  std::optional<double> bytes_per_second;
  std::optional<std::chrono::nanoseconds> latency;
  std::optional<bool> peer_access;
  std::size_t line = 0;
};

struct ForcedRoute {
  std::vector<std::string> devices;  // two to four, none twice
  std::size_t line = 0;
};

struct TopologyFile {
  std::string path;                        // for messages
  bool strict = false;                     // what names an unknown device is an error, not a note
  std::vector<SimulatedDevice> simulated;  // every one has a name
  std::vector<DeviceCorrection> devices;
  std::vector<LinkCorrection> links;
  std::vector<ForcedRoute> routes;
};

inline constexpr std::size_t kMaxTopologyFileBytes = std::size_t{4} << 20U;

// Errors are kConfigError with file, line, JSON path and what was expected. `path` is for messages alone.
Result<TopologyFile> parse_topology_file(std::string_view text, const std::string& path);

// kNotFound where there is no such file, kIoError where it can't be read.
Result<TopologyFile> read_topology_file(const std::string& path);

}  // namespace vmem
