// Memory outside any pool, straight from devices, and plain copies of it: what the pool's copies are held against.
#pragma once

#include <vmem/backend.hpp>
#include <vmem/status.hpp>

#include <cstddef>
#include <vector>

namespace vmem {

// A device's memory; given back when it goes. The device outlives it.
class DeviceMemory {
 public:
  static Result<DeviceMemory> create(Device& device, std::size_t bytes);
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  ~DeviceMemory();

  Device& device() const { return *device_; }
  void* address() const { return address_; }
  bool is_host() const { return device_->info().tier == Tier::kHost; }

 private:
  DeviceMemory(Device& device, void* address) : device_(&device), address_(address) {}

  Device* device_;
  void* address_;
};

// Registers host memory with devices as long as it lives; once is enough for devices of one address space. Where pages
// can't be pinned, plain copies are pageable ones, for the pool as for the reference.
class Pinned {
 public:
  Pinned(void* address, std::size_t bytes, const std::vector<Device*>& devices);
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned();

 private:
  void* address_;
  std::vector<Device*> pinned_for_;
};

// Host memory that both devices can copy from and to as fast as they can.
class PinnedMemory {
 public:
  PinnedMemory(std::size_t bytes, const std::vector<Device*>& devices)
      : bytes_(bytes), pinned_(bytes_.data(), bytes, devices) {}

  std::byte* data() { return bytes_.data(); }

 private:
  std::vector<std::byte> bytes_;
  Pinned pinned_;
};

// The event's outcome, or why there is none.
Status wait(Result<Event> event);

// One driver call each, and a wait for its end.
Status copy_in(const DeviceMemory& to, const std::byte* host, std::size_t bytes);
Status copy_out(std::byte* host, const DeviceMemory& from, std::size_t bytes);

}  // namespace vmem
