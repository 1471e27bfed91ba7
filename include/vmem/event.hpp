/// The completion of asynchronous work: a copy, a fill, a kernel, a recorded point of a stream.
///
/// Thread contract: an Event is a value; all its members may be called from any thread at once.
#pragma once

#include <vmem/status.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

namespace vmem {

/// A shared handle on one completion. A default-made event is complete and successful.
class Event {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  using Callback = std::function<void(const Status&)>;

  /// What a backend implements. Owned by the events that refer to it; it must stay usable after its device has failed.
  class State {
   public:
    State() = default;
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    virtual ~State() = default;

    /// True once the work is over, well or not. Never blocks.
    virtual bool is_done() noexcept = 0;
    /// Blocks until the work is over and answers with its outcome, or with kTimeout at the deadline (the work goes on).
    virtual Status wait(Deadline deadline) = 0;
    /// Calls back exactly once with the outcome: at once where the work is over, else from the backend's polling
    /// thread. The callback must not block and must not call the driver.
    virtual void then(Callback callback) = 0;
    /// The backend's own handle for ordering a stream after this work; null where it has none. Its type is the
    /// backend's secret: only a device of the same backend may be given it (`Device::wait_event` checks).
    virtual void* native() noexcept { return nullptr; }
    /// What a device's call made, where this state only watches over it (adds a deadline, joins several of one stream);
    /// else this state itself. `Device::wait_event` looks at it, so that a stream can wait on a watched copy.
    virtual State* origin() noexcept { return this; }
  };

  Event() noexcept = default;
  explicit Event(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}

  bool is_done() const noexcept { return !state_ || state_->is_done(); }
  /// See State::wait. Without a deadline it waits as long as it takes.
  Status wait(Deadline deadline = Deadline::max()) const { return state_ ? state_->wait(deadline) : Status(); }
  /// See State::then.
  void then(Callback callback) const {
    if (state_) {
      state_->then(std::move(callback));
    } else {
      callback(Status());
    }
  }
  /// The backend's state; null for work that was complete from the start.
  State* state() const noexcept { return state_.get(); }

 private:
  std::shared_ptr<State> state_;  // shared: a copy's completion is awaited by the transfer and by later holders
};

}  // namespace vmem
