#include "backends/cuda/host_registry.hpp"

#include <vector>

#include "backends/cuda/driver_call.hpp"
#include "runtime/support/bytes.hpp"
#include "runtime/support/format.hpp"

namespace vmem {
namespace {

Status invalid(const CudaContext& context, std::string message) {
  return Status(StatusCode::kInvalidValue, std::move(message)).with_device(context.name());
}

Status refused(CudaContext& context, CuResult result, std::size_t bytes) {
  Status status = context.check(result, "cuMemHostRegister");
  std::string message;
  StatusCode code = status.code();
  if (result == kCuHostMemoryAlreadyRegistered) {
    message = "the pages are registered already by another part of this process, and can't be twice";
  } else if (result == kCuOutOfMemory || result == kCuOperatingSystem || result == kCuNotPermitted) {
    code = StatusCode::kOutOfHostMemory;
    message =
        format("{} of host memory can't be locked; see the limit on locked memory (ulimit -l)", format_bytes(bytes));
  } else {
    return status;
  }
  return Status(code, std::move(message))
      .with_device(context.name())
      .with_driver(status.driver_code(), std::string(status.driver_name()));
}

}  // namespace

bool HostRegistry::overlaps(std::uintptr_t begin, std::size_t bytes) const {
  auto it = registrations_.upper_bound(begin);
  if (it != registrations_.end() && it->first < begin + bytes) return true;
  return it != registrations_.begin() && (--it, it->first + it->second.bytes > begin);
}

Result<void*> HostRegistry::add(CudaContext& context, void* host, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(host);
  if (host == nullptr || bytes == 0 || !checked_add(begin, bytes)) {
    return invalid(context, "register_host: there is no such range of host memory");
  }
  MutexLock lock(mutex_);
  if (const auto it = registrations_.find(begin); it != registrations_.end() && it->second.bytes == bytes) {
    if (!it->second.users.insert(&context).second) {
      return invalid(context, "register_host: the range is registered already");
    }
    return reinterpret_cast<void*>(it->second.device_address);
  }
  if (overlaps(begin, bytes)) return invalid(context, "register_host: the range overlaps one that is registered");

  DriverCall call(context);
  VMEM_RETURN_IF_ERROR(call.status());
  const CudaDriver& driver = context.driver();
  const CuResult result = driver.cuMemHostRegister_v2(host, bytes, kCuHostRegisterPortable | kCuHostRegisterDeviceMap);
  if (result != kCuSuccess) return refused(context, result, bytes);
  CuDevicePtr device_address = 0;
  const Status status =
      context.check(driver.cuMemHostGetDevicePointer_v2(&device_address, host, 0), "cuMemHostGetDevicePointer");
  if (!status) {
    static_cast<void>(driver.cuMemHostUnregister(host));
    return status;
  }
  registrations_.emplace(begin, Registration{bytes, device_address, {&context}});
  MutexLock ranges_lock(ranges_mutex_);
  ranges_.add(device_address, bytes);
  return reinterpret_cast<void*>(device_address);
}

Status HostRegistry::remove(CudaContext& context, void* host) {
  MutexLock lock(mutex_);
  const auto it = registrations_.find(reinterpret_cast<std::uintptr_t>(host));
  if (it == registrations_.end() || it->second.users.count(&context) == 0) {
    return invalid(context, "unregister_host: the address is not one that this device registered");
  }
  if (it->second.users.size() == 1) {
    DriverCall call(context);
    VMEM_RETURN_IF_ERROR(call.status());
    VMEM_RETURN_IF_ERROR(context.check(context.driver().cuMemHostUnregister(host), "cuMemHostUnregister"));
    MutexLock ranges_lock(ranges_mutex_);
    ranges_.remove(it->second.device_address);
    registrations_.erase(it);
    return {};
  }
  it->second.users.erase(&context);
  return {};
}

void HostRegistry::remove_all(CudaContext& context) {
  std::vector<void*> hosts;
  {
    MutexLock lock(mutex_);
    for (const auto& [begin, registration] : registrations_) {
      if (registration.users.count(&context) != 0) hosts.push_back(reinterpret_cast<void*>(begin));
    }
  }
  for (void* const host : hosts) {
    if (remove(context, host)) continue;
    // The driver is gone or has failed: the pages are no longer its.
    MutexLock lock(mutex_);
    const auto it = registrations_.find(reinterpret_cast<std::uintptr_t>(host));
    if (it == registrations_.end()) continue;
    it->second.users.erase(&context);
    if (!it->second.users.empty()) continue;
    MutexLock ranges_lock(ranges_mutex_);
    ranges_.remove(it->second.device_address);
    registrations_.erase(it);
  }
}

bool HostRegistry::covers(std::uint64_t device_address, std::size_t bytes) const {
  MutexLock lock(ranges_mutex_);
  return ranges_.covers(device_address, bytes);
}

}  // namespace vmem
