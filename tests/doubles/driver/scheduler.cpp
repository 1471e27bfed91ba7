#include "tests/doubles/driver/scheduler.hpp"

#include <signal.h>

#include <thread>
#include <utility>

namespace vmem::sim {
namespace {

constexpr std::chrono::microseconds kPollInterval{50};

thread_local bool t_waited = false;

}  // namespace

bool Running::poll(const std::function<bool()>& condition) {
  while (!condition()) {
    MutexLock lock(driver_mutex);
    if (scheduler_.dropped(device_)) return false;
    scheduler_.progress_.wait_until(driver_mutex, TimePoint::clock::now() + kPollInterval);
  }
  return true;
}

bool Running::hang() {
  MutexLock lock(driver_mutex);
  const std::uint64_t releases = scheduler_.releases_;
  ++scheduler_.num_hung_;
  while (!scheduler_.dropped(device_) && scheduler_.releases_ == releases) {
    scheduler_.progress_.wait(driver_mutex);
  }
  --scheduler_.num_hung_;
  return !scheduler_.dropped(device_);
}

std::shared_ptr<Marker> Scheduler::submit(const std::shared_ptr<Queue>& queue, Work work,
                                          std::vector<std::shared_ptr<Marker>> after) {
  while (queue->items.size() >= kMaxItems && !dropped(queue->device)) progress_.wait(driver_mutex);
  auto marker = std::make_shared<Marker>();
  queue->items.push_back({std::move(work), std::move(after), marker});
  queue->tail = marker;
  ++num_pending_;
  if (queue->has_thread) {
    queue->arrived.notify_one();
    return marker;
  }
  queue->has_thread = true;
  active_.insert(queue.get());
  // The application's signals are none of this thread's business, except the faults of its own work.
  sigset_t all, before;
  sigfillset(&all);
  sigdelset(&all, SIGSEGV);
  sigdelset(&all, SIGBUS);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([this, queue] { run(queue); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return marker;
}

void Scheduler::wait(const std::shared_ptr<Marker>& marker, int device) {
  t_waited = true;
  while (marker != nullptr && !marker->done && !dropped(device)) progress_.wait(driver_mutex);
}

bool Scheduler::take_waited() { return std::exchange(t_waited, false); }

void Scheduler::close(Queue& queue) {
  queue.closing = true;
  queue.arrived.notify_one();
}

void Scheduler::release_hung() {
  ++releases_;
  progress_.notify_all();
}

void Scheduler::wake() { progress_.notify_all(); }

void Scheduler::stop() {
  stopping_ = true;
  progress_.notify_all();
  for (Queue* const queue : active_) queue->arrived.notify_all();
  while (!active_.empty()) progress_.wait(driver_mutex);
}

void Scheduler::run(const std::shared_ptr<Queue>& queue) {
  MutexLock lock(driver_mutex);
  for (;;) {
    while (queue->items.empty() && !queue->closing && !stopping_) queue->arrived.wait(driver_mutex);
    if (queue->items.empty()) break;
    Queue::Item& item = queue->items.front();  // stays at its place while later ones arrive
    for (const auto& marker : item.after) {
      while (!marker->done && !dropped(queue->device)) progress_.wait(driver_mutex);
    }
    item.after.clear();
    WorkEnd end;
    if (!dropped(queue->device)) {
      Work work = std::move(item.work);
      lock.unlock();
      Running running(*this, queue->device);
      end = work(running);
      work = nullptr;  // what it holds is let go before anyone hears that it is done
      lock.lock();
    }
    if (end.error != Error::kNone && !stopping_) fail_(queue->device, end);
    item.marker->done = true;
    item.marker->at = TimePoint::clock::now();
    queue->items.pop_front();
    --num_pending_;
    progress_.notify_all();
  }
  queue->has_thread = false;
  active_.erase(queue.get());
  progress_.notify_all();
}

}  // namespace vmem::sim
