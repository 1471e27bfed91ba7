#include "runtime/memory/window.hpp"

#include <string>
#include <utility>

#include "runtime/support/bytes.hpp"
#include "runtime/support/check.hpp"

namespace vmem {

Result<Window> Window::create(Device& device, std::size_t bytes) {
  const auto rounded = checked_align_up(bytes, device.info().granularity);
  if (bytes == 0 || !rounded) {
    return Status(StatusCode::kInvalidValue, "a window of " + std::to_string(bytes) + " bytes asked")
        .with_device(device.info().name);
  }
  auto address = device.reserve_window(*rounded);
  if (!address) return address.error().with_device(device.info().name);
  return Window(device, *address, *rounded);
}

Window::Window(Window&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)),
      address_(std::exchange(other.address_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Window& Window::operator=(Window&& other) noexcept {
  if (this != &other) {
    drop();
    device_ = std::exchange(other.device_, nullptr);
    address_ = std::exchange(other.address_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

Status Window::map(std::size_t offset, const Frame& frame) {
  VMEM_CHECK(device_ != nullptr);
  const DeviceInfo& info = device_->info();
  const std::size_t bytes = frame.chunk().bytes;
  if (bytes == 0 || offset % info.granularity != 0 || offset > bytes_ || bytes > bytes_ - offset) {
    return Status(StatusCode::kInvalidValue, "a frame of " + format_bytes(bytes) + " was to be mapped at " +
                                                 std::to_string(offset) + " of a window of " + format_bytes(bytes_))
        .with_device(info.name);
  }
  return device_->map(at(offset), frame.chunk()).with_device(info.name);
}

Status Window::unmap(std::size_t offset, std::size_t bytes) {
  VMEM_CHECK(device_ != nullptr);
  const DeviceInfo& info = device_->info();
  if (bytes == 0 || offset % info.granularity != 0 || offset > bytes_ || bytes > bytes_ - offset) {
    return Status(StatusCode::kInvalidValue, format_bytes(bytes) + " were to be unmapped at " + std::to_string(offset) +
                                                 " of a window of " + format_bytes(bytes_))
        .with_device(info.name);
  }
  return device_->unmap(at(offset), bytes).with_device(info.name);
}

Status Window::release() noexcept {
  if (device_ == nullptr) return Status::ok();
  const Status status = device_->release_window(address_, bytes_);
  if (status) {
    device_ = nullptr;
    address_ = nullptr;
    bytes_ = 0;
  }
  return status;
}

// A driver that refuses once gets a second chance; one that is gone refuses for good.
void Window::drop() noexcept {
  if (!release()) static_cast<void>(release());
  device_ = nullptr;
}

}  // namespace vmem
