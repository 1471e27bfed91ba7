// What the environment may change about the CUDA backend. Tests fill it in themselves.
#pragma once

#include <vmem/device_info.hpp>
#include <vmem/kernel.hpp>
#include <vmem/status.hpp>

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace vmem {

// Makes an image that the driver loads out of a kernel's source, for a device of compute capability major.minor.
using CudaCompiler = std::function<Result<std::string>(const KernelImage& kernel, int major, int minor)>;

struct CudaOptions {
  std::string driver_library = "libcuda.so.1";  // VMEM_CUDA_LIBRARY
  // VMEM_NVRTC_LIBRARY; empty: libnvrtc.so of CUDA 13, 12 or 11, whichever is found first.
  std::string nvrtc_library;
  // VMEM_PEER_PROBE: the program that tries peer access; empty: as it is installed or built beside this backend.
  std::string probe_program;
  // VMEM_PEER_PROBE_TIMEOUT_MS: what trying all pairs may take together.
  std::chrono::milliseconds probe_timeout{10000};
  // Where the answers are kept; none: they are not.
  std::optional<std::string> cache_directory;
  // Kernels compiled when vmem was built, where there are any; else the compiler found at run time makes them.
  bool use_embedded_kernels = true;
  // Empty: NVRTC, where it is found.
  CudaCompiler compiler;
  // Groups that devices have where the driver has them.
  DeviceCaps allowed{0x3FU};
};

// kConfigError for a value that can't be.
Result<CudaOptions> read_cuda_options();

}  // namespace vmem
