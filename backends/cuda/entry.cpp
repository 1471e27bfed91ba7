// The only symbol of libvmem_backend_cuda.so.
#include <vmem/version.h>

#include "backends/cuda/cuda_backend.hpp"

namespace {

vmem::Result<std::unique_ptr<vmem::Backend>> create(const vmem::BackendConfig& config) {
  VMEM_ASSIGN_OR_RETURN(const vmem::CudaOptions options, vmem::read_cuda_options());
  return vmem::create_cuda_backend(config, options);
}

constexpr vmem::BackendEntry kEntry{vmem::kBackendContractVersion, VMEM_BUILD_ID, &create};

}  // namespace

extern "C" __attribute__((visibility("default"))) const vmem::BackendEntry* vmem_backend_entry() { return &kEntry; }
