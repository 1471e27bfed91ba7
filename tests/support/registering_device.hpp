// A device that registers host memory, and nothing else: it keeps account of what is registered with it.
#pragma once

#include <vmem/backend.hpp>

#include <cstddef>
#include <map>
#include <string>
#include <utility>

namespace vmem::test {

class RegisteringDevice final : public Device {
 public:
  // Memory lies `offset` bytes further on in the device's addresses.
  explicit RegisteringDevice(std::string name, std::string address_space = "", std::size_t offset = 0)
      : offset_(offset) {
    info_.name = std::move(name);
    info_.address_space = std::move(address_space);
    info_.tier = Tier::kDevice;
    info_.caps = info_.caps.with(DeviceCap::kHostRegistration);
  }

  void set_caps(DeviceCaps caps) { info_.caps = caps; }
  void refuse(Status status) { refusal_ = std::move(status); }
  const std::map<void*, std::size_t>& registered() const { return registered_; }
  unsigned num_calls() const { return num_calls_; }

  const DeviceInfo& info() const noexcept override { return info_; }
  Result<void*> register_host(void* host, std::size_t bytes) override {
    ++num_calls_;
    if (!refusal_) return refusal_;
    if (!registered_.emplace(host, bytes).second) return wrong();
    return static_cast<std::byte*>(host) + offset_;
  }
  Status unregister_host(void* host) override { return registered_.erase(host) == 1 ? Status() : wrong(); }

  Result<MemoryInfo> memory_info() override { return wrong(); }
  Status health() noexcept override { return {}; }
  Result<void*> allocate(std::size_t) override { return wrong(); }
  Status deallocate(void*) override { return wrong(); }
  Result<Event> copy_from_host(void*, const void*, std::size_t, Stream) override { return wrong(); }
  Result<Event> copy_to_host(void*, const void*, std::size_t, Stream) override { return wrong(); }
  Result<Event> copy_within(void*, const void*, std::size_t, Stream) override { return wrong(); }
  Result<Event> fill(void*, std::uint8_t, std::size_t, Stream) override { return wrong(); }
  Result<Stream> create_stream() override { return wrong(); }
  Status destroy_stream(Stream) override { return wrong(); }
  Status check_stream(Stream) override { return wrong(); }
  Result<Event> record(Stream) override { return wrong(); }
  Status wait_event(Stream, const Event&) override { return wrong(); }
  Result<bool> is_capturing(Stream) override { return wrong(); }

 private:
  static Status wrong() { return Status(StatusCode::kInvalidValue, "not expected of this device"); }

  DeviceInfo info_;
  const std::size_t offset_;
  Status refusal_;
  std::map<void*, std::size_t> registered_;
  unsigned num_calls_ = 0;
};

}  // namespace vmem::test
