#include "runtime/transfer/transfer_completion.hpp"

#include <chrono>
#include <thread>
#include <utility>

namespace vmem {
namespace {

// How long a waiter looks for itself before it sleeps. A small copy is over by then, and waking a thread would take as
// long again. Others get the processor meanwhile.
constexpr std::chrono::microseconds kOwnPatience{50};

}  // namespace

Status TransferCompletion::wait(Event::Deadline deadline) {
  const auto start = std::chrono::steady_clock::now();
  for (auto now = start; !is_done() && now < deadline && now - start < kOwnPatience;) {
    std::this_thread::yield();
    now = std::chrono::steady_clock::now();
  }
  MutexLock lock(mutex_);
  while (!is_done()) {
    if (deadline == Event::Deadline::max()) {
      completed_.wait(mutex_);
    } else if (!completed_.wait_until(mutex_, deadline) && !is_done()) {
      return Status(StatusCode::kTimeout, "the transfer is not done at the caller's deadline; it goes on");
    }
  }
  return status_;
}

void TransferCompletion::then(Event::Callback callback) {
  Status status;
  {
    MutexLock lock(mutex_);
    if (!is_done()) {
      callbacks_.push_back(std::move(callback));
      return;
    }
    status = status_;
  }
  callback(status);
}

void* TransferCompletion::native() noexcept { return origin_.state() != nullptr ? origin_.state()->native() : nullptr; }

Event::State* TransferCompletion::origin() noexcept {
  return origin_.state() != nullptr ? origin_.state()->origin() : this;
}

bool TransferCompletion::complete(Status status) {
  std::vector<Event::Callback> callbacks;
  {
    MutexLock lock(mutex_);
    if (is_done()) return false;
    status_ = status;
    callbacks.swap(callbacks_);
    done_.store(true, std::memory_order_release);
    completed_.notify_all();
  }
  for (const auto& callback : callbacks) callback(status);
  return true;
}

Event when_all(const std::vector<Event>& events) {
  struct Gathering {
    explicit Gathering(std::size_t count) : pending(count) {}
    TransferCompletion completion;
    Mutex mutex;
    std::size_t pending VMEM_GUARDED_BY(mutex);
    Status error VMEM_GUARDED_BY(mutex);
  };
  if (events.empty()) return Event();
  auto gathering = std::make_shared<Gathering>(events.size());  // shared by the callbacks and the event
  Event all(std::shared_ptr<Event::State>(gathering, &gathering->completion));
  for (const Event& event : events) {
    event.then([gathering](const Status& status) {
      Status outcome;
      {
        MutexLock lock(gathering->mutex);
        if (gathering->error.is_ok()) gathering->error = status;
        if (--gathering->pending != 0) return;
        outcome = gathering->error;
      }
      gathering->completion.complete(outcome);
    });
  }
  return all;
}

Event completed_event(Status status) {
  if (status.is_ok()) return Event();
  auto state = std::make_shared<TransferCompletion>();
  state->complete(std::move(status));
  return Event(std::move(state));
}

}  // namespace vmem
