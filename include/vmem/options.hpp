/// What a Runtime, a Pool and a Buffer can be asked for. Every field has a default that suits a workstation.
///
/// Configuration is taken from the call, then from the environment (named with each field), then from the topology
/// file; a wrong value is a kConfigError that names it.
#pragma once

#include <vmem/log_level.hpp>
#include <vmem/types.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace vmem {

struct RuntimeOptions {
  /// A JSON topology file. Empty: VMEM_TOPOLOGY, else none.
  std::string topology_file;
  /// A folder with backends, tried after the one beside the library. Empty: VMEM_BACKEND_DIR, else none.
  std::string backend_dir;
  /// How many simulated GPUs to make where neither the machine nor the topology file has a GPU. Empty:
  /// VMEM_SIMULATED_GPUS, else 2.
  std::optional<unsigned> simulated_gpus;
  /// The most that host memory gives to the pool, bytes. 0: VMEM_HOST_LIMIT, else half of what is available.
  std::uint64_t host_limit_bytes = 0;
  /// The most pinned memory that transfers use for staging, bytes. 0: VMEM_STAGING_LIMIT, else 256 MiB.
  std::size_t staging_bytes = 0;
  /// A copy that takes longer, counted from when its dependencies are done, fails its device. 0: VMEM_COPY_TIMEOUT_MS,
  /// else 30 s.
  std::chrono::milliseconds copy_timeout{0};
  /// Empty: VMEM_LOG (off, error, warn, info, debug), else warn.
  std::optional<LogLevel> log_level;
  /// Empty: the log goes to standard error.
  LogCallback log;
};

struct PoolOptions {
  /// For people and metrics. Empty: "pool".
  std::string name;
  /// Buffers are cut into blocks of this size: a power of two, at least the largest granularity of the devices.
  std::size_t block_bytes = kDefaultBlockBytes;
  /// Addresses reserved for the pool, bytes.
  std::size_t address_bytes = std::size_t{16} << 40U;
  FitStrategy fit = FitStrategy::kBestFit;
  PlacementStrategy placement = PlacementStrategy::kLocalityFirst;
  /// How long an acquire waits for holders that have not released, unless it says otherwise.
  std::chrono::milliseconds acquire_deadline{10'000};
  /// Per-device limits by name, bytes; on top of the topology's.
  std::map<std::string, std::uint64_t> limits;
  /// Debug mode: on devices with virtual memory a block is unmapped while nobody holds it, so that use without acquire
  /// faults. A release then waits for the work on its stream. Slow.
  bool unmap_released = false;
};

struct BufferOptions {
  /// Unwritten bytes read as zero; otherwise they are undefined.
  bool zeroed = false;
  /// A device's name: where the buffer's blocks go first and return to; the buffer then shares no block with others.
  /// Empty: wherever they are used.
  std::string preferred_device;
};

}  // namespace vmem
