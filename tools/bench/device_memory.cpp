#include "tools/bench/device_memory.hpp"

#include <utility>

namespace vmem {

Result<DeviceMemory> DeviceMemory::create(Device& device, std::size_t bytes) {
  VMEM_ASSIGN_OR_RETURN(void* const address, device.allocate(bytes));
  return DeviceMemory(device, address);
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : device_(other.device_), address_(std::exchange(other.address_, nullptr)) {}

DeviceMemory::~DeviceMemory() {
  if (address_ != nullptr) (void)device_->deallocate(address_);  // a lost device has nothing left to free
}

Pinned::Pinned(void* address, std::size_t bytes, const std::vector<Device*>& devices) : address_(address) {
  for (Device* device : devices) {
    const DeviceInfo& info = device->info();
    if (info.tier == Tier::kHost || !info.caps.has(DeviceCap::kHostRegistration)) continue;
    if (device->register_host(address, bytes)) pinned_for_.push_back(device);
  }
}

Pinned::~Pinned() {
  for (Device* device : pinned_for_) (void)device->unregister_host(address_);
}

Status wait(Result<Event> event) { return event ? event->wait() : event.error(); }

Status copy_in(const DeviceMemory& to, const std::byte* host, std::size_t bytes) {
  return wait(to.device().copy_from_host(to.address(), host, bytes, Stream()));
}

Status copy_out(std::byte* host, const DeviceMemory& from, std::size_t bytes) {
  return wait(from.device().copy_to_host(host, from.address(), bytes, Stream()));
}

}  // namespace vmem
