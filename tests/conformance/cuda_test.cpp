// The suite on NVIDIA GPUs, where there are any: elsewhere nothing is registered.
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "backends/cuda/cuda_backend.hpp"
#include "backends/host/host_backend.hpp"
#include "tests/conformance/conformance.hpp"
#include "tests/support/faulty_device.hpp"

namespace vmem {
namespace {

enum class With { kItsKind, kHostMemory };

Result<CudaOptions> real_options() {
  VMEM_ASSIGN_OR_RETURN(CudaOptions options, read_cuda_options());
  if (!options.probe_program.empty()) return options;
  // The build folder may have been copied to the machine that has the GPUs.
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto copied = self.parent_path() / "../../libexec/vmem/vmem-probe-peers";
  options.probe_program = std::filesystem::exists(copied, error) ? copied.string() : VMEM_CUDA_PROBE;
  return options;
}

BackendConfig quiet() {
  BackendConfig config;
  config.host_limit_bytes = 256_MiB;
  config.log = [](LogLevel, std::string_view) {};
  return config;
}

// A context that lives as long as the program: making one for each case would take most of the time.
const std::vector<std::unique_ptr<Device>>& kept_devices() {
  struct Kept {
    std::unique_ptr<Backend> backend;
    std::vector<std::unique_ptr<Device>> devices;
  };
  static const Kept* const kept = [] {
    auto* const made = new Kept;  // not destroyed: the driver may be gone by then
    const auto options = real_options();
    if (!options) return made;
    auto backend = create_cuda_backend(quiet(), *options);
    if (!backend) return made;
    made->backend = std::move(backend).value();
    auto devices = made->backend->discover();
    if (devices) made->devices = std::move(devices).value();
    return made;
  }();
  return kept->devices;
}

Result<Subject> make_subject(DeviceCaps allowed, bool compiled_at_start, With with) {
  VMEM_ASSIGN_OR_RETURN(CudaOptions options, real_options());
  options.allowed = allowed;
  options.use_embedded_kernels = !compiled_at_start;
  Subject subject;
  VMEM_ASSIGN_OR_RETURN(subject.backend, create_cuda_backend(quiet(), options));
  VMEM_ASSIGN_OR_RETURN(subject.devices, subject.backend->discover());
  if (with == With::kHostMemory) {
    VMEM_ASSIGN_OR_RETURN(const auto host, create_host_backend(quiet()));
    VMEM_ASSIGN_OR_RETURN(auto nodes, host->discover());
    subject.devices.erase(subject.devices.begin() + 1, subject.devices.end());
    subject.devices.push_back(std::move(nodes.front()));
  }
  return subject;
}

constexpr DeviceCaps kAll{0x3FU};

SubjectFactory factory(const std::string& name, DeviceCaps allowed, bool compiled_at_start = false,
                       With with = With::kItsKind) {
  return {name, [=] { return make_subject(allowed, compiled_at_start, with); }, false};
}

std::vector<SubjectFactory> factories() {
  if (kept_devices().empty()) return {};
  return {factory("Everything", kAll),
          factory("HostMemory", kAll, false, With::kHostMemory),
          factory("KernelsCompiledAtStart", kAll, true),
          factory("NoVirtualMemory", kAll.without(DeviceCap::kVirtualMemory)),
          factory("NoPeerCopy", kAll.without(DeviceCap::kPeerCopy)),
          factory("NoKernels", kAll.without(DeviceCap::kKernels)),
          factory("NoHostRegistration", kAll.without(DeviceCap::kHostRegistration)),
          factory("NoStreamSignals", kAll.without(DeviceCap::kStreamSignals)),
          factory("Nothing", DeviceCaps()),
          {"Wrapped",
           []() -> Result<Subject> {
             VMEM_ASSIGN_OR_RETURN(Subject subject, make_subject(kAll, false, With::kItsKind));
             for (auto& device : subject.devices) device = make_faulty(std::move(device));
             return subject;
           },
           false}};
}

INSTANTIATE_TEST_SUITE_P(Cuda, DeviceConformance, ::testing::ValuesIn(factories()), conformance_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceConformance);

}  // namespace
}  // namespace vmem
