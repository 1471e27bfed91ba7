// How long a call waits for others: until a deadline, or until it is cancelled.
#pragma once

#include <vmem/event.hpp>

#include <atomic>
#include <chrono>
#include <optional>

#include "runtime/support/thread_annotations.hpp"

namespace vmem {

// The deadline is reckoned when it is first asked for, and holds for all that the call waits for: calls that wait for
// nobody don't look at the clock.
//
// Thread contract: one thread's; `cancelled` may be set by any.
class Patience {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // `cancelled` may be null.
  explicit Patience(std::chrono::milliseconds wait, const std::atomic<bool>* cancelled = nullptr) noexcept
      : wait_(wait), cancelled_(cancelled) {}
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

  Deadline deadline() noexcept;
  bool is_cancelled() const noexcept { return cancelled_ != nullptr && cancelled_->load(); }
  // For the steps of a plan, which may be cancelled but have no deadline.
  const std::atomic<bool>* cancelled() const noexcept { return cancelled_; }

  // Waits for a change, for a while at most. False once the patience is at its end.
  bool wait(CondVar& changed, Mutex& mutex) VMEM_REQUIRES(mutex);
  // The same, but for a moment at most: for changes that may have been missed.
  bool wait_briefly(CondVar& changed, Mutex& mutex) VMEM_REQUIRES(mutex);
  // Waits for an event, likewise.
  bool wait(const Event& event);

 private:
  // When to look again; the deadline at the latest.
  Deadline next_look() noexcept;
  bool is_left() noexcept { return !is_cancelled() && std::chrono::steady_clock::now() < deadline(); }

  const std::chrono::milliseconds wait_;
  const std::atomic<bool>* const cancelled_;
  std::optional<Deadline> deadline_;
};

}  // namespace vmem
