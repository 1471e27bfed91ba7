// The one range of pool addresses: reserved once from the operating system, without access and without memory.
//
// Thread contract: every member may be called from any thread.
#pragma once

#include <vmem/status.hpp>
#include <vmem/types.hpp>

#include <cstddef>
#include <memory>

#include "runtime/memory/extent_allocator.hpp"
#include "runtime/memory/fragmentation.hpp"
#include "runtime/support/thread_annotations.hpp"

namespace vmem {

// Addresses handed out, [address, address + bytes). `extent` is the space's own record of them.
struct PoolRange {
  PoolAddress address = 0;
  std::size_t bytes = 0;
  Extent extent;
};

class PoolAddressSpace {
 public:
  struct Options {
    std::size_t bytes = kDefaultBytes;  // a multiple of the alignment of the base; halved until the system grants it
    FitStrategy strategy = FitStrategy::kBestFit;
  };

  static constexpr std::size_t kDefaultBytes = std::size_t{16} << 40U;
  // Less than this is refused: a limit on address space (RLIMIT_AS) below it leaves no room for the pool's own work.
  static constexpr std::size_t kMinBytes = std::size_t{1} << 30U;
  // Alignments up to this hold for addresses, not only for offsets in the range.
  static constexpr std::size_t kBaseAlignment = std::size_t{1} << 30U;

  // kOutOfAddresses where not even kMinBytes can be had.
  static Result<std::unique_ptr<PoolAddressSpace>> create(const Options& options);
  // Gives the range back, whatever is still handed out.
  ~PoolAddressSpace();
  PoolAddressSpace(const PoolAddressSpace&) = delete;
  PoolAddressSpace& operator=(const PoolAddressSpace&) = delete;

  // Addresses for `bytes`, rounded up to whole pages. `alignment`: a power of two up to kBaseAlignment; the block size
  // for large buffers, a page for small ones. kInvalidValue for arguments, kOutOfAddresses with figures when it does
  // not fit.
  Result<PoolRange> allocate(std::size_t bytes, std::size_t alignment);
  // kInvalidValue for what is not handed out now.
  Status deallocate(const PoolRange& range);

  PoolAddress base() const noexcept { return base_; }
  std::size_t bytes() const noexcept { return bytes_; }
  bool contains(PoolAddress address) const noexcept { return address - base_ < bytes_; }

  // Bytes handed out, in whole pages.
  std::size_t used_bytes() const;
  // asked_bytes is not known here and counts as what is handed out.
  FragmentationFigures fragmentation() const;

 private:
  PoolAddressSpace(PoolAddress base, std::size_t bytes, ExtentAllocator extents);

  const PoolAddress base_;
  const std::size_t bytes_;
  mutable Mutex mutex_;  // a leaf: nothing is called under it
  ExtentAllocator extents_ VMEM_GUARDED_BY(mutex_);
  std::size_t peak_used_ VMEM_GUARDED_BY(mutex_) = 0;
};

}  // namespace vmem
