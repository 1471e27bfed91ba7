// Host pages that are pinned for the devices of a backend. One registration serves all of them: the driver refuses a
// second one of the same pages (712), so devices that ask for the same range share it, and the last one ends it.
//
// CONCURRENCY: every member may be called from any thread. Registrations are made one at a time.
#pragma once

#include <vmem/status.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

#include "backends/cuda/address_ranges.hpp"
#include "runtime/support/thread_annotations.hpp"

namespace vmem {

class CudaContext;

class HostRegistry {
 public:
  // The range's address on the device. kInvalidValue for one that the device has registered already, or that overlaps
  // another one; kOutOfHostMemory where pages can't be locked.
  Result<void*> add(CudaContext& context, void* host, std::size_t bytes) VMEM_EXCLUDES(mutex_, ranges_mutex_);
  // kInvalidValue for what the device has not registered. Work on it must be done.
  Status remove(CudaContext& context, void* host) VMEM_EXCLUDES(mutex_, ranges_mutex_);
  void remove_all(CudaContext& context) VMEM_EXCLUDES(mutex_, ranges_mutex_);
  // True if all of it is registered memory, by its address on the device.
  bool covers(std::uint64_t device_address, std::size_t bytes) const VMEM_EXCLUDES(ranges_mutex_);

 private:
  struct Registration {
    std::size_t bytes;
    std::uint64_t device_address;
    std::set<const CudaContext*> users;
  };

  bool overlaps(std::uintptr_t begin, std::size_t bytes) const VMEM_REQUIRES(mutex_);

  // Held while the driver pins pages; `ranges_mutex_` is what copies take, inside it.
  Mutex mutex_;
  std::map<std::uintptr_t, Registration> registrations_ VMEM_GUARDED_BY(mutex_);  // by host address
  mutable Mutex ranges_mutex_ VMEM_ACQUIRED_AFTER(mutex_);
  AddressRanges ranges_ VMEM_GUARDED_BY(ranges_mutex_);
};

}  // namespace vmem
