// Host memory kept for steps that must not fail half-way: a release, a commit, an end.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <new>

#include "runtime/support/thread_annotations.hpp"

namespace vmem {

// Thread contract: every member may be called from any thread, `finish` also under other locks: its own is a leaf.
class MemoryReserve {
 public:
  MemoryReserve();

  // Runs a step to its end. Where it throws for want of memory some is given back to the heap and it is run again, so
  // it must be one that may be run again after it threw. When the reserve is used up and there is still no memory, the
  // process ends.
  template <typename Step>
  void finish(Step step) noexcept {
    for (;;) {
      try {
        step();
        break;
      } catch (const std::bad_alloc&) {
        give();
      }
    }
    if (is_short_.load(std::memory_order_relaxed)) refill();
  }

 private:
  static constexpr std::size_t kPieceBytes = std::size_t{64} << 10U;

  void give() noexcept VMEM_EXCLUDES(mutex_);
  void refill() noexcept VMEM_EXCLUDES(mutex_);

  std::atomic<bool> is_short_{false};
  Mutex mutex_;
  std::array<std::unique_ptr<std::byte[]>, 4> pieces_ VMEM_GUARDED_BY(mutex_);
};

}  // namespace vmem
