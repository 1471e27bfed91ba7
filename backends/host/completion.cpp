#include "backends/host/completion.hpp"

namespace vmem {

bool Completion::is_done() noexcept {
  MutexLock lock(mutex_);
  return done_;
}

Status Completion::wait(Event::Deadline deadline) {
  MutexLock lock(mutex_);
  while (!done_) {
    if (deadline == Event::Deadline::max()) {
      completed_.wait(mutex_);
    } else if (!completed_.wait_until(mutex_, deadline) && !done_) {
      return Status(StatusCode::kTimeout, "the work was not over at the deadline");
    }
  }
  return status_;
}

void Completion::then(Event::Callback callback) {
  MutexLock lock(mutex_);
  if (!done_) {
    callbacks_.push_back(std::move(callback));
    return;
  }
  const Status status = status_;
  lock.unlock();
  callback(status);
}

void Completion::complete(const Status& status, TimePoint finished_at) {
  std::vector<Event::Callback> callbacks;
  {
    MutexLock lock(mutex_);
    if (done_) return;
    done_ = true;
    status_ = status;
    finished_at_ = finished_at;
    callbacks.swap(callbacks_);
    completed_.notify_all();
  }
  for (const auto& callback : callbacks) callback(status);
}

Completion::TimePoint Completion::finished_at() {
  MutexLock lock(mutex_);
  return finished_at_;
}

}  // namespace vmem
