#include "backends/cuda/event_poller.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "backends/cuda/completion.hpp"
#include "backends/cuda/driver.hpp"
#include "backends/cuda/driver_call.hpp"
#include "runtime/support/thread_annotations.hpp"

namespace vmem {

class EventPoller::State {
 public:
  using Clock = std::chrono::steady_clock;

  explicit State(const CudaDriver& driver) : driver_(driver) {}

  // Starts the thread, once.
  void start(const std::shared_ptr<State>& self) VMEM_EXCLUDES(mutex_);
  void add(std::shared_ptr<CudaCompletion> event) VMEM_EXCLUDES(mutex_);
  // Ends the thread; waits for it unless it is the caller.
  void stop() VMEM_EXCLUDES(mutex_);
  void stop_for_exit() VMEM_EXCLUDES(mutex_);
  void run() VMEM_EXCLUDES(mutex_);

  Mutex mutex_;
  std::thread thread_ VMEM_GUARDED_BY(mutex_);

 private:
  struct OfStream {
    const CudaContext* context;
    const void* stream;
    std::deque<std::shared_ptr<CudaCompletion>> events;
  };
  static constexpr int kSweepsBetweenFull = 16;
  static constexpr int kPausesBetweenSweeps = 16;
  static constexpr std::chrono::microseconds kSpin{200};
  // So long after the last event the thread still looks for another: small copies come one after the other, and waking
  // it takes longer than one of them.
  static constexpr std::chrono::microseconds kLinger{100};
  static constexpr std::chrono::milliseconds kYield{5};
  static constexpr std::chrono::microseconds kNap{50};
  static constexpr std::chrono::milliseconds kLongNap{1};
  static constexpr std::chrono::seconds kUnlikely{1};
  // A thread that is caught in the driver must not keep the process from ending.
  static constexpr std::chrono::seconds kPatienceAtExit{1};

  // False once it is to end. Parks where nothing is in flight.
  bool take_new() VMEM_EXCLUDES(mutex_);
  void linger() const;
  bool sweep(bool all);
  // One context is current at a time, and stays so while events of it are asked.
  void enter(CudaContext& context);
  void leave();
  static void pause(Clock::duration idle);

  const CudaDriver& driver_;
  CondVar changed_;
  CondVar ended_;
  bool running_ VMEM_GUARDED_BY(mutex_) = false;
  std::vector<std::shared_ptr<CudaCompletion>> new_ VMEM_GUARDED_BY(mutex_);
  bool stopping_ VMEM_GUARDED_BY(mutex_) = false;
  bool parked_ VMEM_GUARDED_BY(mutex_) = false;
  std::atomic<bool> has_new_{false};
  // The thread's own.
  std::vector<OfStream> streams_;
  std::optional<CurrentContext> current_;
  const CudaContext* of_current_ = nullptr;
  std::shared_ptr<CudaContext> kept_;  // shared: the current one must not end meanwhile
};

void EventPoller::State::start(const std::shared_ptr<State>& self) {
  MutexLock lock(mutex_);
  if (running_ || stopping_) return;
  running_ = true;
  thread_ = std::thread([self] { self->run(); });
}

void EventPoller::State::add(std::shared_ptr<CudaCompletion> event) {
  MutexLock lock(mutex_);
  if (stopping_) {
    // Only while the process exits, which settles every event.
    lock.unlock();
    static_cast<void>(event->poll());
    return;
  }
  new_.push_back(std::move(event));
  has_new_.store(true, std::memory_order_release);
  if (parked_) changed_.notify_one();
}

void EventPoller::State::stop() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    has_new_.store(true, std::memory_order_release);
    thread = std::move(thread_);
    changed_.notify_one();
  }
  if (!thread.joinable()) return;
  if (thread.get_id() == std::this_thread::get_id()) {
    thread.detach();
  } else {
    thread.join();
  }
}

void EventPoller::State::stop_for_exit() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    has_new_.store(true, std::memory_order_release);
    changed_.notify_one();
    thread = std::move(thread_);
    const auto deadline = Clock::now() + kPatienceAtExit;
    while (running_ && thread.get_id() != std::this_thread::get_id() && ended_.wait_until(mutex_, deadline)) continue;
    if (running_ && thread.joinable()) thread.detach();
  }
  if (thread.joinable()) thread.join();
}

void EventPoller::State::linger() const {
  const auto end = Clock::now() + kLinger;
  while (!has_new_.load(std::memory_order_acquire) && Clock::now() < end) __builtin_ia32_pause();
}

bool EventPoller::State::take_new() {
  // Most sweeps find nothing new and take no lock.
  if (!streams_.empty() && !has_new_.load(std::memory_order_acquire)) return true;
  if (streams_.empty()) linger();
  std::vector<std::shared_ptr<CudaCompletion>> taken;
  {
    MutexLock lock(mutex_);
    while (streams_.empty() && new_.empty() && !stopping_) {
      parked_ = true;
      changed_.wait(mutex_);
      parked_ = false;
    }
    if (stopping_) return false;
    taken.swap(new_);
    has_new_.store(false, std::memory_order_release);
  }
  for (auto& event : taken) {
    const void* const stream = event->stream();
    const CudaContext* const context = &event->context();
    auto of_stream = std::find_if(streams_.begin(), streams_.end(), [&](const OfStream& candidate) {
      return candidate.stream == stream && candidate.context == context;
    });
    if (of_stream == streams_.end()) of_stream = streams_.insert(streams_.end(), OfStream{context, stream, {}});
    of_stream->events.push_back(std::move(event));
  }
  return true;
}

bool EventPoller::State::sweep(bool all) {
  bool progress = false;
  for (OfStream& of_stream : streams_) {
    if (of_stream.events.empty()) continue;
    enter(of_stream.events.front()->context());
    while (!of_stream.events.empty() && of_stream.events.front()->poll()) {
      of_stream.events.pop_front();
      progress = true;
    }
    if (all && of_stream.events.size() > 1) {
      progress |= std::erase_if(of_stream.events, [](const auto& event) { return event->poll(); }) != 0;
    }
  }
  if (progress) {
    std::erase_if(streams_, [](const OfStream& of_stream) { return of_stream.events.empty(); });
    // The last event may have been what kept the context.
    if (streams_.empty()) leave();
  }
  return progress;
}

void EventPoller::State::enter(CudaContext& context) {
  if (of_current_ == &context) return;
  leave();
  kept_ = context.shared_from_this();
  current_.emplace(context);
  // Not to be had: it is tried again, so that the failure comes to light.
  if (current_->status()) of_current_ = &context;
}

void EventPoller::State::leave() {
  current_.reset();
  of_current_ = nullptr;
  kept_.reset();
}

void EventPoller::State::pause(Clock::duration idle) {
  if (idle < kSpin) {
    // About a microsecond in which the driver's locks are others' to take.
    for (int i = 0; i < kPausesBetweenSweeps; ++i) __builtin_ia32_pause();
    return;
  }
  if (idle < kYield) return std::this_thread::yield();
  std::this_thread::sleep_for(idle < kUnlikely ? kNap
                                               : std::chrono::duration_cast<std::chrono::microseconds>(kLongNap));
}

void EventPoller::State::run() {
  // For the thread's life: what it asks must not invalidate a capture of the application.
  CuStreamCaptureMode mode = kCuCaptureRelaxed;
  static_cast<void>(driver_.cuThreadExchangeStreamCaptureMode(&mode));
  Clock::time_point last_progress = Clock::now();
  int since_full = 0;
  while (true) {
    const bool was_idle = streams_.empty();
    if (!take_new()) break;
    if (was_idle) last_progress = Clock::now();
    const bool all = ++since_full >= kSweepsBetweenFull;
    if (all) since_full = 0;
    if (sweep(all)) {
      last_progress = Clock::now();
    } else {
      pause(Clock::now() - last_progress);
    }
  }
  // Only the process's exit leaves anything: it settles every event.
  {
    MutexLock lock(mutex_);
    for (auto& event : new_) streams_.push_back({&event->context(), event->stream(), {event}});
    new_.clear();
  }
  static_cast<void>(sweep(true));
  streams_.clear();
  leave();
  MutexLock lock(mutex_);
  running_ = false;
  ended_.notify_all();
}

EventPoller::EventPoller(const CudaDriver& driver, std::function<bool()> in_child)
    : state_(std::make_shared<State>(driver)), in_child_(std::move(in_child)) {}

EventPoller::~EventPoller() {
  if (in_child_()) {
    // The thread exists in the parent alone: neither joined nor destroyed here.
    MutexLock lock(state_->mutex_);
    if (state_->thread_.joinable()) state_->thread_.detach();
    return;
  }
  state_->stop();
}

void EventPoller::add(std::shared_ptr<CudaCompletion> event) {
  state_->add(std::move(event));
  state_->start(state_);
}

void EventPoller::stop_for_exit() {
  if (!in_child_()) state_->stop_for_exit();
}

}  // namespace vmem
