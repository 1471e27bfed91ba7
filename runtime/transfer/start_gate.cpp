#include "runtime/transfer/start_gate.hpp"

#include <utility>

namespace vmem {

void StartGate::wait_for(const std::vector<Event>& events) {
  {
    MutexLock lock(mutex_);
    pending_ = events.size() + 1;
  }
  for (const Event& event : events) {
    event.then([self = shared_from_this()](const Status& status) { self->arrive(status); });
  }
  arrive(Status());
}

void StartGate::arrive(const Status& status) {
  if (!status) return cancel(status);
  TransferPtr transfer;
  {
    MutexLock lock(mutex_);
    if (--pending_ != 0 || !transfer_) return;
    transfer = std::move(transfer_);
  }
  // This is a completion's thread: what follows calls drivers, so the engine's own threads do it.
  if (!door_->enqueue([&route = route_, transfer] { route.submit(transfer); })) {
    transfer->fail(Status(StatusCode::kCancelled, "the transfer engine was destroyed"));
    transfer->end();
  }
}

void StartGate::cancel(const Status& status) {
  TransferPtr transfer;
  {
    MutexLock lock(mutex_);
    transfer = std::move(transfer_);
  }
  if (!transfer) return;
  transfer->fail(status);
  transfer->end();
}

}  // namespace vmem
