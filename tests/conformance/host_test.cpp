// The suite on the host backend: a NUMA node, and simulated GPUs of several kinds.
#include "backends/host/host_backend.hpp"
#include "tests/conformance/conformance.hpp"
#include "tests/support/faulty_device.hpp"

namespace vmem {
namespace {

SimulatedDevice small_gpu() {
  SimulatedDevice gpu;
  gpu.total_bytes = 4_MiB;
  gpu.granularity = 64_KiB;
  return gpu;
}

// The devices are host:0 ..., then the simulated ones; `index` counts from the first simulated.
Result<Subject> make_subject(const std::vector<SimulatedDevice>& simulated, std::size_t index) {
  BackendConfig config;
  config.simulated = simulated;
  config.host_limit_bytes = 256_MiB;
  config.log = [](LogLevel, std::string_view) {};
  Subject subject;
  VMEM_ASSIGN_OR_RETURN(subject.backend, create_host_backend(config));
  VMEM_ASSIGN_OR_RETURN(subject.devices, subject.backend->discover());
  subject.index = subject.devices.size() - simulated.size() + index;
  return subject;
}

SubjectFactory gpus(const std::string& name, const SimulatedDevice& gpu) {
  // Two alike, so that there is a peer.
  return {name, [gpu] { return make_subject({gpu, gpu}, 0); }};
}

SubjectFactory without(const std::string& name, DeviceCap cap) {
  SimulatedDevice gpu = small_gpu();
  gpu.caps = gpu.caps.without(cap);
  return gpus(name, gpu);
}

SimulatedDevice with_wave(unsigned width) {
  SimulatedDevice gpu = small_gpu();
  gpu.wave_width = width;
  return gpu;
}

SimulatedDevice with_nothing() {
  SimulatedDevice gpu = small_gpu();
  gpu.caps = DeviceCaps();
  return gpu;
}

SimulatedDevice with_alias() {
  SimulatedDevice gpu = small_gpu();
  gpu.alias_offset = 0x1000;
  return gpu;
}

SimulatedDevice with_links() {
  SimulatedDevice gpu = small_gpu();
  gpu.enforce_links = true;
  return gpu;
}

Result<Subject> make_host() {
  VMEM_ASSIGN_OR_RETURN(Subject subject, make_subject({small_gpu()}, 0));
  subject.index = 0;
  return subject;
}

// The same suite through the test wrapper: with nothing injected it must change nothing, and its faults are the
// suite's.
Result<Subject> make_wrapped(const std::vector<SimulatedDevice>& simulated, bool host) {
  VMEM_ASSIGN_OR_RETURN(Subject subject, make_subject(simulated, 0));
  if (host) subject.index = 0;
  for (auto& device : subject.devices) device = make_faulty(std::move(device));
  return subject;
}

INSTANTIATE_TEST_SUITE_P(Host, DeviceConformance, ::testing::Values(SubjectFactory{"Node", make_host, false}),
                         conformance_name);

INSTANTIATE_TEST_SUITE_P(Simulated, DeviceConformance,
                         ::testing::Values(gpus("EverythingWave32", with_wave(32)),
                                           gpus("EverythingWave64", with_wave(64)), gpus("Nothing", with_nothing()),
                                           without("NoVirtualMemory", DeviceCap::kVirtualMemory),
                                           without("NoPeerCopy", DeviceCap::kPeerCopy),
                                           without("NoKernels", DeviceCap::kKernels),
                                           without("NoHostRegistration", DeviceCap::kHostRegistration),
                                           without("NoStreamSignals", DeviceCap::kStreamSignals),
                                           without("NoFaultInjection", DeviceCap::kFaultInjection),
                                           gpus("SecondAddress", with_alias()), gpus("EnforcedLinks", with_links())),
                         conformance_name);

INSTANTIATE_TEST_SUITE_P(
    Wrapped, DeviceConformance,
    ::testing::Values(SubjectFactory{"Node", [] { return make_wrapped({small_gpu()}, true); }, false},
                      SubjectFactory{"Everything",
                                     [] {
                                       return make_wrapped({small_gpu(), small_gpu()}, false);
                                     }},
                      SubjectFactory{"Nothing",
                                     [] {
                                       return make_wrapped({with_nothing(), with_nothing()}, false);
                                     }}),
    conformance_name);

}  // namespace
}  // namespace vmem
