#include "backends/cuda/nvrtc.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "runtime/support/format.hpp"

namespace vmem {
namespace {

constexpr int kSuccess = 0;

// By major version of CUDA; NVRTC 11 kept the soname of 11.2.
constexpr std::pair<int, const char*> kLibraries[] = {
    {13, "libnvrtc.so.13"}, {12, "libnvrtc.so.12"}, {11, "libnvrtc.so.11.2"}};

void* open_library(const char* name) {
  if (void* const handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)) return handle;
  // The toolkit's own folder is often not on the linker's list.
  return ::dlopen(format("/usr/local/cuda/lib64/{}", name).c_str(), RTLD_NOW | RTLD_LOCAL);
}

// NVRTC opens its built-in headers by name, which the loader does not find where it did not find NVRTC itself: opened
// here from the same folder, they are there already. Where that fails, compiling says what is missing.
void open_builtins(void* nvrtc) {
  void* const symbol = ::dlsym(nvrtc, "nvrtcVersion");
  int major = 0;
  int minor = 0;
  Dl_info found{};
  if (symbol == nullptr || reinterpret_cast<int (*)(int*, int*)>(symbol)(&major, &minor) != kSuccess) return;
  if (::dladdr(symbol, &found) == 0 || found.dli_fname == nullptr) return;
  const std::string path = found.dli_fname;
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return;
  const std::string name = format("{}/libnvrtc-builtins.so.{}.{}", path.substr(0, slash), major, minor);
  static_cast<void>(::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL));
}

// The driver's own generation, then older ones, then newer ones, whose code an older driver may refuse.
void* open_any(int driver_version) {
  const int driver_major = driver_version / 1000;
  for (const bool newer : {false, true}) {
    for (const auto& [major, name] : kLibraries) {
      if ((major > driver_major) != newer) continue;
      if (void* const handle = open_library(name)) return handle;
    }
  }
  return nullptr;
}

}  // namespace

using NvrtcProgram = struct NvrtcProgramObject*;

#define VMEM_NVRTC_ENTRIES(X)                                                                                 \
  X(nvrtcCreateProgram, NvrtcProgram*, const char*, const char*, int, const char* const*, const char* const*) \
  X(nvrtcDestroyProgram, NvrtcProgram*)                                                                       \
  X(nvrtcCompileProgram, NvrtcProgram, int, const char* const*)                                               \
  X(nvrtcGetCUBINSize, NvrtcProgram, std::size_t*)                                                            \
  X(nvrtcGetCUBIN, NvrtcProgram, char*)                                                                       \
  X(nvrtcGetPTXSize, NvrtcProgram, std::size_t*)                                                              \
  X(nvrtcGetPTX, NvrtcProgram, char*)                                                                         \
  X(nvrtcGetProgramLogSize, NvrtcProgram, std::size_t*)                                                       \
  X(nvrtcGetProgramLog, NvrtcProgram, char*)                                                                  \
  X(nvrtcGetNumSupportedArchs, int*)                                                                          \
  X(nvrtcGetSupportedArchs, int*)

struct Nvrtc::Table {
#define VMEM_NVRTC_MEMBER(symbol, ...) int (*symbol)(__VA_ARGS__) = nullptr;
  VMEM_NVRTC_ENTRIES(VMEM_NVRTC_MEMBER)
#undef VMEM_NVRTC_MEMBER

  // Answers with the first entry that is missing.
  const char* resolve(void* handle) {
    const char* missing = nullptr;
#define VMEM_NVRTC_TAKE(symbol, ...)                                     \
  symbol = reinterpret_cast<decltype(symbol)>(::dlsym(handle, #symbol)); \
  if (symbol == nullptr && missing == nullptr) missing = #symbol;
    VMEM_NVRTC_ENTRIES(VMEM_NVRTC_TAKE)
#undef VMEM_NVRTC_TAKE
    return missing;
  }
};

struct Nvrtc::Program {
  explicit Program(const Table& entries) : table(entries) {}
  ~Program() {
    if (native != nullptr) table.nvrtcDestroyProgram(&native);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  const Table& table;
  NvrtcProgram native = nullptr;
};

Nvrtc::Nvrtc(std::unique_ptr<Table> table) : table_(std::move(table)) {}
Nvrtc::~Nvrtc() = default;

Result<std::unique_ptr<Nvrtc>> Nvrtc::open(const std::string& library, int driver_version) {
  void* const handle = library.empty() ? open_any(driver_version) : ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return Status(StatusCode::kUnsupported, library.empty()
                                                ? std::string("no NVRTC is installed (libnvrtc.so.13, .12 or .11.2)")
                                                : format("the run-time compiler '{}' can't be opened", library));
  }
  open_builtins(handle);
  auto table = std::make_unique<Table>();
  if (const char* const missing = table->resolve(handle)) {
    return Status(StatusCode::kUnsupported, format("the run-time compiler found has no {}", missing));
  }
  return std::unique_ptr<Nvrtc>(new Nvrtc(std::move(table)));
}

Result<int> Nvrtc::choose_architecture(int wanted) const {
  int count = 0;
  if (table_->nvrtcGetNumSupportedArchs(&count) != kSuccess || count <= 0) return wanted;
  std::vector<int> known(static_cast<std::size_t>(count));
  if (table_->nvrtcGetSupportedArchs(known.data()) != kSuccess) return wanted;
  int best = 0;
  for (const int architecture : known) {
    if (architecture <= wanted) best = std::max(best, architecture);
  }
  if (best == 0) {
    return Status(StatusCode::kUnsupported, format("the run-time compiler found knows no sm_{}", wanted));
  }
  return best;
}

std::string Nvrtc::messages_of(const Program& program) const {
  std::size_t bytes = 0;
  if (table_->nvrtcGetProgramLogSize(program.native, &bytes) != kSuccess || bytes == 0) return "no messages";
  std::string messages(bytes, '\0');
  if (table_->nvrtcGetProgramLog(program.native, messages.data()) != kSuccess) return "no messages";
  while (!messages.empty() && (messages.back() == '\0' || messages.back() == '\n')) messages.pop_back();
  return messages;
}

Result<std::string> Nvrtc::compile(const char* source, int major, int minor) {
  const int wanted = major * 10 + minor;
  VMEM_ASSIGN_OR_RETURN(const int architecture, choose_architecture(wanted));
  const bool to_machine_code = architecture == wanted;
  MutexLock lock(mutex_);
  Program program(*table_);
  if (table_->nvrtcCreateProgram(&program.native, source, "vmem.cu", 0, nullptr, nullptr) != kSuccess) {
    return Status(StatusCode::kInternal, "the run-time compiler makes no program");
  }
  const std::string target = format("--gpu-architecture={}_{}", to_machine_code ? "sm" : "compute", architecture);
  const std::array<const char*, 2> arguments{target.c_str(), "--std=c++14"};
  if (table_->nvrtcCompileProgram(program.native, static_cast<int>(arguments.size()), arguments.data()) != kSuccess) {
    return Status(StatusCode::kInvalidValue, format("the kernel's source does not compile: {}", messages_of(program)));
  }
  std::size_t bytes = 0;
  const bool sized = (to_machine_code ? table_->nvrtcGetCUBINSize(program.native, &bytes)
                                      : table_->nvrtcGetPTXSize(program.native, &bytes)) == kSuccess;
  std::string image(bytes, '\0');
  if (!sized || bytes == 0 ||
      (to_machine_code ? table_->nvrtcGetCUBIN(program.native, image.data())
                       : table_->nvrtcGetPTX(program.native, image.data())) != kSuccess) {
    return Status(StatusCode::kInternal, "the run-time compiler gives no image");
  }
  return image;
}

}  // namespace vmem
