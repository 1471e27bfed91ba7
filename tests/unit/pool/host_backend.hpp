// The host backend as the runtime gets it: from its shared object.
#pragma once

#include <vmem/backend_config.hpp>

#include <memory>
#include <utility>

#include "runtime/pool/backend_loader.hpp"

namespace vmem {

// REQUIRES: the build's own module is in VMEM_TEST_BACKENDS; aborts otherwise.
inline std::unique_ptr<Backend> load_host_backend(BackendConfig config) {
  config.log = [](LogLevel, std::string_view) {};
  static constexpr const char* kNames[] = {"host"};
  const FoundBackends found = BackendLoader(VMEM_TEST_BACKENDS, "").find(kNames);
  return BackendLoader::create(found.modules.at(0), config).value();
}

}  // namespace vmem
