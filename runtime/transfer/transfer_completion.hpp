// The event of a transfer: completed by the engine, waited for by anybody.
#pragma once

#include <vmem/event.hpp>
#include <vmem/status.hpp>

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/support/thread_annotations.hpp"

namespace vmem {

// Thread contract: every member may be called from any thread.
class TransferCompletion final : public Event::State {
 public:
  TransferCompletion() = default;

  bool is_done() noexcept override { return done_.load(std::memory_order_acquire); }
  Status wait(Event::Deadline deadline) override;
  void then(Event::Callback callback) override;
  void* native() noexcept override;
  Event::State* origin() noexcept override;

  // The last of the device's own events that this one stands for. REQUIRES: nobody else has the completion as event
  // yet.
  void set_origin(Event origin) { origin_ = std::move(origin); }
  // The first call counts; it runs the callbacks. False for a later one.
  bool complete(Status status);

 private:
  Event origin_;
  std::atomic<bool> done_{false};
  Mutex mutex_;
  CondVar completed_;
  Status status_ VMEM_GUARDED_BY(mutex_);
  std::vector<Event::Callback> callbacks_ VMEM_GUARDED_BY(mutex_);
};

// An event that is over with `status`.
Event completed_event(Status status);

// An event that is over when all of them are, with the first error that came.
Event when_all(const std::vector<Event>& events);

}  // namespace vmem
