#include "runtime/pool/backend_loader.hpp"

#include <dlfcn.h>
#include <vmem/version.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "runtime/support/format.hpp"

namespace vmem {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "libvmem_backend_";
constexpr std::string_view kSuffix = ".so";
constexpr const char* kEntryPoint = "vmem_backend_entry";

std::string file_name(std::string_view backend) { return format("{}{}{}", kPrefix, backend, kSuffix); }

Status absent(std::string reason) { return Status(StatusCode::kUnsupported, std::move(reason)); }

std::string linker_error() {
  const char* const text = ::dlerror();
  return text != nullptr ? text : "unknown error of the dynamic linker";
}

Status check_entry(const BackendEntry* entry) {
  if (entry == nullptr) return absent(format("{} answered null", kEntryPoint));
  if (entry->contract_version != kBackendContractVersion) {
    return absent(format("built for version {} of the backend contract, this library has version {}; build it again",
                         entry->contract_version, kBackendContractVersion));
  }
  const std::string_view build_id = entry->build_id != nullptr ? entry->build_id : "";
  if (build_id != VMEM_BUILD_ID) {
    return absent(format("built as '{}', this library as '{}'; build both together", build_id, VMEM_BUILD_ID));
  }
  if (entry->create == nullptr) return absent(format("{} has no function that makes the backend", kEntryPoint));
  return Status();
}

Result<BackendModule> load_module(const fs::path& path, const std::string& name) {
  // RTLD_LOCAL: two backends may bring different versions of one library. The handle is dropped on purpose (never
  // closed).
  void* const module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) return absent(linker_error());
  void* const symbol = ::dlsym(module, kEntryPoint);
  if (symbol == nullptr) return absent(format("{}: has no {}", path.string(), kEntryPoint));
  const BackendEntry* const entry = reinterpret_cast<decltype(&vmem_backend_entry)>(symbol)();
  const Status fits = check_entry(entry);
  if (!fits) return absent(format("{}: {}", path.string(), fits.message()));
  return BackendModule{name, path.string(), entry};
}

// A third-party backend may break the contract's "never throws": that must not reach the application.
template <typename Call>
auto as_absence(Call call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::exception& error) {
    return absent(format("threw against the contract: {}", error.what()));
  } catch (...) {
    return absent("threw against the contract");
  }
}

// The names behind every libvmem_backend_*.so of a folder, sorted.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string file = it->path().filename().string();
    if (file.size() <= kPrefix.size() + kSuffix.size()) continue;
    if (!file.starts_with(kPrefix) || !file.ends_with(kSuffix)) continue;
    names.push_back(file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

BackendLoader::BackendLoader(std::string library_dir, std::string backend_dir)
    : library_dir_(std::move(library_dir)), backend_dir_(std::move(backend_dir)) {}

FoundBackends BackendLoader::find(std::span<const char* const> built_in) const {
  FoundBackends found;
  const auto try_folders = [&](const std::string& name, std::initializer_list<std::string_view> folders) {
    std::string reasons;
    std::error_code ignored;
    for (const std::string_view folder : folders) {
      if (folder.empty()) continue;
      const fs::path path = fs::path(folder) / file_name(name);
      if (!fs::exists(path, ignored)) continue;
      auto module = load_module(path, name);
      if (module) {
        found.modules.push_back(std::move(*module));
        return;
      }
      if (!reasons.empty()) reasons += "; ";
      reasons += module.error().message();
    }
    if (reasons.empty()) reasons = format("no {} in '{}'", file_name(name), join(folders, "', '"));
    found.absent.push_back({name, std::move(reasons)});
  };

  for (const char* const name : built_in) try_folders(name, {library_dir_, backend_dir_});
  if (backend_dir_.empty()) return found;
  for (const std::string& name : names_in(backend_dir_)) {
    const bool known = std::any_of(built_in.begin(), built_in.end(), [&](const char* other) { return name == other; });
    if (!known) try_folders(name, {backend_dir_});
  }
  return found;
}

Result<std::unique_ptr<Backend>> BackendLoader::create(const BackendModule& module, const BackendConfig& config) {
  return as_absence([&]() -> Result<std::unique_ptr<Backend>> {
    auto backend = module.entry->create(config);
    if (!backend) return backend;
    if (*backend == nullptr) return absent("made no backend and gave no reason");
    if ((*backend)->name() != module.name) {
      return absent(format("calls itself '{}', its file {}", (*backend)->name(), module.path));
    }
    return backend;
  });
}

Result<std::vector<std::unique_ptr<Device>>> BackendLoader::discover(Backend& backend) {
  return as_absence([&] { return backend.discover(); });
}

std::string BackendLoader::folder_beside_library() {
  // The address of a function of this very object: of libvmem.so, or of a program that holds the runtime statically.
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&BackendLoader::folder_beside_library), &info) == 0) return {};
  if (info.dli_fname == nullptr) return {};
  std::error_code error;
  // Links are followed: a link to the library in another folder has no backends beside it.
  const fs::path library = fs::canonical(info.dli_fname, error);
  return error ? std::string() : (library.parent_path() / "vmem").string();
}

}  // namespace vmem
