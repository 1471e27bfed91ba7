// Driver: streams, events, captures and graphs.
#include <algorithm>

#include "tests/doubles/driver/driver.hpp"

namespace vmem::sim {
namespace {

thread_local const CallFault* t_call_fault = nullptr;
thread_local CaptureMode t_capture_mode = CaptureMode::kGlobal;

// The objects of this thread are gone, and other libraries' destructors still call the driver.
thread_local bool t_ended = false;

// The default streams of this thread, by context. A context's id is never used again.
class ThreadQueues {
 public:
  ThreadQueues() = default;
  ~ThreadQueues() {
    t_ended = true;
    MutexLock lock(driver_mutex);
    for (const auto& [id, queue] : queues_) {
      queue->closing = true;
      queue->arrived.notify_one();
    }
  }
  ThreadQueues(const ThreadQueues&) = delete;
  ThreadQueues& operator=(const ThreadQueues&) = delete;

  std::shared_ptr<Queue> find(std::uint64_t context) const {
    const auto found = queues_.find(context);
    return found == queues_.end() ? nullptr : found->second;
  }
  void add(std::uint64_t context, std::shared_ptr<Queue> queue) { queues_.emplace(context, std::move(queue)); }

 private:
  std::map<std::uint64_t, std::shared_ptr<Queue>> queues_;
};

thread_local ThreadQueues t_queues;

}  // namespace

void Driver::set_call_fault(const CallFault* fault) { t_call_fault = fault; }

const CallFault* Driver::call_fault() { return t_call_fault; }

// -- Enqueueing ------------------------------------------------------------------------------------------------------

Capture* Driver::implicit_capture(const Queue& queue) {
  if (!queue.legacy) return nullptr;
  for (const auto& weak : queue.context->queues) {
    const auto other = weak.lock();
    if (other != nullptr && other->blocking && other->capture != nullptr) return other->capture.get();
  }
  return nullptr;
}

std::vector<std::shared_ptr<Marker>> Driver::implicit_order(const Queue& queue) {
  std::vector<std::shared_ptr<Marker>> order;
  if (!queue.legacy) {
    const auto& tail = queue.context->legacy->tail;
    if (queue.blocking && tail != nullptr && !tail->done) order.push_back(tail);
    return order;
  }
  for (const auto& weak : queue.context->queues) {
    const auto other = weak.lock();
    if (other == nullptr || other.get() == &queue || !other->blocking) continue;
    if (other->tail != nullptr && !other->tail->done) order.push_back(other->tail);
  }
  return order;
}

Error Driver::submit(const std::shared_ptr<Queue>& queue, Work work, std::vector<std::shared_ptr<Marker>> after,
                     std::shared_ptr<Marker>& marker) {
  marker = nullptr;
  if (queue->closing) return Error::kInvalidHandle;
  if (Capture* const capture = implicit_capture(*queue)) {
    invalidate(*capture);
    return Error::kCaptureImplicit;
  }
  if (const CallFault* const fault = t_call_fault) {
    if (fault->fail_work != 0) {
      work = [code = fault->fail_work](Running&) { return WorkEnd{Error::kInjected, code}; };
    }
    if (fault->hang) {
      work = [inner = std::move(work)](Running& running) { return running.hang() ? inner(running) : WorkEnd(); };
    }
  }
  if (queue->capture != nullptr) {
    if (queue->capture->invalid) return Error::kCaptureInvalidated;
    queue->capture->add(queue.get(), std::move(work));
    return Error::kNone;
  }
  auto order = implicit_order(*queue);
  after.insert(after.end(), order.begin(), order.end());
  marker = scheduler_.submit(queue, std::move(work), std::move(after));
  return Error::kNone;
}

Error Driver::submit_and_wait(const std::shared_ptr<Queue>& queue, Work work, Wait wait) {
  std::shared_ptr<Marker> marker;
  const Error error = submit(queue, std::move(work), {}, marker);
  if (error == Error::kNone && wait == Wait::kAsDriversDo) scheduler_.wait(marker, queue->device);
  return error;
}

Error Driver::enqueue(const std::shared_ptr<Queue>& queue, Work work, Wait wait) {
  MutexLock lock(driver_mutex);
  return submit_and_wait(queue, std::move(work), wait);
}

// -- Streams ---------------------------------------------------------------------------------------------------------

std::shared_ptr<Queue> Driver::make_queue(Context& context, bool blocking, unsigned flags) {
  auto queue = std::make_shared<Queue>();
  queue->device = context.device;
  queue->context = &context;
  queue->blocking = blocking;
  queue->flags = flags;
  queue->id = ++last_queue_;
  std::erase_if(context.queues, [](const auto& weak) { return weak.expired(); });
  context.queues.push_back(queue);
  return queue;
}

Error Driver::create_queue(Context& context, bool blocking, unsigned flags, int priority, Handle& handle) {
  MutexLock lock(driver_mutex);
  auto queue = make_queue(context, blocking, flags);
  queue->priority = priority;
  handle = queues_.add(std::move(queue));
  return Error::kNone;
}

Error Driver::destroy_queue(Handle handle) {
  MutexLock lock(driver_mutex);
  const auto queue = queues_.take(handle);
  if (queue == nullptr) return Error::kInvalidHandle;
  if (queue->capture != nullptr) invalidate(*queue->capture);
  scheduler_.close(*queue);
  return Error::kNone;
}

std::shared_ptr<Queue> Driver::queue(Handle handle) {
  MutexLock lock(driver_mutex);
  return queues_.find(handle);
}

std::shared_ptr<Queue> Driver::thread_queue(Context& context) {
  if (!t_ended) {
    if (auto queue = t_queues.find(context.id)) return queue;
  }
  MutexLock lock(driver_mutex);
  auto queue = make_queue(context, true, 0);
  if (!t_ended) t_queues.add(context.id, queue);
  return queue;
}

Error Driver::synchronize(const std::shared_ptr<Queue>& queue) {
  MutexLock lock(driver_mutex);
  if (queue->capture != nullptr) {
    invalidate(*queue->capture);
    return Error::kCaptureUnsupported;
  }
  if (Capture* const capture = implicit_capture(*queue)) {
    invalidate(*capture);
    return Error::kCaptureImplicit;
  }
  auto order = queue->legacy ? implicit_order(*queue) : std::vector<std::shared_ptr<Marker>>();
  order.push_back(queue->tail);
  for (const auto& marker : order) scheduler_.wait(marker, queue->device);
  return Error::kNone;
}

Error Driver::query(const Queue& queue) {
  MutexLock lock(driver_mutex);
  if (queue.capture != nullptr) {
    invalidate(*queue.capture);
    return Error::kCaptureUnsupported;
  }
  if (queue.tail != nullptr && !queue.tail->done) return Error::kNotReady;
  return queue.legacy && !implicit_order(queue).empty() ? Error::kNotReady : Error::kNone;
}

// -- Events ----------------------------------------------------------------------------------------------------------

Error Driver::create_event(Context& context, bool timed, Handle& handle) {
  MutexLock lock(driver_mutex);
  auto event = std::make_shared<Event>();
  event->context = &context;
  event->timed = timed;
  handle = events_.add(std::move(event));
  return Error::kNone;
}

Error Driver::destroy_event(Handle event) {
  MutexLock lock(driver_mutex);
  return events_.take(event) != nullptr ? Error::kNone : Error::kInvalidHandle;
}

Error Driver::record(Handle handle, const std::shared_ptr<Queue>& queue) {
  MutexLock lock(driver_mutex);
  const auto event = events_.find(handle);
  if (event == nullptr || event->context != queue->context) return Error::kInvalidHandle;
  if (queue->capture != nullptr) {
    if (queue->capture->invalid) return Error::kCaptureInvalidated;
    event->marker = nullptr;
    event->capture = queue->capture;
    event->captured_queue = queue.get();
    event->captured_step = queue->capture->members[queue.get()].last;
    return Error::kNone;
  }
  std::shared_ptr<Marker> marker;
  const Error error = submit(
      queue, [](Running&) { return WorkEnd(); }, {}, marker);
  if (error != Error::kNone) return error;
  event->capture = nullptr;
  event->marker = std::move(marker);
  return Error::kNone;
}

Error Driver::wait_captured_event(const std::shared_ptr<Queue>& queue, const Event& event) {
  Capture& capture = *event.capture;
  if (capture.invalid) return Error::kCaptureInvalidated;
  if (queue->legacy) {
    invalidate(capture);
    return Error::kCaptureImplicit;
  }
  if (queue->capture == nullptr) {
    queue->capture = event.capture;
    capture.queues.push_back(queue);
  } else if (queue->capture != event.capture) {
    invalidate(*queue->capture);
    invalidate(capture);
    return Error::kCaptureMerge;
  }
  capture.join(queue.get(), event.captured_queue, event.captured_step);
  return Error::kNone;
}

Error Driver::wait_event(const std::shared_ptr<Queue>& queue, Handle handle) {
  MutexLock lock(driver_mutex);
  const auto event = events_.find(handle);
  if (event == nullptr) return Error::kInvalidHandle;
  const bool captured =
      event->capture != nullptr && std::find(captures_.begin(), captures_.end(), event->capture) != captures_.end();
  if (captured) return wait_captured_event(queue, *event);
  if (event->marker == nullptr) return Error::kNone;
  if (queue->capture != nullptr) {
    invalidate(*queue->capture);
    return Error::kCaptureIsolation;
  }
  if (event->marker->done) return Error::kNone;
  std::shared_ptr<Marker> marker;
  return submit(
      queue, [](Running&) { return WorkEnd(); }, {event->marker}, marker);
}

Error Driver::query_event(Handle handle) {
  MutexLock lock(driver_mutex);
  const auto event = events_.find(handle);
  if (event == nullptr) return Error::kInvalidHandle;
  if (event->capture != nullptr) return Error::kCapturedEvent;
  return event->marker == nullptr || event->marker->done ? Error::kNone : Error::kNotReady;
}

Error Driver::synchronize_event(Handle handle) {
  MutexLock lock(driver_mutex);
  const auto event = events_.find(handle);
  if (event == nullptr) return Error::kInvalidHandle;
  if (event->capture != nullptr) return Error::kCapturedEvent;
  scheduler_.wait(event->marker, event->context->device);
  return Error::kNone;
}

Error Driver::elapsed(Handle begin, Handle end, float& milliseconds) {
  MutexLock lock(driver_mutex);
  const auto first = events_.find(begin);
  const auto last = events_.find(end);
  if (first == nullptr || last == nullptr || !first->timed || !last->timed || first->marker == nullptr ||
      last->marker == nullptr) {
    return Error::kInvalidHandle;
  }
  if (!first->marker->done || !last->marker->done) return Error::kNotReady;
  milliseconds = std::chrono::duration<float, std::milli>(last->marker->at - first->marker->at).count();
  return Error::kNone;
}

// -- Captures --------------------------------------------------------------------------------------------------------

void Driver::invalidate(Capture& capture) { capture.invalid = true; }

void Driver::leave_capture(Capture& capture) {
  for (const auto& queue : capture.queues) queue->capture = nullptr;
  capture.queues.clear();
  std::erase_if(captures_, [&](const auto& each) { return each.get() == &capture; });
}

Error Driver::begin_capture(const std::shared_ptr<Queue>& queue, CaptureMode mode) {
  MutexLock lock(driver_mutex);
  if (queue->legacy) return Error::kCaptureUnsupported;
  if (queue->capture != nullptr) return Error::kInvalidValue;
  auto capture = std::make_shared<Capture>();
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = queue.get();
  capture->id = ++last_capture_;
  capture->queues.push_back(queue);
  capture->members[queue.get()] = {};
  queue->capture = capture;
  captures_.push_back(std::move(capture));
  return Error::kNone;
}

Error Driver::end_capture(const std::shared_ptr<Queue>& queue, Handle& graph) {
  MutexLock lock(driver_mutex);
  const auto capture = queue->capture;
  if (capture == nullptr) return Error::kInvalidValue;
  if (capture->mode != CaptureMode::kRelaxed && capture->thread != std::this_thread::get_id()) {
    return Error::kCaptureWrongThread;
  }
  if (capture->origin != queue.get()) {
    invalidate(*capture);
    return Error::kCaptureUnmatched;
  }
  leave_capture(*capture);
  if (capture->invalid) return Error::kCaptureInvalidated;
  if (!capture->all_joined()) return Error::kCaptureUnjoined;
  graph = graphs_.add(capture->graph);
  return Error::kNone;
}

Error Driver::capture_status(const Queue& queue, CaptureStatus& status, std::uint64_t& id) {
  MutexLock lock(driver_mutex);
  if (implicit_capture(queue) != nullptr) return Error::kCaptureImplicit;
  status = CaptureStatus::kNone;
  if (queue.capture != nullptr) {
    status = queue.capture->invalid ? CaptureStatus::kInvalidated : CaptureStatus::kActive;
    id = queue.capture->id;
  }
  return Error::kNone;
}

CaptureMode Driver::exchange_capture_mode(CaptureMode mode) { return std::exchange(t_capture_mode, mode); }

Error Driver::check_captures() {
  if (t_capture_mode == CaptureMode::kRelaxed) return Error::kNone;
  MutexLock lock(driver_mutex);
  Error error = Error::kNone;
  for (const auto& capture : captures_) {
    if (capture->mode == CaptureMode::kRelaxed) continue;
    const bool mine = capture->thread == std::this_thread::get_id();
    const bool global = t_capture_mode == CaptureMode::kGlobal && capture->mode == CaptureMode::kGlobal;
    if (!mine && !global) continue;
    invalidate(*capture);
    error = Error::kCaptureUnsupported;
  }
  return error;
}

Error Driver::instantiate(Handle handle, Handle& instance) {
  MutexLock lock(driver_mutex);
  const auto graph = graphs_.find(handle);
  if (graph == nullptr) return Error::kInvalidValue;
  instance = graphs_.add(std::make_shared<Graph>(*graph));
  return Error::kNone;
}

Error Driver::launch_graph(Handle instance, const std::shared_ptr<Queue>& queue) {
  MutexLock lock(driver_mutex);
  const auto graph = graphs_.find(instance);
  if (graph == nullptr) return Error::kInvalidValue;
  const auto run = [graph](Running& running) {
    for (const Work& work : graph->works) {
      const WorkEnd end = work(running);
      if (end.error != Error::kNone) return end;
    }
    return WorkEnd();
  };
  return submit_and_wait(queue, run, Wait::kNo);
}

Error Driver::destroy_graph(Handle graph) {
  MutexLock lock(driver_mutex);
  return graphs_.take(graph) != nullptr ? Error::kNone : Error::kInvalidValue;
}

std::size_t Driver::graph_size(Handle handle) {
  MutexLock lock(driver_mutex);
  const auto graph = graphs_.find(handle);
  return graph == nullptr ? 0 : graph->works.size();
}

}  // namespace vmem::sim
