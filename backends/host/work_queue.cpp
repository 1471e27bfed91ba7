#include "backends/host/work_queue.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "backends/host/machine.hpp"

namespace vmem {
namespace {

constexpr std::chrono::microseconds kPollInterval{50};
// How often a closing queue looks whether what it waits for hangs in another queue.
constexpr std::chrono::milliseconds kCloseInterval{5};

Status stopped(const char* what) { return Status(StatusCode::kTimeout, what); }

// Wakes a queue when an event is over. Outlives the queue where the event outlives it.
struct Wakeup {
  Mutex mutex;
  CondVar changed;
  bool done VMEM_GUARDED_BY(mutex) = false;
};

}  // namespace

Status WorkContext::sleep_until(TimePoint time) {
  if (queue_ == nullptr) {
    std::this_thread::sleep_until(time);
    return {};
  }
  MutexLock lock(queue_->mutex_);
  while (!queue_->failure_ && TimePoint::clock::now() < time) queue_->changed_.wait_until(queue_->mutex_, time);
  return queue_->failure_.value_or(Status());
}

Status WorkContext::wait_for(const std::shared_ptr<Completion>& event) {
  if (queue_ == nullptr) return event->wait(Event::Deadline::max());
  const auto wakeup = std::make_shared<Wakeup>();  // shared: the event may complete after this queue is gone
  event->then([wakeup](const Status&) {
    MutexLock lock(wakeup->mutex);
    wakeup->done = true;
    wakeup->changed.notify_all();
  });
  for (;;) {
    {
      MutexLock lock(queue_->mutex_);
      if (queue_->failure_) return *queue_->failure_;
      if (queue_->closing_ && queue_->machine_->num_hung.load() > 0) {
        if (!event->is_done()) return stopped("the stream was destroyed while it waited for work that hangs");
      }
    }
    MutexLock lock(wakeup->mutex);
    if (!wakeup->done) wakeup->changed.wait_until(wakeup->mutex, TimePoint::clock::now() + kCloseInterval);
    if (!wakeup->done) continue;
    finished_at = std::max(ready_at, event->finished_at());
    timed = true;
    return {};
  }
}

Status WorkContext::hang() {
  VMEM_CHECK(queue_ != nullptr);
  const HostMachine* machine = queue_->machine_;
  MutexLock lock(queue_->mutex_);
  const std::uint64_t releases = queue_->releases_;
  queue_->hung_ = true;
  machine->num_hung.fetch_add(1);
  while (!queue_->failure_ && !queue_->closing_ && queue_->releases_ == releases) {
    queue_->changed_.wait(queue_->mutex_);
  }
  machine->num_hung.fetch_sub(1);
  queue_->hung_ = false;
  if (queue_->failure_) return *queue_->failure_;
  return stopped("the work hung until faults were cleared");
}

Status WorkContext::poll(const std::function<bool()>& condition) {
  while (!condition()) {
    if (queue_ == nullptr) {
      std::this_thread::sleep_for(kPollInterval);
      continue;
    }
    MutexLock lock(queue_->mutex_);
    if (queue_->failure_) return *queue_->failure_;
    if (queue_->closing_) return stopped("the stream was destroyed while it waited for a signal");
    queue_->changed_.wait_until(queue_->mutex_, TimePoint::clock::now() + kPollInterval);
  }
  return {};
}

WorkQueue::~WorkQueue() { close(); }

Result<Event> WorkQueue::enqueue(Task task) {
  auto completion = std::make_shared<Completion>(machine_);
  MutexLock lock(mutex_);
  if (closing_) return Status(StatusCode::kInvalidValue, "the stream is being destroyed").with_device(device_);
  items_.push_back(Item{std::move(task), completion, TimePoint::clock::now()});
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { run(); });
  } else {
    changed_.notify_all();
  }
  return Event(std::move(completion));
}

Result<Event> WorkQueue::record() {
  {
    MutexLock lock(mutex_);
    if (!closing_ && !running_ && items_.empty() && !failure_) return Event();
  }
  return enqueue([](WorkContext& context) {
    context.timed = true;
    return Status();
  });
}

void WorkQueue::close() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    closing_ = true;
    changed_.notify_all();
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

void WorkQueue::release_hung() {
  MutexLock lock(mutex_);
  if (hung_) ++releases_;
  changed_.notify_all();
}

void WorkQueue::fail(const Status& status) {
  MutexLock lock(mutex_);
  if (!failure_) failure_ = status;
  changed_.notify_all();
}

void WorkQueue::run() {
  TimePoint now{};
  MutexLock lock(mutex_);
  for (;;) {
    while (items_.empty() && !closing_) changed_.wait(mutex_);
    if (items_.empty()) return;
    Item item = std::move(items_.front());
    items_.pop_front();
    running_ = true;
    lock.unlock();
    run_item(item, now);
    lock.lock();
    running_ = false;
  }
}

void WorkQueue::run_item(Item& item, TimePoint& now) {
  WorkContext context(this, std::max(now, item.enqueued_at));
  Status status;
  {
    MutexLock lock(mutex_);
    if (failure_) status = *failure_;
  }
  if (status) status = item.task(context);
  item.task = nullptr;  // what the task holds is let go before anyone hears that it is over
  now = context.timed ? context.finished_at : TimePoint::clock::now();
  item.completion->complete(status.with_device(std::string(status.device().empty() ? device_ : status.device())), now);
}

}  // namespace vmem
