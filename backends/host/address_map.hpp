// Which addresses hold bytes that a device of this backend may touch, and which of them are being touched.
//
// STRUCTURE: one map for all devices of a backend. A region is a range of addresses a device has reserved (a slab, a
// window, a second address of registered memory). A mapping is a part of a region with memory behind it; it has a stamp
// that no other mapping ever gets. A registration is host memory that a device may touch although it is not its own.
//
// CONCURRENCY: every member may be called from any thread. A mapping changes in two steps (begin, finish), so that the
// system calls in between run outside the mutex, and no one can pin the range or map over it meanwhile.
#pragma once

#include <vmem/status.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/support/thread_annotations.hpp"

namespace vmem {

using OwnerId = std::uint32_t;

enum class RegionKind : std::uint8_t { kSlab, kWindow, kAlias };

// The memory file's bytes behind a mapping.
struct MappedBytes {
  int fd = -1;
  std::uint64_t offset = 0;
  std::size_t bytes = 0;
};

// A range that was live when it was looked up. `pin` finds out whether it still is, by the stamp.
struct TrackedRange {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  std::uint64_t stamp = 0;  // 0: memory that the map knows nothing of, such as the application's own
};

class AddressMap {
 public:
  OwnerId add_owner(bool addressable_by_host) VMEM_EXCLUDES(mutex_);

  void add_region(std::uintptr_t begin, std::size_t bytes, OwnerId owner, RegionKind kind) VMEM_EXCLUDES(mutex_);
  // The bytes of the region that begins here and is of this owner and kind.
  std::optional<std::size_t> region_bytes(std::uintptr_t begin, OwnerId owner, RegionKind kind) const
      VMEM_EXCLUDES(mutex_);
  // kInvalidValue while anything is mapped in it.
  Status remove_region(std::uintptr_t begin, OwnerId owner, RegionKind kind) VMEM_EXCLUDES(mutex_);

  Status begin_map(std::uintptr_t begin, const MappedBytes& memory, OwnerId owner) VMEM_EXCLUDES(mutex_);
  void finish_map(std::uintptr_t begin, bool mapped) VMEM_EXCLUDES(mutex_);
  // kInvalidValue unless exactly this range is one mapping of the owner that no work is touching.
  Result<MappedBytes> begin_unmap(std::uintptr_t begin, std::size_t bytes, OwnerId owner) VMEM_EXCLUDES(mutex_);
  void finish_unmap(std::uintptr_t begin) VMEM_EXCLUDES(mutex_);

  Status add_registration(std::uintptr_t begin, std::size_t bytes, OwnerId owner) VMEM_EXCLUDES(mutex_);
  // The registration's bytes.
  Result<std::size_t> remove_registration(std::uintptr_t begin, OwnerId owner) VMEM_EXCLUDES(mutex_);

  // A range that the owner may touch: its own mapped memory, or host memory registered for it.
  Result<TrackedRange> find(const void* begin, std::size_t bytes, OwnerId owner) const VMEM_EXCLUDES(mutex_);
  // A range as the CPU's side of a copy for `owner`: anything but another device's memory and a hole in a host window.
  Result<TrackedRange> find_host(const void* begin, std::size_t bytes, OwnerId owner) const VMEM_EXCLUDES(mutex_);
  // The memory behind a range that lies wholly in host windows and slabs, in order; nothing where it does not.
  std::vector<MappedBytes> host_bytes_behind(std::uintptr_t begin, std::size_t bytes) const VMEM_EXCLUDES(mutex_);

  // Holds the range against unmapping. kInvalidValue where it has been unmapped, or mapped anew, since it was found.
  Status pin(const TrackedRange& range) VMEM_EXCLUDES(mutex_);
  void unpin(const TrackedRange& range) VMEM_EXCLUDES(mutex_);

  // Forgets everything of an owner, once no work touches it; answers with the regions, for the caller to unmap.
  std::vector<std::pair<std::uintptr_t, std::size_t>> remove_owner(OwnerId owner) VMEM_EXCLUDES(mutex_);

 private:
  struct Region {
    std::size_t bytes;
    OwnerId owner;
    RegionKind kind;
  };
  struct Mapping {
    MappedBytes memory;
    OwnerId owner;
    std::uint64_t stamp;
    bool live;
    std::uint32_t pins;
  };
  using Regions = std::map<std::uintptr_t, Region>;
  using Mappings = std::map<std::uintptr_t, Mapping>;

  Regions::const_iterator region_of(std::uintptr_t address) const VMEM_REQUIRES(mutex_);
  Mappings::const_iterator mapping_of(std::uintptr_t address) const VMEM_REQUIRES(mutex_);
  // The combined stamp of the live mappings that cover the range; 0 where one is missing or not the owner's.
  std::uint64_t stamp_of(std::uintptr_t begin, std::size_t bytes, OwnerId owner) const VMEM_REQUIRES(mutex_);
  bool overlaps_region(std::uintptr_t begin, std::size_t bytes) const VMEM_REQUIRES(mutex_);
  Result<TrackedRange> find_host_locked(std::uintptr_t begin, std::size_t bytes, OwnerId owner) const
      VMEM_REQUIRES(mutex_);

  mutable Mutex mutex_;
  CondVar unpinned_;
  Regions regions_ VMEM_GUARDED_BY(mutex_);
  Mappings mappings_ VMEM_GUARDED_BY(mutex_);
  std::map<std::pair<OwnerId, std::uintptr_t>, std::size_t> registrations_ VMEM_GUARDED_BY(mutex_);
  std::vector<bool> addressable_by_host_ VMEM_GUARDED_BY(mutex_);  // by owner
  std::uint64_t last_stamp_ VMEM_GUARDED_BY(mutex_) = 0;
};

}  // namespace vmem
