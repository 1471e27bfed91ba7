// Short read sections that cost two plain stores, and a wait for those that may still see what was taken away: what
// lets a look-up use a record without a lock while another thread frees it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "runtime/support/process_barrier.hpp"
#include "runtime/support/stripes.hpp"
#include "runtime/support/thread_annotations.hpp"

namespace vmem {

// STRUCTURE: counters of readers in stripes (a thread keeps to its own), twice: for even and odd epochs.
//
// CONCURRENCY: a reader counts itself in at the epoch's parity and looks again: if the epoch has moved on, it starts
// over. A writer that has unpublished a record moves the epoch on and waits until the old parity's counters are zero:
// whoever comes later counts at the other parity, and can't find the record any more. Between a reader's count and its
// second look there must be a full barrier, as between the writer's step and its wait. Where the process has a barrier
// for all threads, the writer makes both, and a reader with a stripe of its own counts by a plain store; else readers
// count by a sequentially consistent addition. Writers are one at a time.
class ReadSections {
  struct alignas(kStripeBytes) Stripe {
    std::array<std::atomic<std::uint64_t>, 2> readers{};
  };

 public:
  // Must be short: no waiting inside, and no wait_for_readers.
  class Reader {
   public:
    explicit Reader(ReadSections& sections) noexcept {
      const std::size_t stripe = thread_stripe();
      plain_ = sections.barrier_for_all_ && is_own_stripe(stripe);
      for (;;) {
        const auto parity = sections.epoch_.load(std::memory_order_relaxed) & 1U;
        counter_ = &sections.stripes_[stripe].readers[parity];
        if (plain_) {
          counter_->store(counter_->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
          std::atomic_signal_fence(std::memory_order_seq_cst);
        } else {
          counter_->fetch_add(1);
        }
        if ((sections.epoch_.load() & 1U) == parity) return;
        leave();
      }
    }
    ~Reader() { leave(); }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

   private:
    void leave() noexcept {
      if (plain_) {
        counter_->store(counter_->load(std::memory_order_relaxed) - 1, std::memory_order_release);
      } else {
        counter_->fetch_sub(1, std::memory_order_release);
      }
    }

    std::atomic<std::uint64_t>* counter_;
    bool plain_;
  };

  // Returns when every reader that began before the call has ended.
  void wait_for_readers() VMEM_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto parity = epoch_.fetch_add(1) & 1U;
    if (barrier_for_all_) process_barrier();
    for (Stripe& stripe : stripes_) {
      while (stripe.readers[parity].load() != 0) std::this_thread::yield();
    }
  }

 private:
  const bool barrier_for_all_ = has_process_barrier();
  std::atomic<std::uint64_t> epoch_{0};
  std::array<Stripe, kNumStripes> stripes_{};
  Mutex mutex_;
};

}  // namespace vmem
