// A device's slabs, chunks and windows: what is where, without the driver, which is asked in between.
//
// STRUCTURE: changes of mappings come in two halves around the driver's call: `begin_map` takes the place, `finish_map`
// fills it or gives it back, and likewise for the end of a mapping. In between nothing is there for copies.
//
// CONCURRENCY: every member may be called from any thread; of two that take the same thing away one is refused.
// Messages of errors are whole but for the device's name.
#pragma once

#include <vmem/backend.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "backends/cuda/address_ranges.hpp"
#include "runtime/support/thread_annotations.hpp"

namespace vmem {

class MemoryMap {
 public:
  struct Slab {
    std::uint64_t base = 0;  // what the driver gave; the slab's address is it rounded up
    std::size_t bytes = 0;
  };
  // All that a device still holds when it ends.
  struct Rest {
    std::vector<std::uint64_t> slab_bases;
    std::vector<std::pair<std::uint64_t, std::size_t>> mappings;
    std::vector<std::uint64_t> chunks;
    std::vector<std::pair<std::uint64_t, std::size_t>> windows;
  };

  explicit MemoryMap(std::size_t granularity) : granularity_(granularity) {}

  void add_slab(std::uint64_t address, Slab slab) VMEM_EXCLUDES(mutex_);
  std::optional<Slab> take_slab(std::uint64_t address) VMEM_EXCLUDES(mutex_);

  void add_chunk(const Chunk& chunk) VMEM_EXCLUDES(mutex_);
  // kInvalidValue where there is none, or it is mapped.
  Status take_chunk(const Chunk& chunk) VMEM_EXCLUDES(mutex_);

  void add_window(std::uint64_t begin, std::size_t bytes) VMEM_EXCLUDES(mutex_);
  // kInvalidValue where it is none, or something is mapped in it.
  Status take_window(std::uint64_t begin, std::size_t bytes) VMEM_EXCLUDES(mutex_);

  Status begin_map(std::uint64_t address, const Chunk& chunk) VMEM_EXCLUDES(mutex_);
  void finish_map(std::uint64_t address, bool mapped) VMEM_EXCLUDES(mutex_);
  Status begin_unmap(std::uint64_t address, std::size_t bytes) VMEM_EXCLUDES(mutex_);
  void finish_unmap(std::uint64_t address, bool unmapped) VMEM_EXCLUDES(mutex_);

  enum class Answer {
    kCovered,  // all of it is the device's memory
    kHole,     // some of it is, or is a window's, and some of it has nothing behind it
    kUnknown   // the map does not know the place
  };
  // REQUIRES: bytes > 0, address + bytes does not overflow.
  Answer find(std::uint64_t address, std::size_t bytes) const VMEM_EXCLUDES(mutex_);

  Rest take_rest() VMEM_EXCLUDES(mutex_);

 private:
  struct LiveChunk {
    std::size_t bytes;
    unsigned num_mappings;
  };
  struct Mapping {
    std::uint64_t chunk;
    std::size_t bytes;
    bool changing;  // the driver is at it
  };

  std::map<std::uint64_t, Mapping>::const_iterator first_in(std::uint64_t begin, std::size_t bytes) const
      VMEM_REQUIRES(mutex_);

  const std::size_t granularity_;
  mutable Mutex mutex_;
  std::unordered_map<std::uint64_t, Slab> slabs_ VMEM_GUARDED_BY(mutex_);        // by address
  std::unordered_map<std::uint64_t, LiveChunk> chunks_ VMEM_GUARDED_BY(mutex_);  // by the driver's handle
  std::map<std::uint64_t, std::size_t> windows_ VMEM_GUARDED_BY(mutex_);
  std::map<std::uint64_t, Mapping> mappings_ VMEM_GUARDED_BY(mutex_);
  AddressRanges memory_ VMEM_GUARDED_BY(mutex_);         // slabs and finished mappings
  AddressRanges window_ranges_ VMEM_GUARDED_BY(mutex_);  // windows, whatever is in them
};

}  // namespace vmem
