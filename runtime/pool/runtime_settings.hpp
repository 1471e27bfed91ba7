// RuntimeOptions with every value decided: by the call, else by the environment, else by default.
#pragma once

#include <vmem/backend_config.hpp>
#include <vmem/options.hpp>
#include <vmem/status.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vmem {

struct RuntimeSettings {
  std::string topology_file;         // empty: none
  std::string topology_file_origin;  // who named it, for messages
  std::string backend_dir;           // empty: none
  unsigned simulated_gpus = 0;
  std::uint64_t host_limit_bytes = 0;  // 0: the backend decides
  std::size_t staging_bytes = 0;
  std::chrono::milliseconds copy_timeout{0};
  LogLevel log_level = LogLevel::kWarn;
};

// kConfigError names the option or the variable that is wrong.
Result<RuntimeSettings> resolve_settings(const RuntimeOptions& options);

// The simulated GPUs of a machine without any: small, without enforced links, every second one of the other vendor, so
// that a pool of mixed vendors can be tried anywhere.
std::vector<SimulatedDevice> default_simulated_gpus(unsigned count);

}  // namespace vmem
