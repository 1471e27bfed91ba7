// Host memory that devices have registered: their copies of it run at the speed of the link, their kernels reach it.
#pragma once

#include <vmem/backend.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/support/log.hpp"
#include "runtime/support/thread_annotations.hpp"

namespace vmem {

// A device that could not register a range is left with pageable copies from then on, and one warning says so.
//
// Thread contract: every member may be called from any thread; calls for one range come one after the other.
// CONCURRENCY: one mutex over the table, a leaf. Drivers are called without it.
class HostRegistrations {
 public:
  // `devices` in the topology's order; they and the logger outlive this.
  HostRegistrations(std::vector<Device*> devices, Logger& logger);
  HostRegistrations(const HostRegistrations&) = delete;
  HostRegistrations& operator=(const HostRegistrations&) = delete;

  // Registers the range with a device, unless another of its address space has done so, or it can't. `host` is where
  // a range begins, always with the same `bytes`. May throw std::bad_alloc; then nothing has changed.
  void add(void* host, std::size_t bytes, std::size_t device);
  // The same with every device, as far as there is memory to note it.
  void add_for_all(void* host, std::size_t bytes) noexcept;
  // Ends all registrations of the range that begins there. The copies on it must be done.
  void remove(void* host) noexcept;

  // Where kernels of the device find these bytes; null where not all of them are registered with it in one range.
  void* address_on(const void* host, std::size_t bytes, std::size_t device) const;
  // Whether the device could not register memory.
  bool is_pageable(std::size_t device) const;
  // Ranges that at least one device has registered.
  std::size_t num_ranges() const;

 private:
  struct View {
    Device* through = nullptr;     // it registered the range, and will end that
    std::byte* address = nullptr;  // of the range's first byte, in its address space
  };
  struct Range {
    std::size_t bytes = 0;
    std::map<std::string, View> views;  // by address space
  };

  bool wants(std::uintptr_t begin, std::size_t device) const;
  void refused(std::size_t device, const Status& status);

  const std::vector<Device*> devices_;
  const std::vector<std::string> spaces_;  // of each device
  Logger& logger_;

  mutable Mutex mutex_;
  std::map<std::uintptr_t, Range> ranges_ VMEM_GUARDED_BY(mutex_);  // by their begin; they don't overlap
  std::vector<bool> pageable_ VMEM_GUARDED_BY(mutex_);              // by device
};

}  // namespace vmem
