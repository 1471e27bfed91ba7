// A range of a device's addresses in which frames are mapped.
#pragma once

#include <vmem/backend.hpp>
#include <vmem/status.hpp>

#include <cstddef>

#include "runtime/memory/frame.hpp"

namespace vmem {

// A contiguous range of a device's addresses, in which frames are mapped (devices with kVirtualMemory). Given back when
// dropped. REQUIRES, when it is dropped: nothing is mapped in it, and its device is alive.
//
// Thread contract: `map` and `unmap` of different ranges may run side by side.
class Window {
 public:
  // `bytes` is rounded up to the granularity.
  static Result<Window> create(Device& device, std::size_t bytes);
  Window() noexcept = default;
  ~Window() { drop(); }
  Window(Window&& other) noexcept;
  Window& operator=(Window&& other) noexcept;
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  explicit operator bool() const noexcept { return device_ != nullptr; }
  void* address() const noexcept { return address_; }
  std::size_t bytes() const noexcept { return bytes_; }
  // REQUIRES: offset <= bytes().
  void* at(std::size_t offset) const noexcept { return static_cast<std::byte*>(address_) + offset; }

  // Puts the frame at `offset`, a multiple of the granularity. kInvalidValue where it does not lie in the window.
  Status map(std::size_t offset, const Frame& frame);
  // Takes a whole mapping of `bytes` (the frame's bytes()) away. The work on it must be done.
  Status unmap(std::size_t offset, std::size_t bytes);
  // Gives the range back now. On an error it is still held; the destructor then tries again.
  Status release() noexcept;

 private:
  void drop() noexcept;

  Window(Device& device, void* address, std::size_t bytes) : device_(&device), address_(address), bytes_(bytes) {}

  Device* device_ = nullptr;
  void* address_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace vmem
