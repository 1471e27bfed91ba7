// Fetches that nobody waits for at once: a queue and the thread that works on it.
#pragma once

#include <vmem/pool.hpp>
#include <vmem/status.hpp>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "runtime/support/thread_annotations.hpp"

namespace vmem {

// Thread contract: `cancelled` is atomic, the rest is guarded.
struct VMEM_LOCAL Prefetch::State {
  std::atomic<bool> cancelled{false};
  std::function<Status(const std::atomic<bool>& cancelled)> work;
  PoolAddress address = 0;
  std::size_t bytes = 0;

  Mutex mutex;
  CondVar finished;
  bool done VMEM_GUARDED_BY(mutex) = false;
  Status outcome VMEM_GUARDED_BY(mutex);

  void finish(Status status);
};

// Thread contract: every member may be called from any thread.
class Prefetcher {
 public:
  Prefetcher();
  // Cancels what is queued and waits for what is running.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  void submit(std::shared_ptr<Prefetch::State> state);
  // Cancels what touches the range and waits until it has ended.
  void cancel(PoolAddress address, std::size_t bytes);

 private:
  void run();

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::shared_ptr<Prefetch::State>> queue_ VMEM_GUARDED_BY(mutex_);
  std::shared_ptr<Prefetch::State> running_ VMEM_GUARDED_BY(mutex_);
  bool ending_ VMEM_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // made on first use
};

}  // namespace vmem
