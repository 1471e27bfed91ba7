#include "tests/support/faulty_device.hpp"

#include <algorithm>
#include <optional>

namespace vmem {

// An event that completes when its device's control says so, or when the event it stands for is over.
class StuckEvent final : public Event::State {
 public:
  bool is_done() noexcept override {
    MutexLock lock(mutex_);
    return status_.has_value();
  }

  Status wait(Event::Deadline deadline) override {
    MutexLock lock(mutex_);
    while (!status_) {
      if (deadline == Event::Deadline::max()) {
        changed_.wait(mutex_);
      } else if (!changed_.wait_until(mutex_, deadline) && !status_) {
        return Status(StatusCode::kTimeout, "the work was not over at the deadline");
      }
    }
    return *status_;
  }

  void then(Event::Callback callback) override {
    MutexLock lock(mutex_);
    if (!status_) {
      callbacks_.push_back(std::move(callback));
      return;
    }
    const Status status = *status_;
    lock.unlock();
    callback(status);
  }

  void complete(const Status& status) {
    std::vector<Event::Callback> callbacks;
    {
      MutexLock lock(mutex_);
      if (status_) return;
      status_ = status;
      callbacks.swap(callbacks_);
      changed_.notify_all();
    }
    for (const auto& callback : callbacks) callback(status);
  }

  // What a stream of the wrapped device waits for in place of this; none for work that hangs.
  std::optional<Event> stands_for;

 private:
  Mutex mutex_;
  CondVar changed_;
  std::optional<Status> status_ VMEM_GUARDED_BY(mutex_);
  std::vector<Event::Callback> callbacks_ VMEM_GUARDED_BY(mutex_);
};

namespace {

Device& unwrap(Device& device) {
  auto* const faulty = dynamic_cast<FaultyDevice*>(&device);
  return faulty != nullptr ? faulty->inner() : device;
}

}  // namespace

void FaultControl::inject(const Fault& fault) {
  if (fault.count == 0) return;
  MutexLock lock(mutex_);
  faults_.push_back(fault);
}

void FaultControl::fail_call(std::uint64_t index, StatusCode code) {
  Fault fault;
  fault.kind = Fault::Kind::kFail;
  fault.after = index;
  fault.code = code;
  inject(fault);
}

void FaultControl::set_fail_at(FailAt where) {
  MutexLock lock(mutex_);
  fail_at_ = where;
}

void FaultControl::clear() {
  {
    MutexLock lock(mutex_);
    faults_.clear();
  }
  finish_stuck(Stream(), Status(StatusCode::kTimeout, "the work hung until faults were cleared"));
}

void FaultControl::vanish() {
  {
    MutexLock lock(mutex_);
    lost_ = true;
  }
  finish_stuck(Stream(), Status(StatusCode::kDeviceFailed, "the device is lost"));
}

bool FaultControl::lost() const {
  MutexLock lock(mutex_);
  return lost_;
}

std::uint64_t FaultControl::num_calls() const {
  MutexLock lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& [call, count] : counts_) sum += count;
  return sum;
}

std::uint64_t FaultControl::num_calls(std::string_view call) const {
  MutexLock lock(mutex_);
  const auto it = counts_.find(call);
  return it == counts_.end() ? 0 : it->second;
}

std::uint64_t FaultControl::num_faults() const {
  MutexLock lock(mutex_);
  return num_faults_;
}

std::uint64_t FaultControl::num_hanging() const {
  MutexLock lock(mutex_);
  return stuck_.size();
}

void FaultControl::reset_counts() {
  MutexLock lock(mutex_);
  counts_.clear();
  num_faults_ = 0;
}

void FaultControl::set_hook(std::function<void(std::string_view)> hook) {
  MutexLock lock(mutex_);
  hook_ = std::move(hook);
}

void FaultControl::set_capturing(Stream stream) {
  MutexLock lock(mutex_);
  capturing_ = stream;
}

bool FaultControl::is_capturing(Stream stream) const {
  MutexLock lock(mutex_);
  return stream.has_value() && stream == capturing_;
}

FaultControl::Decision FaultControl::enter(std::string_view call, bool is_work, bool is_data) {
  std::function<void(std::string_view)> hook;
  {
    MutexLock lock(mutex_);
    hook = hook_;
  }
  if (hook) hook(call);
  Decision decision;
  bool vanishes = false;
  {
    MutexLock lock(mutex_);
    const auto it = counts_.find(call);
    if (it == counts_.end()) {
      counts_.emplace(call, 1);
    } else {
      ++it->second;
    }
    if (lost_) return Decision{Decision::Kind::kLost, StatusCode::kDeviceFailed};
    decision = decide(call, is_work, is_data);
    vanishes = decision.kind == Decision::Kind::kLost;
  }
  if (vanishes) vanish();
  return decision;
}

FaultControl::Decision FaultControl::decide(std::string_view call, bool is_work, bool is_data) {
  Decision decision;
  for (Fault& fault : faults_) {
    if (!fault.call.empty() && fault.call != call) continue;
    if (fault.kind == Fault::Kind::kHang && !is_work) continue;
    if (fault.kind == Fault::Kind::kCorrupt && !is_data) continue;
    if (fault.after > 0) {
      --fault.after;
      continue;
    }
    if (decision.kind != Decision::Kind::kNone) continue;
    --fault.count;
    ++num_faults_;
    decision.code = fault.code;
    switch (fault.kind) {
      case Fault::Kind::kFail:
        decision.kind =
            is_work && fail_at_ == FailAt::kCompletion ? Decision::Kind::kFailEvent : Decision::Kind::kFailCall;
        break;
      case Fault::Kind::kHang:
        decision.kind = Decision::Kind::kHang;
        break;
      case Fault::Kind::kVanish:
        decision = Decision{Decision::Kind::kLost, StatusCode::kDeviceFailed};
        break;
      case Fault::Kind::kCorrupt:
        decision.kind = Decision::Kind::kCorrupt;
        break;
    }
  }
  faults_.erase(std::remove_if(faults_.begin(), faults_.end(), [](const Fault& fault) { return fault.count == 0; }),
                faults_.end());
  return decision;
}

std::shared_ptr<StuckEvent> FaultControl::add_stuck(Stream stream) {
  auto event = std::make_shared<StuckEvent>();  // shared: the control completes it, the caller waits for it
  {
    MutexLock lock(mutex_);
    if (!lost_) {
      stuck_.emplace_back(stream, event);
      return event;
    }
  }
  event->complete(Status(StatusCode::kDeviceFailed, "the device is lost"));
  return event;
}

bool FaultControl::is_stuck(Stream stream) const {
  if (!stream.has_value()) return false;
  MutexLock lock(mutex_);
  return std::any_of(stuck_.begin(), stuck_.end(), [&](const auto& entry) { return entry.first == stream; });
}

void FaultControl::unstick(const std::shared_ptr<StuckEvent>& event) {
  Stream stream;
  {
    MutexLock lock(mutex_);
    const auto entry =
        std::find_if(stuck_.begin(), stuck_.end(), [&](const auto& candidate) { return candidate.second == event; });
    if (entry == stuck_.end()) return;
    stream = entry->first;
    stuck_.erase(entry);
  }
  event->complete(Status());
  // What was enqueued behind it was never done.
  finish_stuck(stream, Status(StatusCode::kTimeout, "the work before it on the stream hung"));
}

void FaultControl::finish_stuck(Stream stream, const Status& status) {
  std::vector<std::shared_ptr<StuckEvent>> finished;
  {
    MutexLock lock(mutex_);
    for (const auto& [its_stream, event] : stuck_) {
      if (!stream.has_value() || its_stream == stream) finished.push_back(event);
    }
    stuck_.erase(std::remove_if(stuck_.begin(), stuck_.end(),
                                [&](const auto& entry) { return !stream.has_value() || entry.first == stream; }),
                 stuck_.end());
  }
  for (const auto& event : finished) event->complete(status);
}

namespace {

thread_local int calls_running = 0;

class InCall {
 public:
  InCall() noexcept { ++calls_running; }
  InCall(const InCall&) = delete;
  InCall& operator=(const InCall&) = delete;
  ~InCall() { --calls_running; }
};

}  // namespace

bool is_in_device_call() noexcept { return calls_running != 0; }

FaultyDevice::FaultyDevice(std::unique_ptr<Device> device, std::shared_ptr<FaultControl> control)
    : device_(std::move(device)), control_(std::move(control)), info_(device_->info()) {
  info_.caps = info_.caps.with(DeviceCap::kFaultInjection);
}

FaultyDevice::~FaultyDevice() {
  control_->finish_stuck(Stream(), Status(StatusCode::kTimeout, "the device was destroyed while the work hung"));
}

Status FaultyDevice::failure(const Decision& decision, std::string_view call) const {
  const bool lost = decision.kind == Decision::Kind::kLost;
  return Status(decision.code,
                lost ? std::string("the device is lost") : "a fault was asked for at " + std::string(call))
      .with_device(info_.name);
}

Status FaultyDevice::enter(std::string_view call) {
  const Decision decision = control_->enter(call, false, false);
  return decision.kind == Decision::Kind::kNone ? Status() : failure(decision, call);
}

Result<Event> FaultyDevice::stuck_event(Stream stream) {
  if (stream.has_value()) VMEM_RETURN_IF_ERROR(device_->check_stream(stream));
  return Event(control_->add_stuck(stream));
}

Result<Event> FaultyDevice::work(std::string_view call, Stream stream, const std::function<Result<Event>()>& pass,
                                 const Corrupt& corrupt) {
  const Decision decision = control_->enter(call, true, corrupt != nullptr);
  switch (decision.kind) {
    case Decision::Kind::kLost:
    case Decision::Kind::kFailCall:
      return failure(decision, call);
    case Decision::Kind::kFailEvent: {
      if (!stream.has_value()) return failure(decision, call);
      // In the stream's order: after the work before it.
      VMEM_ASSIGN_OR_RETURN(const Event before, device_->record(stream));
      auto event = std::make_shared<StuckEvent>();  // shared with the callback
      event->stands_for = before;
      before.then([event, status = failure(decision, call)](const Status&) { event->complete(status); });
      return Event(event);
    }
    case Decision::Kind::kHang:
      return stuck_event(stream);
    case Decision::Kind::kNone:
      return control_->is_stuck(stream) ? stuck_event(stream) : pass();
    case Decision::Kind::kCorrupt:
      break;
  }
  if (control_->is_stuck(stream)) return stuck_event(stream);
  VMEM_ASSIGN_OR_RETURN(const Event done, pass());
  // Blocks: the byte can be changed only when it has arrived.
  VMEM_RETURN_IF_ERROR(corrupt(done));
  return Event();
}

namespace {

// Changes the middle byte of a range of a device.
Status flip(Device& device, void* address, std::size_t bytes) {
  if (bytes == 0) return {};
  auto* const byte = static_cast<std::uint8_t*>(address) + bytes / 2;
  std::uint8_t value = 0;
  VMEM_ASSIGN_OR_RETURN(const Event read, device.copy_to_host(&value, byte, 1, Stream()));
  VMEM_RETURN_IF_ERROR(read.wait());
  VMEM_ASSIGN_OR_RETURN(const Event written, device.fill(byte, static_cast<std::uint8_t>(~value), 1, Stream()));
  return written.wait();
}

}  // namespace

Result<MemoryInfo> FaultyDevice::memory_info() {
  const InCall in_call;
  VMEM_RETURN_IF_ERROR(enter("memory_info"));
  return device_->memory_info();
}

Status FaultyDevice::health() noexcept {
  const InCall in_call;
  VMEM_RETURN_IF_ERROR(enter("health"));
  return device_->health();
}

Result<void*> FaultyDevice::allocate(std::size_t bytes) {
  const InCall in_call;
  VMEM_RETURN_IF_ERROR(enter("allocate"));
  return device_->allocate(bytes);
}

Status FaultyDevice::deallocate(void* address) {
  const InCall in_call;
  VMEM_RETURN_IF_ERROR(enter("deallocate"));
  return device_->deallocate(address);
}

Result<Event> FaultyDevice::copy_from_host(void* destination, const void* host, std::size_t bytes, Stream stream) {
  const InCall in_call;
  return work(
      "copy_from_host", stream, [&] { return device_->copy_from_host(destination, host, bytes, stream); },
      [&](const Event& done) {
        VMEM_RETURN_IF_ERROR(done.wait());
        return flip(*device_, destination, bytes);
      });
}

Result<Event> FaultyDevice::copy_to_host(void* host, const void* source, std::size_t bytes, Stream stream) {
  const InCall in_call;
  return work(
      "copy_to_host", stream, [&] { return device_->copy_to_host(host, source, bytes, stream); },
      [&](const Event& done) {
        VMEM_RETURN_IF_ERROR(done.wait());
        auto* const byte = static_cast<std::uint8_t*>(host) + bytes / 2;
        if (bytes != 0) *byte = static_cast<std::uint8_t>(~*byte);
        return Status();
      });
}

Result<Event> FaultyDevice::copy_within(void* destination, const void* source, std::size_t bytes, Stream stream) {
  const InCall in_call;
  return work(
      "copy_within", stream, [&] { return device_->copy_within(destination, source, bytes, stream); },
      [&](const Event& done) {
        VMEM_RETURN_IF_ERROR(done.wait());
        return flip(*device_, destination, bytes);
      });
}

Result<Event> FaultyDevice::fill(void* destination, std::uint8_t value, std::size_t bytes, Stream stream) {
  const InCall in_call;
  return work(
      "fill", stream, [&] { return device_->fill(destination, value, bytes, stream); },
      [&](const Event& done) {
        VMEM_RETURN_IF_ERROR(done.wait());
        return flip(*device_, destination, bytes);
      });
}

Result<Stream> FaultyDevice::create_stream() {
  const InCall in_call;
  VMEM_RETURN_IF_ERROR(enter("create_stream"));
  return device_->create_stream();
}

Status FaultyDevice::destroy_stream(Stream stream) {
  const InCall in_call;
  VMEM_RETURN_IF_ERROR(enter("destroy_stream"));
  if (stream.has_value()) {
    control_->finish_stuck(stream, Status(StatusCode::kTimeout, "the stream was destroyed while its work hung"));
  }
  return device_->destroy_stream(stream);
}

Status FaultyDevice::check_stream(Stream stream) {
  const InCall in_call;
  VMEM_RETURN_IF_ERROR(enter("check_stream"));
  return device_->check_stream(stream);
}

Result<Event> FaultyDevice::record(Stream stream) {
  const InCall in_call;
  return work(
      "record", stream, [&] { return device_->record(stream); }, nullptr);
}

Status FaultyDevice::wait_event(Stream stream, const Event& event) {
  const InCall in_call;
  VMEM_RETURN_IF_ERROR(enter("wait_event"));
  auto* const stuck = dynamic_cast<StuckEvent*>(event.state());
  if (stuck == nullptr) return device_->wait_event(stream, event);
  VMEM_RETURN_IF_ERROR(device_->check_stream(stream));
  if (stuck->is_done()) return {};
  if (stuck->stands_for) return device_->wait_event(stream, *stuck->stands_for);
  // The stream hangs with what it waits for, until that is over or this device's faults are cleared.
  const auto waits = control_->add_stuck(stream);
  event.then([control = control_, waits](const Status&) { control->unstick(waits); });
  return {};
}

Result<bool> FaultyDevice::is_capturing(Stream stream) {
  const InCall in_call;
  VMEM_RETURN_IF_ERROR(enter("is_capturing"));
  if (control_->is_capturing(stream)) return true;
  return device_->is_capturing(stream);
}

Result<Chunk> FaultyDevice::create_chunk(std::size_t bytes) {
  const InCall in_call;
  VMEM_RETURN_IF_ERROR(enter("create_chunk"));
  return device_->create_chunk(bytes);
}

Status FaultyDevice::destroy_chunk(const Chunk& chunk) {
  const InCall in_call;
  VMEM_RETURN_IF_ERROR(enter("destroy_chunk"));
  return device_->destroy_chunk(chunk);
}

Result<void*> FaultyDevice::reserve_window(std::size_t bytes) {
  const InCall in_call;
  VMEM_RETURN_IF_ERROR(enter("reserve_window"));
  return device_->reserve_window(bytes);
}

Status FaultyDevice::release_window(void* window, std::size_t bytes) {
  const InCall in_call;
  VMEM_RETURN_IF_ERROR(enter("release_window"));
  return device_->release_window(window, bytes);
}

Status FaultyDevice::map(void* address, const Chunk& chunk) {
  const InCall in_call;
  VMEM_RETURN_IF_ERROR(enter("map"));
  return device_->map(address, chunk);
}

Status FaultyDevice::unmap(void* address, std::size_t bytes) {
  const InCall in_call;
  VMEM_RETURN_IF_ERROR(enter("unmap"));
  return device_->unmap(address, bytes);
}

bool FaultyDevice::can_access_peer(const Device& peer) const noexcept {
  const auto* const faulty = dynamic_cast<const FaultyDevice*>(&peer);
  return device_->can_access_peer(faulty != nullptr ? *faulty->device_ : peer);
}

Result<Event> FaultyDevice::copy_to_peer(Device& peer, void* destination, const void* source, std::size_t bytes,
                                         Stream stream) {
  const InCall in_call;
  return work(
      "copy_to_peer", stream,
      [&]() -> Result<Event> {
        const auto* const faulty = dynamic_cast<FaultyDevice*>(&peer);
        if (faulty != nullptr && faulty->control_->lost()) {
          return Status(StatusCode::kDeviceFailed, "the device is lost").with_device(peer.info().name);
        }
        return device_->copy_to_peer(unwrap(peer), destination, source, bytes, stream);
      },
      [&](const Event& done) {
        VMEM_RETURN_IF_ERROR(done.wait());
        return flip(unwrap(peer), destination, bytes);
      });
}

Result<void*> FaultyDevice::register_host(void* host, std::size_t bytes) {
  const InCall in_call;
  VMEM_RETURN_IF_ERROR(enter("register_host"));
  return device_->register_host(host, bytes);
}

Status FaultyDevice::unregister_host(void* host) {
  const InCall in_call;
  VMEM_RETURN_IF_ERROR(enter("unregister_host"));
  return device_->unregister_host(host);
}

Status FaultyDevice::add_kernel(const KernelImage& image) {
  const InCall in_call;
  VMEM_RETURN_IF_ERROR(enter("add_kernel"));
  return device_->add_kernel(image);
}

Result<Event> FaultyDevice::launch(const KernelLaunch& launch, Stream stream) {
  const InCall in_call;
  return work(
      "launch", stream, [&] { return device_->launch(launch, stream); }, nullptr);
}

Status FaultyDevice::write_signal(Stream stream, std::uint32_t* word, std::uint32_t value) {
  const InCall in_call;
  VMEM_RETURN_IF_ERROR(enter("write_signal"));
  return control_->is_stuck(stream) ? Status() : device_->write_signal(stream, word, value);
}

Status FaultyDevice::wait_signal(Stream stream, std::uint32_t* word, std::uint32_t value) {
  const InCall in_call;
  VMEM_RETURN_IF_ERROR(enter("wait_signal"));
  return control_->is_stuck(stream) ? Status() : device_->wait_signal(stream, word, value);
}

Status FaultyDevice::inject(const Fault& fault) {
  control_->inject(fault);
  return {};
}

Status FaultyDevice::clear_faults() {
  control_->clear();
  return {};
}

std::unique_ptr<FaultyDevice> make_faulty(std::unique_ptr<Device> device, std::shared_ptr<FaultControl> control) {
  if (!control) control = std::make_shared<FaultControl>();
  return std::make_unique<FaultyDevice>(std::move(device), std::move(control));
}

}  // namespace vmem
