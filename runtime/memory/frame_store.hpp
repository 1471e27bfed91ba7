// One device's physical memory, as frames: what each holds one block.
//
// Thread contract: every member may be called from any thread.
#pragma once

#include <vmem/backend.hpp>
#include <vmem/status.hpp>
#include <vmem/types.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/memory/extent_allocator.hpp"
#include "runtime/memory/fragmentation.hpp"
#include "runtime/memory/frame.hpp"
#include "runtime/support/host_registrations.hpp"
#include "runtime/support/thread_annotations.hpp"

namespace vmem {

// STRUCTURE: on a device with virtual memory a frame is a whole chunk, and dropped chunks wait in a cache by size,
// bounded by `cache_bytes`. On other devices slabs of up to four blocks come from Device::allocate, frames are extents
// of them (by the fit strategy, over all slabs), and empty slabs wait within the same bound.
//
// ACCOUNTING: a frame is first reserved, then allocated out of the reservation: what is reserved can't be taken by
// another. used + reserved never passes the limit; only reservations that may use the spare pass limit - spare, which
// keeps a place free through which two full devices can exchange. Cached memory is the driver's again as soon as the
// limit or the driver needs it: used + cached never passes the limit either. Where the driver refuses memory within the
// limit, others hold it: the limit is lower by that, and so whoever needs memory evicts, until the driver has it again.
//
// HOST MEMORY: windows come and go, and registering memory takes longer than copying it. So a chunk of host memory is
// mapped a second time, for its whole life, and registered there; copies use that address. Slabs are registered as they
// are.
//
// CONCURRENCY: one mutex over the figures and the lists. The driver makes memory without it and takes memory back under
// it, so that what is given up is free before another asks. Of other classes only HostRegistrations' mutex, a leaf, is
// taken under either.
class FrameStore {
 public:
  struct Options {
    std::size_t limit_bytes = 0;  // the most the store holds; rounded down to the granularity
    std::size_t spare_bytes = 0;  // of these, what only SpareUse::kAllowed may reserve; rounded up
    FitStrategy strategy = FitStrategy::kBestFit;
    std::size_t block_bytes = kDefaultBlockBytes;
    std::size_t cache_bytes = 4 * kDefaultBlockBytes;  // the most dropped memory that is kept for reuse
    // Host memory is registered here, for quick copies, as long as the store holds it; null: it is not. Outlives the
    // store.
    HostRegistrations* registrations = nullptr;
  };
  enum class SpareUse : std::uint8_t { kForbidden, kAllowed };

  struct Figures {
    std::size_t limit_bytes = 0;
    std::size_t spare_bytes = 0;
    std::size_t used_bytes = 0;      // frames out
    std::size_t asked_bytes = 0;     // of these, what was asked for; used - asked is the waste of rounding
    std::size_t reserved_bytes = 0;  // promised, no frame yet
    std::size_t physical_bytes = 0;  // held from the driver: used, cached, and the free parts of slabs
    std::size_t peak_used_bytes = 0;
    std::size_t peak_physical_bytes = 0;
    std::size_t quarantined_bytes = 0;  // of used_bytes
    std::size_t num_frames = 0;
    std::size_t num_slabs = 0;  // 0 on devices with virtual memory
    // Of slabs: what lies free in them. Chunks have waste by rounding alone; the driver has their free memory in one.
    FragmentationFigures fragmentation;
  };

  // The device must outlive the store. kInvalidValue names the option.
  static Result<std::unique_ptr<FrameStore>> create(Device& device, const Options& options);
  // Gives everything back to the driver. REQUIRES: no frame is out.
  ~FrameStore();
  FrameStore(const FrameStore&) = delete;
  FrameStore& operator=(const FrameStore&) = delete;

  Device& device() const noexcept { return device_; }
  // True where frames are chunks for windows, false where they have addresses of their own.
  bool uses_windows() const noexcept { return uses_windows_; }
  std::size_t granularity() const noexcept { return granularity_; }
  // What the store may hold: the limit it was given, less what the driver was found to have given to others.
  std::size_t limit_bytes() const noexcept { return limit_ - withheld_.load(std::memory_order_relaxed); }
  std::size_t spare_bytes() const noexcept { return spare_; }
  // `bytes` rounded up to the granularity. kInvalidValue for 0; out of memory where it overflows.
  Result<std::size_t> frame_bytes(std::size_t bytes) const;

  // Sets the bytes of one frame aside (rounded as frame_bytes). Out of memory, named by the device's tier, where the
  // limit does not allow it.
  Status reserve(std::size_t bytes, SpareUse spare = SpareUse::kForbidden);
  // Gives a reservation up. REQUIRES: it was made, for as many bytes, and no frame was allocated out of it.
  void unreserve(std::size_t bytes);
  // A frame out of a reservation of as many bytes. On an error the reservation stays: the caller retries or gives it
  // up. Out of memory where the driver has none left though the limit would allow it (another process took it), or
  // where the free parts of slabs are too small. REQUIRES: it was reserved.
  Result<Frame> allocate(std::size_t bytes);
  // As dropping the frame.
  void free(Frame frame) noexcept { frame.reset(); }
  // As dropping the frame, but its bytes go to a reservation of this size at once, so that no other can take them
  // between.
  void free_to_reservation(Frame frame) noexcept;
  // For a frame whose mapping the driver did not take away: its memory is never used again and stays counted as used.
  void quarantine(Frame frame) noexcept;

  // Gives cached memory back to the driver; answers how many bytes.
  std::size_t trim();

  // Bytes that `reserve` would grant at this moment. Where the driver has refused memory, asks it what it has now.
  std::size_t available_bytes(SpareUse spare = SpareUse::kForbidden);
  // Bytes that are lost for good.
  std::size_t quarantined_bytes() const;
  Figures figures() const;

 private:
  friend class Frame;
  enum class Then : std::uint8_t { kFree, kReserve, kQuarantine };

  FrameStore(Device& device, const Options& options);

  StatusCode out_of_memory_code() const noexcept;
  Status refused(std::size_t asked, std::size_t free_bytes, const std::string& what_to_do) const;
  Status refused_by_driver(const Status& status, std::size_t asked);
  std::size_t available_locked(SpareUse spare) const VMEM_REQUIRES(mutex_);

  Result<Frame> allocate_chunk(std::size_t asked, std::size_t bytes) VMEM_EXCLUDES(mutex_);
  void pin(PinnedChunk& chunk) noexcept VMEM_EXCLUDES(mutex_);
  bool destroy(PinnedChunk& chunk) noexcept;
  bool destroy(FrameSlab& slab) noexcept;
  Result<Frame> create_frame(std::size_t asked, std::size_t bytes) VMEM_EXCLUDES(mutex_);
  void uncount(std::size_t bytes) noexcept VMEM_EXCLUDES(mutex_);
  void withhold() noexcept VMEM_EXCLUDES(mutex_);
  void look_for_withheld() noexcept VMEM_EXCLUDES(mutex_);
  Result<Frame> allocate_extent(std::size_t asked, std::size_t bytes) VMEM_EXCLUDES(mutex_);
  Result<Frame> cut_from_new_slab(std::size_t asked, std::size_t bytes) VMEM_REQUIRES(grow_mutex_);
  std::optional<Frame> cut_from_slabs(std::size_t asked, std::size_t bytes) VMEM_REQUIRES(mutex_);
  Frame cut(FrameSlab& slab, std::size_t asked, std::size_t bytes) VMEM_REQUIRES(mutex_);
  Result<std::unique_ptr<FrameSlab>> create_slab(std::size_t bytes, std::size_t smallest) VMEM_EXCLUDES(mutex_);
  void reserve_for_return() VMEM_REQUIRES(mutex_);
  void hand_out(Frame& frame, std::size_t asked, std::size_t bytes) noexcept VMEM_REQUIRES(mutex_);

  void take_back(Frame& frame, Then then) noexcept VMEM_EXCLUDES(mutex_);
  // Gives cached memory back to the driver, the oldest first, until at most `keep` bytes of it are left; what the
  // driver refuses to take stays. Answers how many bytes went.
  std::size_t shrink(std::size_t keep) VMEM_REQUIRES(mutex_);

  Device& device_;
  const bool uses_windows_;
  const std::size_t granularity_;
  const std::size_t limit_;
  const std::size_t spare_;
  const std::size_t block_;
  const std::size_t cache_limit_;
  const FitStrategy strategy_;
  HostRegistrations* const registrations_;  // null where nothing is registered

  // Of the limit, what others hold as far as is known; 0 until the driver refuses memory within the limit.
  std::atomic<std::size_t> withheld_{0};  // written under mutex_

  Mutex grow_mutex_;  // before mutex_: one slab is made at a time, and who waits for it looks into it first
  mutable Mutex mutex_;
  Figures figures_ VMEM_GUARDED_BY(mutex_);
  std::size_t cached_ VMEM_GUARDED_BY(mutex_) = 0;  // bytes in cache_, or of empty slabs
  std::size_t peak_asked_ VMEM_GUARDED_BY(mutex_) = 0;
  std::vector<PinnedChunk> cache_ VMEM_GUARDED_BY(mutex_);  // the oldest first
  std::vector<PinnedChunk> quarantine_ VMEM_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<FrameSlab>> slabs_ VMEM_GUARDED_BY(mutex_);  // the oldest first
};

}  // namespace vmem
