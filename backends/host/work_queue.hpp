// A stream of the host backend: work in order, on a thread of its own.
//
// STRUCTURE: a FIFO of tasks. The thread starts with the first task and ends with the queue. A task computes for itself
// or blocks in one of `WorkContext`'s waits; nothing else of the backend blocks the thread.
//
// CONCURRENCY: every member may be called from any thread, but not from a task or a completion's callback. Every wait
// of a task ends when the queue is stopped: by `fail` (the device is lost), by `release_hung` (faults were cleared), or
// by `close` where what it waits for hangs.
#pragma once

#include <vmem/event.hpp>
#include <vmem/status.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "backends/host/completion.hpp"
#include "runtime/support/thread_annotations.hpp"

namespace vmem {

class WorkQueue;

// What a running task sees. Times are points on the device's own time line: a task that was ready to start at some time
// is accounted from then, however late the thread was woken, so that simulated links are not slowed by the scheduler.
class WorkContext {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  WorkContext(WorkQueue* queue, TimePoint ready) : ready_at(ready), finished_at(ready), queue_(queue) {}

  TimePoint ready_at;     // when everything before the task was over
  TimePoint finished_at;  // set by a task whose end is not the moment it returns
  bool timed = false;     // finished_at counts

  // Each answers with the device's failure where that comes first.
  Status sleep_until(TimePoint time);
  // Success when the event is over, well or not.
  Status wait_for(const std::shared_ptr<Completion>& event);
  // Until faults are cleared: kTimeout, or the device's failure.
  Status hang();
  // Asks again every 50 us, as a device that polls a word does.
  Status poll(const std::function<bool()>& condition);

 private:
  WorkQueue* queue_;  // null: the task runs inline, in the caller's thread
};

class WorkQueue {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Task = std::function<Status(WorkContext&)>;

  WorkQueue(const HostMachine* machine, std::string device) : machine_(machine), device_(std::move(device)) {}
  // Ends what hangs with kTimeout, waits for the rest.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // kInvalidValue once the queue is closing.
  Result<Event> enqueue(Task task) VMEM_EXCLUDES(mutex_);
  // An event of all work so far. Costs no task where nothing is in flight.
  Result<Event> record() VMEM_EXCLUDES(mutex_);
  // Waits for all work, ends the thread.
  void close() VMEM_EXCLUDES(mutex_);
  // What hangs now ends with kTimeout.
  void release_hung() VMEM_EXCLUDES(mutex_);
  // What waits and all that follows ends with this error.
  void fail(const Status& status) VMEM_EXCLUDES(mutex_);

 private:
  friend class WorkContext;
  struct Item {
    Task task;
    std::shared_ptr<Completion> completion;  // shared with the events handed out
    TimePoint enqueued_at;
  };

  void run() VMEM_EXCLUDES(mutex_);
  void run_item(Item& item, TimePoint& now) VMEM_EXCLUDES(mutex_);

  const HostMachine* const machine_;
  const std::string device_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Item> items_ VMEM_GUARDED_BY(mutex_);
  bool running_ VMEM_GUARDED_BY(mutex_) = false;  // a task is being run
  bool closing_ VMEM_GUARDED_BY(mutex_) = false;
  bool hung_ VMEM_GUARDED_BY(mutex_) = false;  // the task being run hangs
  std::uint64_t releases_ VMEM_GUARDED_BY(mutex_) = 0;
  std::optional<Status> failure_ VMEM_GUARDED_BY(mutex_);
  std::thread thread_ VMEM_GUARDED_BY(mutex_);
};

}  // namespace vmem
