// One device as residency knows it: its frames, the spans that are on it, and whether it still works.
#pragma once

#include <vmem/backend.hpp>
#include <vmem/status.hpp>
#include <vmem/topology.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/memory/frame_store.hpp"
#include "runtime/residency/block.hpp"
#include "runtime/residency/region.hpp"

namespace vmem {

// Thread contract: guarded by the plan lock (Residency); `store` has its own.
struct DeviceMemory {
  DeviceIndex index = 0;
  Device* device = nullptr;
  std::unique_ptr<FrameStore> store;
  std::vector<std::unique_ptr<FrameSpan>> spans;
  Status failure;                   // why it takes part no longer
  std::atomic<bool> failed{false};  // the same at a glance, also without the lock

  bool is_usable() const noexcept { return store != nullptr && !failed.load(); }
  // What a plan may fill without the spare.
  std::size_t usable_bytes() const noexcept { return store->limit_bytes() - store->spare_bytes(); }
  // Of these, what is not lost to a driver that did not take it back.
  std::size_t fitting_bytes() const { return usable_bytes() - std::min(usable_bytes(), store->quarantined_bytes()); }

  // Memory for `num_blocks` blocks of a region in a row, out of a reservation of `bytes`; mapped in the region's window
  // where the device has windows (then it is one block).
  Result<FrameSpan*> make_span(Region& region, std::size_t first_block, std::size_t num_blocks, std::size_t bytes);
  // Unmaps it and gives its frame back. Work on it must be done, and no instance may be left on it.
  // With `reserve`, its bytes go to a reservation at once; answers how many.
  std::size_t end_span(FrameSpan& span, bool reserve);
  // Takes a span of a window out of reach, and puts it back (debug mode). On an error nothing changes.
  Status hide(FrameSpan& span);
  Status show(FrameSpan& span);

 private:
  bool unmap(const FrameSpan& span);
};

}  // namespace vmem
