// Queues of work: FIFOs, each on a thread of its own that starts with the first work.
//
// STRUCTURE: work is done in its queue's order, after the markers that it was told to come after. A marker is done when
// its work is, well or not. Work that fails fails its driver (`FailureState`): what is still enqueued is then dropped,
// markers are done all the same, and every later call answers with the failure.
//
// CONCURRENCY: one mutex, the driver's, guards all of it and of the driver; work itself runs without it. Queues are
// bounded: `submit` waits for room. Threads are detached, so that a process may exit while work hangs; `stop` ends them
// all.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <type_traits>
#include <vector>

#include "runtime/support/thread_annotations.hpp"
#include "tests/doubles/driver/error.hpp"

namespace vmem::sim {

struct Capture;
struct Context;
class Scheduler;

// It outlives the driver and every object of the process: threads of queues run until the end.
inline constinit Mutex driver_mutex;
static_assert(std::is_trivially_destructible_v<Mutex>);

using TimePoint = std::chrono::steady_clock::time_point;

// Guarded by the driver's mutex.
struct Marker {
  bool done = false;
  TimePoint at;
};

// How work ended. The code counts for kInjected.
struct WorkEnd {
  Error error = Error::kNone;
  int code = 0;
};

// What running work may wait for. Each answers false where the work is to end at once: its device failed, or the driver
// starts anew.
class Running {
 public:
  Running(Scheduler& scheduler, int device) : scheduler_(scheduler), device_(device) {}
  int device() const { return device_; }
  // The condition is asked without the mutex, every 50 us, as a device polls a word.
  bool poll(const std::function<bool()>& condition);
  // Until vmem_double_release_hung.
  bool hang();

 private:
  Scheduler& scheduler_;
  const int device_;
};

using Work = std::function<WorkEnd(Running&)>;

// A stream. Guarded by the driver's mutex; its members are the scheduler's and the captures'.
struct Queue {
  int device = 0;
  Context* context = nullptr;
  bool legacy = false;
  bool blocking = true;  // ordered with the legacy queue
  unsigned flags = 0;
  int priority = 0;
  std::uint64_t id = 0;

  struct Item {
    Work work;
    std::vector<std::shared_ptr<Marker>> after;
    std::shared_ptr<Marker> marker;
  };
  std::deque<Item> items;
  std::shared_ptr<Marker> tail;  // of the last work enqueued
  bool has_thread = false;
  bool closing = false;
  CondVar arrived;

  std::shared_ptr<Capture> capture;
};

// The driver's failures: a sticky error of the whole process, or of one device. 0 is none.
struct FailureState {
  int process = 0;
  std::vector<int> devices;

  int of(int device) const {
    if (process != 0) return process;
    return device >= 0 && static_cast<std::size_t>(device) < devices.size() ? devices[static_cast<std::size_t>(device)]
                                                                            : 0;
  }
};

class Scheduler {
 public:
  // `fail` turns the end of work that failed into the driver's failure; it is called with the mutex held.
  Scheduler(FailureState& failures, std::function<void(int device, WorkEnd end)> fail)
      : failures_(failures), fail_(std::move(fail)) {}

  // Enqueues; waits while the queue is full.
  std::shared_ptr<Marker> submit(const std::shared_ptr<Queue>& queue, Work work,
                                 std::vector<std::shared_ptr<Marker>> after) VMEM_REQUIRES(driver_mutex);
  // Until the marker is done or the device has failed.
  void wait(const std::shared_ptr<Marker>& marker, int device) VMEM_REQUIRES(driver_mutex);
  // This thread has called `wait` since it last asked.
  static bool take_waited();
  // The queue ends when its work is done; nothing may be submitted any more.
  void close(Queue& queue) VMEM_REQUIRES(driver_mutex);

  void release_hung() VMEM_REQUIRES(driver_mutex);
  // Wakes all that waits, to look at failures again.
  void wake() VMEM_REQUIRES(driver_mutex);
  std::uint64_t num_hung() const VMEM_REQUIRES(driver_mutex) { return num_hung_; }
  std::uint64_t num_pending() const VMEM_REQUIRES(driver_mutex) { return num_pending_; }

  // Drops all work and waits for the threads to end.
  void stop() VMEM_REQUIRES(driver_mutex);

 private:
  friend class Running;
  void run(const std::shared_ptr<Queue>& queue) VMEM_EXCLUDES(driver_mutex);
  bool dropped(int device) const VMEM_REQUIRES(driver_mutex) { return stopping_ || failures_.of(device) != 0; }

  static constexpr std::size_t kMaxItems = 1024;  // of a queue

  FailureState& failures_;
  const std::function<void(int, WorkEnd)> fail_;
  CondVar progress_;  // a marker is done, a queue has room, a failure, a release
  bool stopping_ VMEM_GUARDED_BY(driver_mutex) = false;
  std::uint64_t releases_ VMEM_GUARDED_BY(driver_mutex) = 0;
  std::uint64_t num_hung_ VMEM_GUARDED_BY(driver_mutex) = 0;
  std::uint64_t num_pending_ VMEM_GUARDED_BY(driver_mutex) = 0;
  std::set<Queue*> active_ VMEM_GUARDED_BY(driver_mutex);  // that have a thread
};

}  // namespace vmem::sim
