// The suite on the driver's double: every version of it, each group of calls there and not there, with its faults.
#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "backends/cuda/cuda_backend.hpp"
#include "backends/host/host_backend.hpp"
#include "backends/kernels/kernels.hpp"
#include "tests/conformance/conformance.hpp"
#include "tests/doubles/driver/control.h"
#include "tests/support/faulty_device.hpp"

namespace vmem {
namespace {

// A double's control interface.
class Double {
 public:
  explicit Double(const std::string& library)
      : handle_(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)), library_(library) {}

  template <typename Function>
  Function* entry(const char* name) const {
    return handle_ != nullptr ? reinterpret_cast<Function*>(::dlsym(handle_, name)) : nullptr;
  }
  // As in a fresh process, with these settings, which processes that are started see as well.
  Status start(const std::map<std::string, std::string>& settings) {
    auto* const reset = entry<decltype(vmem_double_reset)>("vmem_double_reset");
    if (reset == nullptr) return Status(StatusCode::kNotFound, library_ + " is no double");
    for (const auto& [key, value] : settings) ::setenv(("VMEM_DOUBLE_" + key).c_str(), value.c_str(), 1);
    reset();
    for (const auto& [key, value] : settings) ::unsetenv(("VMEM_DOUBLE_" + key).c_str());
    settings_ = settings;
    for (const KernelImage& kernel : builtin_kernels()) add(kernel);
    return {};
  }
  void add(const KernelImage& kernel) const {
    entry<decltype(vmem_double_add_kernel)>("vmem_double_add_kernel")(kernel.name, kernel.source,
                                                                      reinterpret_cast<void (*)()>(kernel.reference));
  }

 private:
  void* const handle_;
  const std::string library_;
  std::map<std::string, std::string> settings_;
};

struct Kind {
  std::string library = VMEM_CUDA_DOUBLE;
  std::map<std::string, std::string> settings;
  DeviceCaps allowed{0x3FU};
  bool compiler = true;
  bool probed = false;  // by the real program, which takes most of a case's time
  bool host_memory = false;
  bool wrapped = false;
};

BackendConfig quiet() {
  BackendConfig config;
  config.host_limit_bytes = 64_MiB;
  config.log = [](LogLevel, std::string_view) {};
  return config;
}

CudaOptions options_of(const Kind& kind) {
  CudaOptions options;
  options.driver_library = kind.library;
  options.probe_program = kind.probed ? VMEM_CUDA_PROBE : VMEM_CUDA_PROBE_THAT_AGREES;
  options.allowed = kind.allowed;
  options.use_embedded_kernels = false;
  // The double runs a kernel's CPU form and takes its source for the image.
  options.compiler = [kind](const KernelImage& kernel, int, int) -> Result<std::string> {
    if (!kind.compiler) return Status(StatusCode::kUnsupported, "there is no compiler");
    Double(kind.library).add(kernel);
    return std::string(kernel.source);
  };
  return options;
}

Result<Subject> make_subject(const Kind& kind) {
  VMEM_RETURN_IF_ERROR(Double(kind.library).start(kind.settings));
  Subject subject;
  VMEM_ASSIGN_OR_RETURN(subject.backend, create_cuda_backend(quiet(), options_of(kind)));
  for (const auto& [key, value] : kind.settings) ::setenv(("VMEM_DOUBLE_" + key).c_str(), value.c_str(), 1);
  auto devices = subject.backend->discover();
  for (const auto& [key, value] : kind.settings) ::unsetenv(("VMEM_DOUBLE_" + key).c_str());
  VMEM_RETURN_IF_ERROR(devices.error());
  subject.devices = std::move(devices).value();
  if (kind.host_memory) {
    VMEM_ASSIGN_OR_RETURN(const auto host, create_host_backend(quiet()));
    VMEM_ASSIGN_OR_RETURN(auto nodes, host->discover());
    subject.devices.erase(subject.devices.begin() + 1, subject.devices.end());
    subject.devices.push_back(std::move(nodes.front()));
  }
  if (kind.wrapped) {
    for (auto& device : subject.devices) device = make_faulty(std::move(device));
  }
  return subject;
}

SubjectFactory factory(const std::string& name, Kind kind) {
  kind.settings.try_emplace("CAPACITY", "64MiB");
  return {name, [kind] { return make_subject(kind); }};
}

Kind version(const std::string& folder) {
  Kind kind;
  kind.library = std::string(VMEM_CUDA_DOUBLE_FOLDER) + "/" + folder + "/libcuda.so.1";
  return kind;
}

Kind off(const std::string& group) {
  Kind kind;
  kind.settings["OFF"] = group;
  return kind;
}

Kind with(const std::string& key, const std::string& value) {
  Kind kind;
  kind.settings[key] = value;
  return kind;
}

Kind kind_with_probed_peers() {
  Kind kind;
  kind.probed = true;
  return kind;
}

Kind kind_without_kernels() {
  Kind kind;
  kind.compiler = false;
  return kind;
}

Kind kind_with_host_memory(Kind kind = {}) {
  kind.host_memory = true;
  return kind;
}

Kind kind_with_nothing() {
  Kind kind = off("vmm,stream_values,host_registration");
  kind.compiler = false;
  kind.settings["PEER"] = "absent";
  kind.allowed = DeviceCaps();
  return kind;
}

Kind wrapped(Kind kind = {}) {
  kind.wrapped = true;
  return kind;
}

INSTANTIATE_TEST_SUITE_P(
    CudaDouble, DeviceConformance,
    ::testing::Values(factory("Everything", kind_with_probed_peers()), factory("Cuda117", version("11070")),
                      factory("Cuda120", version("12000")), factory("Cuda122", version("12020")),
                      factory("Cuda124", version("12040")), factory("Cuda128", version("12080")),
                      factory("SmallGranularity", with("GRANULARITY", "64KiB")),
                      factory("RangesUnchecked", with("CHECKS_RANGES", "0")), factory("NoVirtualMemory", off("vmm")),
                      factory("NoPeerCopy", with("PEER", "absent")), factory("NoKernels", kind_without_kernels()),
                      factory("NoHostRegistration", off("host_registration")),
                      factory("NoStreamSignals", off("stream_values")), factory("Nothing", kind_with_nothing()),
                      factory("HostMemory", kind_with_host_memory()),
                      factory("SecondAddress", kind_with_host_memory(off("pointers_differ"))),
                      factory("Wrapped", wrapped()), factory("WrappedNothing", wrapped(kind_with_nothing()))),
    conformance_name);

}  // namespace
}  // namespace vmem
