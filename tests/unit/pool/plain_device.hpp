// The least that a Device can be: memory of the heap, copies that are done when the call returns, no optional calls.
// Tests derive from it.
#pragma once

#include <vmem/backend.hpp>

#include <cstdlib>
#include <cstring>
#include <utility>

namespace vmem {

inline DeviceInfo plain_device_info(std::string name, std::string backend) {
  DeviceInfo info;
  info.name = std::move(name);
  info.backend = std::move(backend);
  info.uuid = "PLAIN-" + info.name;
  info.model = "plain test device";
  info.vendor = "plain";
  info.address_space = "plain";
  info.tier = Tier::kDevice;
  info.total_bytes = 16_MiB;
  info.granularity = 64_KiB;
  return info;
}

class PlainDevice : public Device {
 public:
  explicit PlainDevice(DeviceInfo info) : info_(std::move(info)) {}

  const DeviceInfo& info() const noexcept override { return info_; }
  Result<MemoryInfo> memory_info() override { return MemoryInfo{info_.total_bytes, info_.total_bytes}; }
  Status health() noexcept override { return Status(); }

  Result<void*> allocate(std::size_t bytes) override { return std::aligned_alloc(info_.granularity, bytes); }
  Status deallocate(void* address) override {
    std::free(address);
    return Status();
  }

  Result<Event> copy_from_host(void* destination, const void* host, std::size_t bytes, Stream) override {
    std::memcpy(destination, host, bytes);
    return Event();
  }
  Result<Event> copy_to_host(void* host, const void* source, std::size_t bytes, Stream) override {
    std::memcpy(host, source, bytes);
    return Event();
  }
  Result<Event> copy_within(void* destination, const void* source, std::size_t bytes, Stream) override {
    std::memcpy(destination, source, bytes);
    return Event();
  }
  Result<Event> fill(void* destination, std::uint8_t value, std::size_t bytes, Stream) override {
    std::memset(destination, value, bytes);
    return Event();
  }

  Result<Stream> create_stream() override { return Stream(this); }
  Status destroy_stream(Stream) override { return Status(); }
  Status check_stream(Stream) override { return Status(); }
  Result<Event> record(Stream) override { return Event(); }
  Status wait_event(Stream, const Event& event) override { return event.wait(); }
  Result<bool> is_capturing(Stream) override { return false; }

 private:
  DeviceInfo info_;
};

}  // namespace vmem
