// Makes the CUDA backend. Tests call this without loading a module.
#pragma once

#include <vmem/backend_config.hpp>

#include <memory>

#include "backends/cuda/options.hpp"

namespace vmem {

// kUnsupported, with the reason, where there is no driver to work with. Its devices must end before it.
Result<std::unique_ptr<Backend>> create_cuda_backend(const BackendConfig& config, const CudaOptions& options);

}  // namespace vmem
