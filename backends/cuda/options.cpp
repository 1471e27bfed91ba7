#include "backends/cuda/options.hpp"

#include <cstdlib>

#include "runtime/support/environment.hpp"

namespace vmem {
namespace {

// The folder in which the runtime keeps what it has measured.
std::optional<std::string> cache_directory() {
  if (const auto cache = read_environment("XDG_CACHE_HOME"); cache && cache->front() == '/') return *cache + "/vmem";
  if (const auto home = read_environment("HOME"); home && home->front() == '/') return *home + "/.cache/vmem";
  return std::nullopt;
}

}  // namespace

Result<CudaOptions> read_cuda_options() {
  CudaOptions options;
  if (const auto library = read_environment("VMEM_CUDA_LIBRARY")) options.driver_library = *library;
  if (const auto library = read_environment("VMEM_NVRTC_LIBRARY")) options.nvrtc_library = *library;
  if (const auto program = read_environment("VMEM_PEER_PROBE")) options.probe_program = *program;
  VMEM_ASSIGN_OR_RETURN(const auto timeout, read_environment_count("VMEM_PEER_PROBE_TIMEOUT_MS", 1, 600000));
  if (timeout) options.probe_timeout = std::chrono::milliseconds(*timeout);
  options.cache_directory = cache_directory();
  return options;
}

}  // namespace vmem
