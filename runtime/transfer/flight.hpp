// The operations that devices have been given and not finished: their count by device, and a watch over them that turns
// one that never ends into an error.
#pragma once

#include <vmem/backend.hpp>
#include <vmem/event.hpp>
#include <vmem/status.hpp>
#include <vmem/topology.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/support/log.hpp"

namespace vmem {

// A stream of a device as far as the watch is concerned: its operations end in the order they were given.
enum class CopyQueue : std::uint8_t { kIn = 0, kOut = 1 };

// CONCURRENCY: one mutex over the lists of operations; an operation is settled (its `done` called) by whoever takes it
// out of its list: the device's completion or the watch's thread. Completions hold the state by shared_ptr, so that a
// copy that ends after the Flight finds its list.
class Flight {
 public:
  using Done = std::function<void(const Status&)>;

  Flight(const std::vector<Device*>& devices, std::chrono::milliseconds timeout, Logger& logger);
  ~Flight();
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;

  // Calls `done` exactly once: with the event's outcome, or with kTimeout when the queue's oldest operation has got
  // nowhere for the timeout; then the device has failed. `released` (may be empty) is called exactly once, when the
  // device really no longer touches the operation's memory: with `done` or later. Neither may block or call a driver.
  void watch(DeviceIndex device, CopyQueue queue, const Event& event, Done done, std::function<void()> released = {});
  // The same for one operation on a stream of the application: its time counts from the end of `before`, what the
  // stream had to do before it.
  void watch_alone(DeviceIndex device, const Event& before, const Event& event, Done done);

  // Success, or why the engine takes no more work for the device.
  Status device_status(DeviceIndex device) const;
  // An error that names another device is that device's.
  void fail_device(DeviceIndex device, const Status& status);
  std::size_t in_flight(DeviceIndex device) const;

 private:
  struct State;
  struct Operation;

  static void finish(const std::shared_ptr<State>& state, const std::shared_ptr<Operation>& operation,
                     const Status& status);
  static void add(const std::shared_ptr<State>& state, const std::shared_ptr<Operation>& operation, const Event& event);
  void keep_watch();

  const std::shared_ptr<State> state_;  // shared with the completions of what is in flight
  std::thread watch_;
};

}  // namespace vmem
