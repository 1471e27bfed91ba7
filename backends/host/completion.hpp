// The event of this backend: completed once, by the queue that ran the work.
#pragma once

#include <vmem/event.hpp>

#include <chrono>
#include <utility>
#include <vector>

#include "runtime/support/thread_annotations.hpp"

namespace vmem {

struct HostMachine;

class Completion final : public Event::State {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit Completion(const HostMachine* machine) : machine_(machine) {}

  bool is_done() noexcept override VMEM_EXCLUDES(mutex_);
  Status wait(Event::Deadline deadline) override VMEM_EXCLUDES(mutex_);
  void then(Event::Callback callback) override VMEM_EXCLUDES(mutex_);
  void* native() noexcept override { return this; }

  // `finished_at`: when the work was over on its device's own time line. Calls after the first do nothing.
  void complete(const Status& status, TimePoint finished_at) VMEM_EXCLUDES(mutex_);
  // REQUIRES: is_done().
  TimePoint finished_at() VMEM_EXCLUDES(mutex_);
  // Tells events of one backend object from another's; never followed.
  const HostMachine* machine() const noexcept { return machine_; }

 private:
  const HostMachine* const machine_;
  Mutex mutex_;
  CondVar completed_;
  bool done_ VMEM_GUARDED_BY(mutex_) = false;
  Status status_ VMEM_GUARDED_BY(mutex_);
  TimePoint finished_at_ VMEM_GUARDED_BY(mutex_);
  std::vector<Event::Callback> callbacks_ VMEM_GUARDED_BY(mutex_);
};

}  // namespace vmem
