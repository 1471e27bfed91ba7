// The event of this backend: a driver's event until the work is over, then its outcome.
//
// STRUCTURE: nobody polls an event that nobody waits for: `is_done` asks the driver itself, so that an event which is
// only recorded costs its record. `wait` asks for a short while and then, as `then` does, hands the event to the
// poller. The driver's event goes back to its context's stock as soon as the outcome is known.
//
// CONCURRENCY: every member may be called from any thread. Callbacks run without the mutex, in `then`'s caller where
// the work is over by then, else in the poller's thread.
#pragma once

#include <vmem/event.hpp>

#include <atomic>
#include <memory>
#include <vector>

#include "backends/cuda/machine.hpp"
#include "runtime/support/thread_annotations.hpp"

namespace vmem {

class CudaCompletion final : public Event::State, public std::enable_shared_from_this<CudaCompletion> {
 public:
  // `event` was taken from the context and recorded on `stream`.
  CudaCompletion(std::shared_ptr<CudaContext> context, CuEvent event, CuStream stream)
      : context_(std::move(context)), stream_(stream), event_(event) {}
  ~CudaCompletion() override;

  bool is_done() noexcept override VMEM_EXCLUDES(mutex_);
  Status wait(Event::Deadline deadline) override VMEM_EXCLUDES(mutex_);
  void then(Event::Callback callback) override VMEM_EXCLUDES(mutex_);
  void* native() noexcept override VMEM_EXCLUDES(mutex_);

  // For the poller: asks the driver; true once the work is over, and those who wait know. REQUIRES: the context is
  // current where it can be, and the thread's captures are relaxed.
  bool poll() VMEM_EXCLUDES(mutex_);
  // Work enqueued on the stream from now on starts after this. REQUIRES: the stream's context is current.
  Status order(CuStream stream, CudaContext& of_stream) VMEM_EXCLUDES(mutex_);

  const CudaMachine* machine() const noexcept { return &context_->machine(); }
  CudaContext& context() const noexcept { return *context_; }
  const void* stream() const noexcept { return stream_; }

 private:
  // Asks the driver. True where the outcome is known now. REQUIRES: as `poll`.
  bool settle() VMEM_REQUIRES(mutex_);
  void observe() VMEM_EXCLUDES(mutex_);

  const std::shared_ptr<CudaContext> context_;  // shared: the event outlives its device
  const CuStream stream_;                       // an identity; may be gone
  std::atomic<bool> done_{false};
  Mutex mutex_;
  CondVar over_;
  CuEvent event_ VMEM_GUARDED_BY(mutex_);  // null once done
  Status status_ VMEM_GUARDED_BY(mutex_);
  bool observed_ VMEM_GUARDED_BY(mutex_) = false;
  std::vector<Event::Callback> callbacks_ VMEM_GUARDED_BY(mutex_);
};

}  // namespace vmem
