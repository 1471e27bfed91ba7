// A backend's shared object that is right or wrong in one way; CMakeLists.txt builds it several times, each with
// another MODULE_NAME and fault.
#include <vmem/version.h>
#include <vmem/backend_config.hpp>

#include <stdexcept>

#include "tests/unit/pool/plain_device.hpp"

#ifndef MODULE_CONTRACT
#define MODULE_CONTRACT vmem::kBackendContractVersion
#endif
#ifndef MODULE_BUILD_ID
#define MODULE_BUILD_ID VMEM_BUILD_ID
#endif
#ifndef MODULE_CALLS_ITSELF
#define MODULE_CALLS_ITSELF MODULE_NAME
#endif

namespace {

class ModuleBackend final : public vmem::Backend {
 public:
  std::string_view name() const noexcept override { return MODULE_CALLS_ITSELF; }
  std::string driver_version() const override { return "1.0"; }
  vmem::Result<std::vector<std::unique_ptr<vmem::Device>>> discover() override {
#if defined(MODULE_DISCOVER_FAILS)
    return vmem::Status(vmem::StatusCode::kDeviceFailed, "the driver fell over");
#elif defined(MODULE_DISCOVER_THROWS)
    throw std::runtime_error("no devices today");
#else
    std::vector<std::unique_ptr<vmem::Device>> devices;
    devices.push_back(std::make_unique<vmem::PlainDevice>(vmem::plain_device_info(MODULE_NAME ":0", MODULE_NAME)));
    // One that the runtime has to leave out: the same name again.
    devices.push_back(std::make_unique<vmem::PlainDevice>(vmem::plain_device_info(MODULE_NAME ":0", MODULE_NAME)));
    return devices;
#endif
  }
};

vmem::Result<std::unique_ptr<vmem::Backend>> create(const vmem::BackendConfig& config) {
  config.log(vmem::LogLevel::kWarn, "a line from backend " MODULE_NAME);
#if defined(MODULE_CREATE_FAILS)
  return vmem::Status(vmem::StatusCode::kUnsupported, "driver 1.0 is too old, 2.0 is needed");
#elif defined(MODULE_CREATE_THROWS)
  throw std::runtime_error("out of luck");
#elif defined(MODULE_CREATE_NULL)
  return std::unique_ptr<vmem::Backend>();
#elif defined(MODULE_CONFIG_ERROR)
  return vmem::Status(vmem::StatusCode::kConfigError, "VMEM_SOMETHING='x': expected y");
#else
  return std::unique_ptr<vmem::Backend>(std::make_unique<ModuleBackend>());
#endif
}

[[maybe_unused]] constexpr vmem::BackendEntry kEntry{MODULE_CONTRACT, MODULE_BUILD_ID, &create};

}  // namespace

#ifdef MODULE_NO_ENTRY
extern "C" __attribute__((visibility("default"))) const vmem::BackendEntry* another_entry() { return &kEntry; }
#else
extern "C" __attribute__((visibility("default"))) const vmem::BackendEntry* vmem_backend_entry() {
#ifdef MODULE_NULL_ENTRY
  return nullptr;
#else
  return &kEntry;
#endif
}
#endif
