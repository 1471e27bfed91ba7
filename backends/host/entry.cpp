// The only symbol of libvmem_backend_host.so.
#include <vmem/version.h>

#include "backends/host/host_backend.hpp"

namespace {

vmem::Result<std::unique_ptr<vmem::Backend>> create(const vmem::BackendConfig& config) {
  return vmem::create_host_backend(config);
}

constexpr vmem::BackendEntry kEntry{vmem::kBackendContractVersion, VMEM_BUILD_ID, &create};

}  // namespace

extern "C" __attribute__((visibility("default"))) const vmem::BackendEntry* vmem_backend_entry() { return &kEntry; }
