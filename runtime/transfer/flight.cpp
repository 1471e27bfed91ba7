#include "runtime/transfer/flight.hpp"

#include <algorithm>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "runtime/support/format.hpp"
#include "runtime/support/thread_annotations.hpp"

namespace vmem {

using SteadyTime = std::chrono::steady_clock::time_point;

struct Flight::Operation {
  std::size_t lane = 0;
  DeviceIndex device = 0;
  SteadyTime issued;
  Done done;
  std::function<void()> released;
  std::list<std::shared_ptr<Operation>>::iterator position;
  bool listed = false;  // guarded by State::mutex
};

struct Flight::State {
  // The operations of one stream, oldest first.
  struct Lane {
    std::list<std::shared_ptr<Operation>> operations;
    SteadyTime last_end;
  };

  State(std::chrono::milliseconds timeout_of_device, Logger& messages) : timeout(timeout_of_device), logger(messages) {}

  const std::chrono::milliseconds timeout;
  Logger& logger;  // used by the watch's thread alone: completions may come after the logger is gone
  std::vector<std::string> names;
  mutable Mutex mutex;
  CondVar changed;
  std::map<std::size_t, Lane> lanes VMEM_GUARDED_BY(mutex);  // two a device, then one for each lone operation
  std::vector<std::size_t> in_flight VMEM_GUARDED_BY(mutex);
  std::vector<Status> failed VMEM_GUARDED_BY(mutex);
  std::size_t next_lone_lane VMEM_GUARDED_BY(mutex) = 0;
  bool watch_sleeps VMEM_GUARDED_BY(mutex) = false;  // without a deadline
  bool stopping VMEM_GUARDED_BY(mutex) = false;

  // An error that names another device (a peer that is lost) is that device's.
  void fail(DeviceIndex device, const Status& status) VMEM_REQUIRES(mutex) {
    const auto named = std::find(names.begin(), names.end(), status.device());
    if (named != names.end()) device = static_cast<DeviceIndex>(named - names.begin());
    if (failed[device].is_ok()) failed[device] = status;
  }

  SteadyTime deadline(const Lane& lane) const VMEM_REQUIRES(mutex) {
    return std::max(lane.operations.front()->issued, lane.last_end) + timeout;
  }

  void unlist(Operation& operation) VMEM_REQUIRES(mutex) {
    auto& lane = lanes[operation.lane];
    lane.operations.erase(operation.position);
    operation.listed = false;
    --in_flight[operation.device];
    if (operation.lane >= 2 * names.size() && lane.operations.empty()) lanes.erase(operation.lane);
  }

  // Takes out what its device has not moved for too long; fails the devices.
  std::vector<std::pair<std::shared_ptr<Operation>, Status>> take_overdue(SteadyTime now) VMEM_REQUIRES(mutex) {
    std::vector<std::pair<std::shared_ptr<Operation>, Status>> overdue;
    for (auto& [index, lane] : lanes) {
      if (lane.operations.empty() || deadline(lane) > now) continue;
      const DeviceIndex device = lane.operations.front()->device;
      const Status status = Status(StatusCode::kTimeout, format("a copy did not complete within {} ms; the device "
                                                                "gets no more work",
                                                                timeout.count()))
                                .with_device(names[device]);
      if (failed[device].is_ok()) failed[device] = status;
      for (const auto& operation : lane.operations) {
        operation->listed = false;
        --in_flight[device];
        overdue.emplace_back(operation, status);
      }
      lane.operations.clear();
    }
    std::erase_if(
        lanes, [&](const auto& entry) { return entry.first >= 2 * names.size() && entry.second.operations.empty(); });
    return overdue;
  }

  std::optional<SteadyTime> next_deadline() const VMEM_REQUIRES(mutex) {
    std::optional<SteadyTime> next;
    for (const auto& [index, lane] : lanes) {
      if (lane.operations.empty()) continue;
      const SteadyTime time = deadline(lane);
      if (!next || time < *next) next = time;
    }
    return next;
  }
};

Flight::Flight(const std::vector<Device*>& devices, std::chrono::milliseconds timeout, Logger& logger)
    : state_(std::make_shared<State>(timeout, logger)) {
  MutexLock lock(state_->mutex);
  for (const Device* device : devices) state_->names.push_back(device->info().name);
  state_->in_flight.resize(devices.size());
  state_->failed.resize(devices.size());
  state_->next_lone_lane = 2 * devices.size();
  watch_ = std::thread([this] { keep_watch(); });
}

Flight::~Flight() {
  {
    MutexLock lock(state_->mutex);
    state_->stopping = true;
    state_->changed.notify_all();
  }
  watch_.join();
}

void Flight::watch(DeviceIndex device, CopyQueue queue, const Event& event, Done done, std::function<void()> released) {
  auto operation = std::make_shared<Operation>();  // shared by the list and the event's callback
  operation->lane = 2 * device + static_cast<std::size_t>(queue);
  operation->device = device;
  operation->done = std::move(done);
  operation->released = std::move(released);
  add(state_, operation, event);
}

void Flight::watch_alone(DeviceIndex device, const Event& before, const Event& event, Done done) {
  auto operation = std::make_shared<Operation>();  // as above
  operation->device = device;
  operation->done = std::move(done);
  {
    MutexLock lock(state_->mutex);
    operation->lane = state_->next_lone_lane++;
  }
  before.then([state = state_, operation, event](const Status&) { add(state, operation, event); });
}

void Flight::add(const std::shared_ptr<State>& state, const std::shared_ptr<Operation>& operation, const Event& event) {
  {
    MutexLock lock(state->mutex);
    operation->issued = std::chrono::steady_clock::now();
    auto& operations = state->lanes[operation->lane].operations;
    operation->position = operations.insert(operations.end(), operation);
    operation->listed = true;
    ++state->in_flight[operation->device];
    if (state->watch_sleeps) state->changed.notify_all();
  }
  try {
    event.then([state, operation](const Status& status) { finish(state, operation, status); });
  } catch (...) {  // out of memory: its caller watches over it
    MutexLock lock(state->mutex);
    if (operation->listed) state->unlist(*operation);
    throw;
  }
}

void Flight::finish(const std::shared_ptr<State>& state, const std::shared_ptr<Operation>& operation,
                    const Status& status) {
  bool settles = false;
  {
    MutexLock lock(state->mutex);
    settles = operation->listed;
    if (settles) {
      state->lanes[operation->lane].last_end = std::chrono::steady_clock::now();
      state->unlist(*operation);
    }
    if (status.code() == StatusCode::kDeviceFailed) state->fail(operation->device, status);
  }
  // Memory is given back before its user hears of the end and asks whether it is free.
  if (operation->released) operation->released();
  if (settles) operation->done(status);
}

void Flight::keep_watch() {
  MutexLock lock(state_->mutex);
  while (!state_->stopping) {
    const auto next = state_->next_deadline();
    if (!next) {
      state_->watch_sleeps = true;
      state_->changed.wait(state_->mutex);
      state_->watch_sleeps = false;
      continue;
    }
    // Operations that begin or end meanwhile only move the deadline away: nobody has to wake the watch for them.
    state_->changed.wait_until(state_->mutex, *next);
    const auto overdue = state_->take_overdue(std::chrono::steady_clock::now());
    if (overdue.empty()) continue;
    lock.unlock();
    state_->logger.error(overdue.front().second.to_string());
    for (const auto& [operation, status] : overdue) operation->done(status);
    lock.lock();
  }
}

Status Flight::device_status(DeviceIndex device) const {
  MutexLock lock(state_->mutex);
  const Status& status = state_->failed[device];
  if (status.is_ok() || status.code() == StatusCode::kDeviceFailed) return status;
  return Status(StatusCode::kDeviceFailed, std::string(status.message())).with_device(std::string(status.device()));
}

void Flight::fail_device(DeviceIndex device, const Status& status) {
  MutexLock lock(state_->mutex);
  state_->fail(device, status);
}

std::size_t Flight::in_flight(DeviceIndex device) const {
  MutexLock lock(state_->mutex);
  return state_->in_flight[device];
}

}  // namespace vmem
