// Makes the host backend: NUMA nodes as "host:N", simulated GPUs as "sim:N". Tests call this without loading a module.
#pragma once

#include <vmem/backend_config.hpp>

#include <memory>

#include "backends/host/machine.hpp"

namespace vmem {

// kConfigError for a simulated device that can't be. Its devices outlive it without harm.
Result<std::unique_ptr<Backend>> create_host_backend(const BackendConfig& config);
// The same on another machine's files, or with calls that fail.
Result<std::unique_ptr<Backend>> create_host_backend(const BackendConfig& config, const SystemCalls& system);

}  // namespace vmem
