#include "backends/cuda/cuda_device.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <string>
#include <utility>

#include "backends/cuda/uuid.hpp"
#include "runtime/support/bytes.hpp"
#include "runtime/support/format.hpp"

namespace vmem {
namespace {

// Where the driver does not say: what it maps at once.
constexpr std::size_t kUsualGranularity = 2_MiB;
constexpr int kVersionWithNumaId = 12020;
// What the end of a device waits for its streams.
constexpr std::chrono::seconds kPatienceAtEnd{10};

// MemAvailable of the system; 0 where it does not say.
std::uint64_t available_host_memory() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::uint64_t kibibytes = 0;
  for (std::string rest; file >> name >> kibibytes; std::getline(file, rest)) {
    if (name == "MemAvailable:") return kibibytes * 1_KiB;
  }
  return 0;
}

// One question after another; the first error is kept.
class Inquiry {
 public:
  Inquiry(CudaContext& context, CuDevice device) : context_(context), device_(device) {}

  int attribute(CuDeviceAttribute which) {
    int value = 0;
    note(context_.driver().cuDeviceGetAttribute(&value, which, device_), "cuDeviceGetAttribute");
    return value;
  }
  // 0 where the driver does not know the attribute.
  int attribute_if_known(CuDeviceAttribute which) const {
    int value = 0;
    return context_.driver().cuDeviceGetAttribute(&value, which, device_) == kCuSuccess ? value : 0;
  }
  void note(CuResult result, const char* call) {
    const Status status = context_.check(result, call);
    if (status_) status_ = status;
  }
  const Status& status() const { return status_; }

 private:
  CudaContext& context_;
  const CuDevice device_;
  Status status_;
};

DeviceCaps caps_of(const CudaMachine& machine, Inquiry& inquiry, bool kernels) {
  const CudaDriver& driver = *machine.driver;
  DeviceCaps caps = DeviceCaps().with(DeviceCap::kPeerCopy);
  if (kernels) caps = caps.with(DeviceCap::kKernels);
  if (driver.has_virtual_memory() && inquiry.attribute_if_known(kCuAttributeVirtualMemoryManagementSupported) != 0) {
    caps = caps.with(DeviceCap::kVirtualMemory);
  }
  if (driver.has_stream_signals() && inquiry.attribute_if_known(kCuAttributeCanUse64BitStreamMemOps) != 0) {
    caps = caps.with(DeviceCap::kStreamSignals);
  }
  if (inquiry.attribute_if_known(kCuAttributeHostRegisterSupported) != 0) {
    caps = caps.with(DeviceCap::kHostRegistration);
  }
  return DeviceCaps(caps.bits() & machine.options.allowed.bits());
}

std::size_t granularity_of(CudaContext& context, Inquiry& inquiry) {
  CuMemAllocationProp properties{};
  properties.type = kCuAllocationPinned;
  properties.location = {kCuLocationDevice, context.device()};
  std::size_t granularity = 0;
  inquiry.note(context.driver().cuMemGetAllocationGranularity(&granularity, &properties, kCuGranularityMinimum),
               "cuMemGetAllocationGranularity");
  return is_power_of_two(granularity) ? std::max<std::size_t>(granularity, kPageBytes) : kUsualGranularity;
}

Result<DeviceInfo> describe(CudaContext& context, bool kernels) {
  const CudaDriver& driver = context.driver();
  Inquiry inquiry(context, context.device());
  DeviceInfo info;
  info.name = context.name();
  info.backend = "cuda";
  info.vendor = "nvidia";
  // Unified addressing: a pointer is the same on all of them, and in host memory that is registered.
  info.address_space = "cuda";
  char model[256] = "";
  inquiry.note(driver.cuDeviceGetName(model, sizeof model - 1, context.device()), "cuDeviceGetName");
  info.model = model;
  CuUuid uuid{};
  inquiry.note(driver.cuDeviceGetUuid_v2(&uuid, context.device()), "cuDeviceGetUuid");
  // A MIG instance has a UUID of its own; the driver API does not tell its card's.
  const bool mig = info.model.find("MIG") != std::string::npos;
  info.uuid = (mig ? "MIG-" : "GPU-") + uuid_text(uuid);
  if (mig) info.partition = info.uuid;
  PciAddress pci;
  pci.domain = static_cast<std::uint32_t>(inquiry.attribute(kCuAttributePciDomainId));
  pci.bus = static_cast<std::uint8_t>(inquiry.attribute(kCuAttributePciBusId));
  pci.device = static_cast<std::uint8_t>(inquiry.attribute(kCuAttributePciDeviceId));
  info.pci = pci;
  std::size_t free = 0;
  std::size_t total = 0;
  inquiry.note(driver.cuMemGetInfo_v2(&free, &total), "cuMemGetInfo");
  info.total_bytes = total;
  // A driver limits how long a kernel may run where it also draws a screen.
  info.drives_display = inquiry.attribute_if_known(kCuAttributeKernelExecTimeout) != 0;
  if (driver.version() >= kVersionWithNumaId) {
    const int node = inquiry.attribute_if_known(kCuAttributeHostNumaId);
    if (node >= 0) info.numa_node = static_cast<unsigned>(node);
  }
  info.caps = caps_of(context.machine(), inquiry, kernels);
  info.granularity = info.caps.has(DeviceCap::kVirtualMemory) ? granularity_of(context, inquiry) : kUsualGranularity;
  if (info.caps.has(DeviceCap::kKernels)) {
    info.wave_width = static_cast<unsigned>(inquiry.attribute(kCuAttributeWarpSize));
  }
  VMEM_RETURN_IF_ERROR(inquiry.status());
  return info;
}

}  // namespace

Result<std::unique_ptr<CudaDevice>> CudaDevice::create(std::shared_ptr<CudaMachine> machine,
                                                       std::shared_ptr<KernelCompiler> compiler, int ordinal) {
  const std::string name = format("cuda:{}", ordinal);
  const CudaDriver& driver = *machine->driver;
  CuDevice device = 0;
  if (Status status = driver.status(driver.cuDeviceGet(&device, ordinal), "cuDeviceGet"); !status) {
    return status.with_device(name);
  }
  VMEM_ASSIGN_OR_RETURN(std::shared_ptr<CudaContext> context, CudaContext::create(machine, device, name));
  DriverCall call(*context);
  VMEM_RETURN_IF_ERROR(call.status());

  std::unique_ptr<KernelSet> kernels;
  if (machine->options.allowed.has(DeviceCap::kKernels)) {
    Inquiry inquiry(*context, device);
    const int major = inquiry.attribute(kCuAttributeComputeCapabilityMajor);
    const int minor = inquiry.attribute(kCuAttributeComputeCapabilityMinor);
    VMEM_RETURN_IF_ERROR(inquiry.status());
    kernels = std::make_unique<KernelSet>(*context, *compiler, major, minor);
    if (const Status loaded = kernels->load_builtin(); !loaded) {
      VMEM_RETURN_IF_ERROR(context->failure());
      machine->log(LogLevel::kWarn, format("{}; scattered pages move by copies instead", loaded.to_string()));
      kernels.reset();
    } else {
      machine->log(LogLevel::kInfo, format("device '{}': kernels {}", name, kernels->origin()));
    }
  }
  VMEM_ASSIGN_OR_RETURN(DeviceInfo info, describe(*context, kernels != nullptr));
  const bool integrated = Inquiry(*context, device).attribute_if_known(kCuAttributeIntegrated) != 0;
  std::unique_ptr<CudaDevice> made(
      new CudaDevice(std::move(context), std::move(compiler), std::move(info), std::move(kernels), integrated));
  VMEM_RETURN_IF_ERROR(made->start());
  return made;
}

CudaDevice::CudaDevice(std::shared_ptr<CudaContext> context, std::shared_ptr<KernelCompiler> compiler, DeviceInfo info,
                       std::unique_ptr<KernelSet> kernels, bool integrated)
    : context_(std::move(context)),
      compiler_(std::move(compiler)),
      info_(std::move(info)),
      kernels_(std::move(kernels)),
      memory_(info_.granularity),
      mapped_by_{context_->device()},
      integrated_(integrated) {}

CudaDevice::~CudaDevice() {
  if (!context_->machine().in_child()) release_everything();
}

void CudaDevice::release_everything() noexcept {
  // Each step stands a driver that is gone or has failed: it has let go of all of it by then.
  DriverCall call(*context_);
  if (heartbeat_ != nullptr) context_->give_event(heartbeat_);
  for (CuStream stream : context_->machine().streams.remove(context_.get())) {
    if (call.status() && drain(stream, kPatienceAtEnd)) static_cast<void>(driver().cuStreamDestroy_v2(stream));
  }
  context_->machine().host_pages.remove_all(*context_);
  const MemoryMap::Rest rest = memory_.take_rest();
  if (!call.status()) return;
  for (const auto& [address, bytes] : rest.mappings) static_cast<void>(driver().cuMemUnmap(address, bytes));
  for (const std::uint64_t chunk : rest.chunks) static_cast<void>(driver().cuMemRelease(chunk));
  for (const auto& [begin, bytes] : rest.windows) static_cast<void>(driver().cuMemAddressFree(begin, bytes));
  for (const std::uint64_t base : rest.slab_bases) static_cast<void>(driver().cuMemFree_v2(base));
}

Status CudaDevice::error(StatusCode code, std::string message) const {
  return Status(code, std::move(message)).with_device(info_.name);
}

Status CudaDevice::health() noexcept {
  VMEM_RETURN_IF_ERROR(context_->failure());
  // A query answers with a sticky error at once; it reads the driver's memory alone.
  DriverCall call(*context_);
  VMEM_RETURN_IF_ERROR(call.status());
  return check(driver().cuEventQuery(heartbeat_), "cuEventQuery");
}

Result<MemoryInfo> CudaDevice::memory_info() {
  DriverCall call(*context_);
  VMEM_RETURN_IF_ERROR(call.status());
  std::size_t free = 0;
  std::size_t total = 0;
  VMEM_RETURN_IF_ERROR(check(driver().cuMemGetInfo_v2(&free, &total), "cuMemGetInfo"));
  std::uint64_t available = free;
  // There the driver answers with what lies idle, and the system would give up its caches as well.
  if (integrated_) available = std::max(available, available_host_memory());
  return MemoryInfo{std::min(available, info_.total_bytes), info_.total_bytes};
}

Status CudaDevice::locate(const void* address, std::size_t bytes, const char* call) {
  if (bytes == 0) return {};
  const auto begin = reinterpret_cast<std::uint64_t>(address);
  if (address == nullptr || !checked_add(begin, bytes)) {
    return error(StatusCode::kInvalidValue, format("{}: there is no such range", call));
  }
  switch (memory_.find(begin, bytes)) {
    case MemoryMap::Answer::kCovered:
      return {};
    case MemoryMap::Answer::kHole:
      return error(StatusCode::kInvalidValue,
                   format("{}: {} bytes at {} are not all memory of this device", call, bytes, address));
    case MemoryMap::Answer::kUnknown:
      break;
  }
  if (context_->machine().host_pages.covers(begin, bytes)) return {};
  return ask_driver(begin, bytes, call);
}

// Memory that the application got from the driver itself. Allocations may follow each other without a gap.
Status CudaDevice::ask_driver(std::uint64_t address, std::size_t bytes, const char* call) {
  const std::uint64_t end = address + bytes;
  for (std::uint64_t at = address; at < end;) {
    unsigned type = 0;
    int ordinal = -1;
    CuDevicePtr start = 0;
    std::size_t size = 0;
    std::array<CuPointerAttribute, 4> asked{kCuPointerMemoryType, kCuPointerDeviceOrdinal, kCuPointerRangeStart,
                                            kCuPointerRangeSize};
    std::array<void*, 4> answers{&type, &ordinal, &start, &size};
    VMEM_RETURN_IF_ERROR(
        check(driver().cuPointerGetAttributes(static_cast<unsigned>(asked.size()), asked.data(), answers.data(), at),
              "cuPointerGetAttributes"));
    const bool own = (type == kCuMemoryDevice && ordinal == context_->device()) || type == kCuMemoryHost;
    if (!own || start > at || size == 0 || start + size <= at) {
      return error(StatusCode::kInvalidValue,
                   format("{}: {} bytes at {:#x} are not all memory that this device can touch", call, bytes, address));
    }
    at = start + size;
  }
  return {};
}

Status CudaDevice::enable_peer(CudaDevice& peer) {
  DriverCall call(*context_);
  VMEM_RETURN_IF_ERROR(call.status());
  const CuResult result = driver().cuCtxEnablePeerAccess(peer.context_->native(), 0);
  if (result != kCuSuccess && result != kCuPeerAccessAlreadyEnabled) return check(result, "cuCtxEnablePeerAccess");
  peers_.insert(&peer);
  peer.mapped_by_.push_back(context_->device());
  return {};
}

bool CudaDevice::can_access_peer(const Device& peer) const noexcept {
  return has(DeviceCap::kPeerCopy) && peers_.count(&peer) != 0;
}

}  // namespace vmem
