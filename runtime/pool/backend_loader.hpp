// Finds the backends' shared objects, checks that they fit this library, and makes their backends.
#pragma once

#include <vmem/backend.hpp>
#include <vmem/backend_config.hpp>
#include <vmem/topology.hpp>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace vmem {

// The names of the backends that were built with this library; CMake generates the table.
std::span<const char* const> built_in_backends() noexcept;

// A shared object whose entry point fits this library.
struct BackendModule {
  std::string name;
  std::string path;
  const BackendEntry* entry = nullptr;  // valid for the life of the process
};

struct FoundBackends {
  std::vector<BackendModule> modules;  // built-in ones in the table's order, then others by name
  std::vector<AbsentBackend> absent;
};

// Loads libvmem_backend_<name>.so: each built-in one from the folder beside the library, or else from `backend_dir`;
// then whatever else `backend_dir` holds under such a name. A backend that can't be used is absent with its reason,
// never an error. Shared objects are never closed: events, and the driver's own threads, may outlive whoever loaded
// them.
//
// Thread contract: const; every member may be called from any thread.
class BackendLoader {
 public:
  // Either folder may be empty or missing.
  BackendLoader(std::string library_dir, std::string backend_dir);

  FoundBackends find(std::span<const char* const> built_in) const;

  // The module's backend, or why it is absent.
  static Result<std::unique_ptr<Backend>> create(const BackendModule& module, const BackendConfig& config);

  // Backend::discover; what a backend throws against its contract becomes an error here, too.
  static Result<std::vector<std::unique_ptr<Device>>> discover(Backend& backend);

  // Where backends lie beside the shared object (or program) that holds this code: "<its folder>/vmem"; empty where the
  // dynamic linker does not know.
  static std::string folder_beside_library();

 private:
  std::string library_dir_;
  std::string backend_dir_;
};

}  // namespace vmem
