#include "backends/host/host_backend.hpp"

#include <sys/mman.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "backends/host/machine_memory.hpp"
#include "backends/host/memory_device.hpp"
#include "runtime/support/bytes.hpp"

namespace vmem {

SystemCalls::SystemCalls() : madvise(::madvise), mlock(::mlock), munlock(::munlock) {}

namespace {

constexpr std::size_t kHostGranularity = 64_KiB;

Status config_error(const std::string& device, const std::string& message) {
  return Status(StatusCode::kConfigError, "simulated device '" + device + "': " + message);
}

Status check(const SimulatedDevice& device, const std::string& name) {
  if (device.total_bytes == 0) return config_error(name, "its memory must be more than 0 bytes");
  if (!is_power_of_two(device.granularity) || device.granularity < kPageBytes) {
    return config_error(name, "its granularity must be a power of two of at least 4 KiB");
  }
  if (device.total_bytes < device.granularity) return config_error(name, "its memory is less than its granularity");
  if (device.caps.has(DeviceCap::kKernels) && device.wave_width != 32 && device.wave_width != 64) {
    return config_error(name, "its wave width must be 32 or 64");
  }
  for (const double rate : {device.bandwidth_in, device.bandwidth_out, device.bandwidth_peer}) {
    if (device.enforce_links && !(std::isfinite(rate) && rate > 0)) {
      return config_error(name, "its bandwidths must be finite and more than 0");
    }
  }
  if (device.latency.count() < 0) return config_error(name, "its latency must not be negative");
  return {};
}

DeviceSpec simulated_spec(const SimulatedDevice& device, const std::string& name) {
  DeviceSpec spec;
  spec.info.name = name;
  spec.info.backend = "host";
  spec.info.uuid = device.uuid.empty() ? "SIM-" + name : device.uuid;
  spec.info.model = device.model;
  spec.info.vendor = device.vendor;
  // Only peers can follow each other's pointers.
  spec.info.address_space = "sim." + (device.caps.has(DeviceCap::kPeerCopy) ? device.vendor : name);
  spec.info.pci = device.pci;
  spec.info.numa_node = device.numa_node;
  spec.info.tier = Tier::kDevice;
  spec.info.total_bytes = device.total_bytes;
  spec.info.granularity = device.granularity;
  spec.info.wave_width = device.caps.has(DeviceCap::kKernels) ? device.wave_width : 0;
  spec.info.simulated = true;
  spec.info.caps = device.caps;
  if (device.enforce_links) {
    spec.links = LinkSpec{device.bandwidth_in, device.bandwidth_out, device.bandwidth_peer, device.latency};
  }
  spec.alias_offset = device.alias_offset;
  spec.faults = device.faults;
  return spec;
}

DeviceSpec node_spec(const MemoryNode& node, const std::string& name, std::uint64_t limit_bytes, bool one_of_several) {
  const std::uint64_t half = node.available_bytes / 2;
  const std::uint64_t capacity = limit_bytes == 0 ? half : std::min(half, limit_bytes);
  const std::string number = node.id ? std::to_string(*node.id) : "unknown";
  DeviceSpec spec;
  spec.info.name = name;
  spec.info.backend = "host";
  spec.info.uuid = "NUMA-" + number;
  spec.info.model = "NUMA node " + number + (node.has_cpus ? "" : " (memory without CPUs)");
  spec.info.vendor = "host";
  spec.info.address_space = "host";
  spec.info.numa_node = node.id;
  spec.info.tier = Tier::kHost;
  spec.info.total_bytes = align_down(capacity, kHostGranularity);
  spec.info.granularity = kHostGranularity;
  spec.info.wave_width = 32;
  spec.info.caps =
      DeviceCaps().with(DeviceCap::kVirtualMemory).with(DeviceCap::kHostRegistration).with(DeviceCap::kKernels);
  if (one_of_several) spec.bind_to = node.id;
  return spec;
}

class HostBackend final : public Backend {
 public:
  HostBackend(const BackendConfig& config, const SystemCalls& system)
      : config_(config), machine_(std::make_shared<HostMachine>(system, config.log)) {}

  std::string_view name() const noexcept override { return "host"; }

  // Links of this machine's memory change with its kernel at most.
  std::string driver_version() const override {
    utsname system{};
    return ::uname(&system) == 0 ? std::string("Linux ") + system.release : "Linux";
  }

  Result<std::vector<std::unique_ptr<Device>>> discover() override {
    if (std::exchange(discovered_, true)) {
      return Status(StatusCode::kInvalidValue, "the host backend's devices were handed out already");
    }
    std::vector<DeviceSpec> specs;
    const auto nodes = discover_numa_nodes(machine_->system.root);
    for (const MemoryNode& node : nodes) {
      specs.push_back(
          node_spec(node, "host:" + std::to_string(specs.size()), config_.host_limit_bytes, nodes.size() > 1));
    }
    for (std::size_t i = 0; i < config_.simulated.size(); ++i) {
      specs.push_back(simulated_spec(config_.simulated[i], simulated_name(config_, i)));
    }
    std::vector<std::unique_ptr<Device>> devices;
    for (DeviceSpec& spec : specs) {
      VMEM_ASSIGN_OR_RETURN(auto device, MemoryDevice::create(machine_, std::move(spec)));
      devices.push_back(std::move(device));
    }
    return devices;
  }

  static std::string simulated_name(const BackendConfig& config, std::size_t index) {
    const std::string& name = config.simulated[index].name;
    return name.empty() ? "sim:" + std::to_string(index) : name;
  }

 private:
  const BackendConfig config_;
  const std::shared_ptr<HostMachine> machine_;  // shared with the devices, which may outlive this
  bool discovered_ = false;
};

}  // namespace

Result<std::unique_ptr<Backend>> create_host_backend(const BackendConfig& config, const SystemCalls& system) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < config.simulated.size(); ++i) {
    const std::string name = HostBackend::simulated_name(config, i);
    VMEM_RETURN_IF_ERROR(check(config.simulated[i], name));
    if (!names.insert(name).second || name.rfind("host:", 0) == 0) {
      return config_error(name, "another device has that name");
    }
  }
  return std::unique_ptr<Backend>(std::make_unique<HostBackend>(config, system));
}

Result<std::unique_ptr<Backend>> create_host_backend(const BackendConfig& config) {
  return create_host_backend(config, SystemCalls());
}

}  // namespace vmem
