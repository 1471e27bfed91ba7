#include "backends/cuda/completion.hpp"

#include <chrono>
#include <thread>
#include <utility>

#include "backends/cuda/driver_call.hpp"

namespace vmem {
namespace {

// How long a waiter asks for itself before it leaves that to the poller: less than waking a thread takes.
constexpr std::chrono::microseconds kOwnPatience{30};

}  // namespace

CudaCompletion::~CudaCompletion() {
  // Nobody can see the event any more, whether its work is over or not; a later record of it starts anew.
  if (event_ != nullptr) context_->give_event(event_);
}

bool CudaCompletion::settle() {
  if (event_ == nullptr) return true;
  const CuResult result = process_is_exiting() ? kCuNotReady : context_->driver().cuEventQuery(event_);
  if (result == kCuNotReady) {
    // A device that has failed elsewhere may leave its events as they are.
    status_ = context_->failure();
    if (status_) return false;
  } else {
    status_ = context_->check(result, "cuEventQuery");
  }
  context_->give_event(event_);
  event_ = nullptr;
  done_.store(true, std::memory_order_release);
  over_.notify_all();
  return true;
}

bool CudaCompletion::is_done() noexcept {
  if (done_.load(std::memory_order_acquire)) return true;
  const DriverCall call(*context_);
  MutexLock lock(mutex_);
  // Callbacks are the poller's to make: the caller may hold what they need.
  if (observed_) return event_ == nullptr;
  return settle();
}

bool CudaCompletion::poll() {
  std::vector<Event::Callback> callbacks;
  Status status;
  {
    MutexLock lock(mutex_);
    if (!settle()) return false;
    callbacks.swap(callbacks_);
    status = status_;
  }
  for (const auto& callback : callbacks) callback(status);
  return true;
}

void CudaCompletion::observe() {
  {
    MutexLock lock(mutex_);
    if (observed_ || event_ == nullptr) return;
    observed_ = true;
  }
  context_->machine().poller.add(shared_from_this());
}

Status CudaCompletion::wait(Event::Deadline deadline) {
  const auto start = std::chrono::steady_clock::now();
  while (!is_done()) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline || now - start > kOwnPatience) break;
    std::this_thread::yield();
  }
  if (!done_.load(std::memory_order_acquire)) observe();
  MutexLock lock(mutex_);
  while (event_ != nullptr) {
    if (deadline == Event::Deadline::max()) {
      over_.wait(mutex_);
    } else if (!over_.wait_until(mutex_, deadline) && event_ != nullptr) {
      return Status(StatusCode::kTimeout, "the work was not over at the deadline").with_device(context_->name());
    }
  }
  return status_;
}

void CudaCompletion::then(Event::Callback callback) {
  Status status;
  {
    const DriverCall call(*context_);
    MutexLock lock(mutex_);
    // Once observed, outcomes come from the poller, so that callbacks keep their order.
    const bool over = observed_ ? event_ == nullptr : settle();
    if (!over) {
      callbacks_.push_back(std::move(callback));
      lock.unlock();
      return observe();
    }
    status = status_;
  }
  callback(status);
}

void* CudaCompletion::native() noexcept {
  MutexLock lock(mutex_);
  return event_;
}

Status CudaCompletion::order(CuStream stream, CudaContext& of_stream) {
  // Under the mutex: once done, the event is recorded anew by others.
  MutexLock lock(mutex_);
  if (event_ == nullptr) return {};
  return of_stream.check(of_stream.driver().cuStreamWaitEvent(stream, event_, 0), "cuStreamWaitEvent");
}

}  // namespace vmem
