#include "backends/host/memory_device.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "backends/host/machine_memory.hpp"
#include "backends/kernels/kernels.hpp"
#include "runtime/support/bytes.hpp"

namespace vmem {

Result<std::unique_ptr<MemoryDevice>> MemoryDevice::create(std::shared_ptr<HostMachine> machine, DeviceSpec spec) {
  auto file = MemoryFile::create("vmem-" + spec.info.name);
  if (!file) return file.error().with_device(spec.info.name);
  return std::unique_ptr<MemoryDevice>(new MemoryDevice(std::move(machine), std::move(spec), std::move(file).value()));
}

MemoryDevice::MemoryDevice(std::shared_ptr<HostMachine> machine, DeviceSpec spec, std::unique_ptr<MemoryFile> file)
    : machine_(std::move(machine)),
      spec_(std::move(spec)),
      file_(std::move(file)),
      owner_(machine_->addresses.add_owner(spec_.info.tier == Tier::kHost)) {
  if (spec_.links) {
    link_in_ = std::make_shared<LinkClock>(spec_.links->bandwidth_in);
    link_out_ = std::make_shared<LinkClock>(spec_.links->bandwidth_out);
    peer_in_ = std::make_shared<LinkClock>(spec_.links->bandwidth_peer);
    peer_out_ = std::make_shared<LinkClock>(spec_.links->bandwidth_peer);
  }
  for (const Fault& fault : spec_.faults) faults_.add(fault);
  for (const KernelImage& image : builtin_kernels()) kernels_[image.name] = image.reference;
}

MemoryDevice::~MemoryDevice() {
  for (const auto& queue : queues()) queue->close();
  std::vector<std::shared_ptr<Completion>> hanging;
  {
    MutexLock lock(streams_mutex_);
    streams_.clear();
    hanging.swap(hanging_);
  }
  const Status gone = error(StatusCode::kTimeout, "the device was destroyed while the work hung");
  for (const auto& event : hanging) event->complete(gone, {});
  if (has(DeviceCap::kHostRegistration)) {
    std::vector<std::uintptr_t> hosts;
    {
      MutexLock lock(host_mutex_);
      for (const auto& [host, registered] : registered_) hosts.push_back(host);
    }
    lost_ = false;
    faults_.clear();
    for (const std::uintptr_t host : hosts) static_cast<void>(unregister_host(reinterpret_cast<void*>(host)));
  }
  for (const auto& [begin, bytes] : machine_->addresses.remove_owner(owner_)) {
    ::munmap(reinterpret_cast<void*>(begin), bytes);
  }
}

Status MemoryDevice::error(StatusCode code, const std::string& message) const {
  return Status(code, message).with_device(spec_.info.name);
}

Status MemoryDevice::lost() const { return error(StatusCode::kDeviceFailed, "the device is lost"); }

Status MemoryDevice::fault_status(const Fault& fault) const {
  return error(fault.code, "a fault was asked for" + (fault.call.empty() ? "" : " at " + fault.call));
}

Status MemoryDevice::enter(const char* call) {
  auto fault = enter_work(call, CallKind::kPlain);
  if (!fault) return fault.error();
  return *fault ? fault_status(**fault) : Status();
}

Result<MemoryDevice::Faulted> MemoryDevice::enter_work(const char* call, CallKind kind) {
  if (lost_.load(std::memory_order_acquire)) return lost();
  Faulted fault = faults_.take(call, kind);
  if (fault && fault->kind == Fault::Kind::kVanish) {
    lose();
    return lost();
  }
  return fault;
}

void MemoryDevice::lose() noexcept {
  lost_.store(true, std::memory_order_release);
  for (const auto& queue : queues()) queue->fail(lost());
  std::vector<std::shared_ptr<Completion>> hanging;
  {
    MutexLock lock(streams_mutex_);
    hanging.swap(hanging_);
  }
  for (const auto& event : hanging) event->complete(lost(), {});
}

Status MemoryDevice::health() noexcept {
  // A health check that is asked to fail does so once, as a hiccup of a driver would.
  return enter("health");
}

Result<MemoryInfo> MemoryDevice::memory_info() {
  VMEM_RETURN_IF_ERROR(enter("memory_info"));
  const std::uint64_t total = spec_.info.total_bytes;
  std::uint64_t free = total - std::min(total, used_bytes_.load());
  // The machine's memory is also others'; a simulated card is the pool's alone.
  if (is_host()) free = std::min(free, available_memory(machine_->system.root));
  return MemoryInfo{free, total};
}

Status MemoryDevice::charge(std::size_t bytes) {
  const std::uint64_t total = spec_.info.total_bytes;
  std::uint64_t used = used_bytes_.load();
  do {
    if (used > total || bytes > total - used) {
      return error(is_host() ? StatusCode::kOutOfHostMemory : StatusCode::kOutOfDeviceMemory,
                   format_bytes(bytes) + " asked, " + format_bytes(total - std::min(total, used)) + " free (limit " +
                       format_bytes(total) + ")");
    }
  } while (!used_bytes_.compare_exchange_weak(used, used + bytes));
  return {};
}

Status MemoryDevice::inject(const Fault& fault) {
  if (!has(DeviceCap::kFaultInjection)) return Device::inject(fault);
  faults_.add(fault);
  return {};
}

Status MemoryDevice::clear_faults() {
  if (!has(DeviceCap::kFaultInjection)) return Device::clear_faults();
  faults_.clear();
  for (const auto& queue : queues()) queue->release_hung();
  std::vector<std::shared_ptr<Completion>> hanging;
  {
    MutexLock lock(streams_mutex_);
    hanging.swap(hanging_);
  }
  const Status status = error(StatusCode::kTimeout, "the work hung until faults were cleared");
  for (const auto& event : hanging) event->complete(status, WorkQueue::TimePoint::clock::now());
  return {};
}

}  // namespace vmem
