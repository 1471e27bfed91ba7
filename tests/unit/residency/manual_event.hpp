// An event that a test completes by hand.
#pragma once

#include <vmem/event.hpp>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/support/thread_annotations.hpp"

namespace vmem::test {

class ManualEvent final : public Event::State {
 public:
  static std::shared_ptr<ManualEvent> create() { return std::make_shared<ManualEvent>(); }

  bool is_done() noexcept override {
    MutexLock lock(mutex_);
    return outcome_.has_value();
  }
  Status wait(Event::Deadline deadline) override {
    MutexLock lock(mutex_);
    while (!outcome_) {
      if (deadline == Event::Deadline::max()) {
        changed_.wait(mutex_);
      } else if (!changed_.wait_until(mutex_, deadline) && !outcome_) {
        return {StatusCode::kTimeout, "not completed yet"};
      }
    }
    return *outcome_;
  }
  void then(Event::Callback callback) override {
    MutexLock lock(mutex_);
    if (!outcome_) return callbacks_.push_back(std::move(callback));
    const Status outcome = *outcome_;
    lock.unlock();
    callback(outcome);
  }

  void complete(const Status& outcome = {}) {
    std::vector<Event::Callback> callbacks;
    {
      MutexLock lock(mutex_);
      outcome_ = outcome;
      callbacks.swap(callbacks_);
      changed_.notify_all();
    }
    for (const auto& callback : callbacks) callback(outcome);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::optional<Status> outcome_ VMEM_GUARDED_BY(mutex_);
  std::vector<Event::Callback> callbacks_ VMEM_GUARDED_BY(mutex_);
};

}  // namespace vmem::test
