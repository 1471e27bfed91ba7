// The one thread of a backend that completes events somebody waits for or wants to be called back by.
//
// STRUCTURE: events are kept by stream, in the order they were handed in. A sweep asks the first of each stream; every
// few sweeps it asks all, since order within a stream is a hint alone. After progress it sweeps without pause, then it
// yields the processor, then it sleeps a little; with nothing in flight it parks.
//
// CONCURRENCY: `add` may be called from any thread, callbacks included. The thread starts with the first event. A
// poller that is destroyed on its own thread (by the last event) leaves that thread to end by itself.
#pragma once

#include <functional>
#include <memory>

namespace vmem {

class CudaCompletion;
class CudaDriver;

class EventPoller {
 public:
  // `in_child` tells that this process is a fork of the one that made the poller: its thread did not come along.
  EventPoller(const CudaDriver& driver, std::function<bool()> in_child);
  ~EventPoller();
  EventPoller(const EventPoller&) = delete;
  EventPoller& operator=(const EventPoller&) = delete;

  // Keeps the event until it is over.
  void add(std::shared_ptr<CudaCompletion> event);
  // The process exits: the thread ends, what is in flight fails. Waits for that, but not for long.
  void stop_for_exit();

 private:
  class State;
  const std::shared_ptr<State> state_;  // shared with the thread, which may outlive this object
  const std::function<bool()> in_child_;
};

}  // namespace vmem
