// The module as the runtime loads it: one entry point, this build's id.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <vmem/version.h>
#include <vmem/backend_config.hpp>

#include <cstdlib>
#include <string>

namespace vmem {
namespace {

TEST(HostModuleTest, OpensAndMakesDevices) {
  const char* const folder = std::getenv("VMEM_BACKEND_DIR");
  ASSERT_NE(folder, nullptr) << "run this by ctest";
  void* const module = ::dlopen((std::string(folder) + "/libvmem_backend_host.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(module, nullptr) << ::dlerror();
  auto* const entry_point = reinterpret_cast<const BackendEntry* (*)()>(::dlsym(module, "vmem_backend_entry"));
  ASSERT_NE(entry_point, nullptr);
  const BackendEntry* const entry = entry_point();
  EXPECT_EQ(entry->contract_version, kBackendContractVersion);
  EXPECT_STREQ(entry->build_id, VMEM_BUILD_ID);
  BackendConfig config;
  config.simulated.resize(1);
  config.simulated[0].total_bytes = 16_MiB;
  {
    auto backend = entry->create(config);
    ASSERT_TRUE(backend) << backend.error().to_string();
    EXPECT_EQ((*backend)->name(), "host");
    EXPECT_FALSE((*backend)->driver_version().empty());
    auto devices = (*backend)->discover();
    ASSERT_TRUE(devices);
    ASSERT_GE(devices->size(), 2U);
    auto address = devices->back()->allocate(1);
    ASSERT_TRUE(address);
    EXPECT_TRUE(devices->back()->deallocate(*address));
  }
  config.simulated[0].total_bytes = 0;
  EXPECT_EQ(entry->create(config).error().code(), StatusCode::kConfigError);
  // Never closed, as the runtime does it.
}

}  // namespace
}  // namespace vmem
