// The work of a device: streams, copies, kernels, signals.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "backends/host/memory_device.hpp"
#include "runtime/support/bytes.hpp"

namespace vmem {
namespace {

constexpr std::uint32_t kHighestThreadsPerBlock = 1024;

// Stream handles are numbers that are never used again, so that a stream that was destroyed is told from a new one.
void* next_stream_handle() {
  static std::atomic<std::uintptr_t> last{0};
  return reinterpret_cast<void*>((last.fetch_add(1) + 1) << 4U);
}

// Keeps a range mapped while work touches it.
class Pinned {
 public:
  Pinned(AddressMap& addresses, const TrackedRange& range)
      : addresses_(addresses), range_(range), status_(addresses.pin(range)) {}
  ~Pinned() {
    if (status_) addresses_.unpin(range_);
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

  const Status& status() const noexcept { return status_; }

 private:
  AddressMap& addresses_;
  const TrackedRange range_;
  const Status status_;
};

void* pointer_to(const TrackedRange& range) { return reinterpret_cast<void*>(range.begin); }

void flip_a_byte(const TrackedRange& range) {
  auto* const bytes = static_cast<unsigned char*>(pointer_to(range));
  bytes[range.bytes / 2] = static_cast<unsigned char>(~bytes[range.bytes / 2]);
}

bool hangs(const std::optional<Fault>& fault) { return fault && fault->kind == Fault::Kind::kHang; }
bool corrupts(const std::optional<Fault>& fault) { return fault && fault->kind == Fault::Kind::kCorrupt; }

// A launch whose parameters live as long as the work.
struct OwnedLaunch {
  KernelBody body;
  KernelLaunch launch;
  std::vector<std::vector<std::byte>> values;
  unsigned wave_width;

  void run() const {
    std::vector<const void*> arguments;
    for (const auto& value : values) arguments.push_back(value.data());
    body(KernelContext{launch.grid, launch.block, wave_width, arguments.data(), arguments.size()});
  }
};

}  // namespace

Result<Stream> MemoryDevice::create_stream() {
  VMEM_RETURN_IF_ERROR(enter("create_stream"));
  auto queue = std::make_shared<WorkQueue>(machine_.get(), spec_.info.name);
  void* const handle = next_stream_handle();
  MutexLock lock(streams_mutex_);
  streams_.emplace(handle, std::move(queue));
  return Stream(handle);
}

Status MemoryDevice::destroy_stream(Stream stream) {
  VMEM_RETURN_IF_ERROR(enter("destroy_stream"));
  std::shared_ptr<WorkQueue> queue;
  if (stream.has_value() && stream.native() != nullptr) {
    MutexLock lock(streams_mutex_);
    const auto it = streams_.find(stream.native());
    if (it != streams_.end()) {
      queue = std::move(it->second);
      streams_.erase(it);
    }
  }
  if (!queue) return error(StatusCode::kInvalidValue, "destroy_stream: the stream is not one that this device made");
  queue->close();
  return {};
}

Result<std::shared_ptr<WorkQueue>> MemoryDevice::queue_of(Stream stream) {
  if (stream.has_value()) {
    MutexLock lock(streams_mutex_);
    if (stream.native() == nullptr) {
      auto& queue = streams_[nullptr];
      if (!queue) queue = std::make_shared<WorkQueue>(machine_.get(), spec_.info.name);
      return queue;
    }
    if (const auto it = streams_.find(stream.native()); it != streams_.end()) return it->second;
  }
  return error(StatusCode::kInvalidValue, "the stream is not one of this device's");
}

std::vector<std::shared_ptr<WorkQueue>> MemoryDevice::queues() {
  std::vector<std::shared_ptr<WorkQueue>> all;
  MutexLock lock(streams_mutex_);
  for (const auto& [handle, queue] : streams_) all.push_back(queue);
  return all;
}

Status MemoryDevice::check_stream(Stream stream) {
  VMEM_RETURN_IF_ERROR(enter("check_stream"));
  return queue_of(stream).error();
}

Result<bool> MemoryDevice::is_capturing(Stream stream) {
  VMEM_RETURN_IF_ERROR(enter("is_capturing"));
  if (stream.has_value()) VMEM_RETURN_IF_ERROR(queue_of(stream).error());
  return false;
}

Event MemoryDevice::hanging_event() {
  auto completion = std::make_shared<Completion>(machine_.get());
  MutexLock lock(streams_mutex_);
  hanging_.push_back(completion);
  return Event(std::move(completion));
}

Result<Event> MemoryDevice::submit(Stream stream, const Faulted& fault, WorkQueue::Task task) {
  if (!stream.has_value()) {
    // Hanging would keep the caller from clearing the fault: the event is what hangs.
    if (hangs(fault)) return hanging_event();
    if (fault && fault->kind == Fault::Kind::kFail) return fault_status(*fault);
    WorkContext context(nullptr, WorkContext::TimePoint::clock::now());
    VMEM_RETURN_IF_ERROR(task(context));
    return Event();
  }
  VMEM_ASSIGN_OR_RETURN(const std::shared_ptr<WorkQueue> queue, queue_of(stream));
  if (hangs(fault)) return queue->enqueue([](WorkContext& context) { return context.hang(); });
  if (fault && fault->kind == Fault::Kind::kFail) {
    return queue->enqueue([status = fault_status(*fault)](WorkContext&) { return status; });
  }
  return queue->enqueue(std::move(task));
}

Result<Event> MemoryDevice::record(Stream stream) {
  VMEM_ASSIGN_OR_RETURN(const Faulted fault, enter_work("record", CallKind::kWork));
  if (!fault && stream.has_value()) {
    VMEM_ASSIGN_OR_RETURN(const std::shared_ptr<WorkQueue> queue, queue_of(stream));
    return queue->record();
  }
  return submit(stream, fault, [](WorkContext&) { return Status(); });
}

Status MemoryDevice::wait_event(Stream stream, const Event& event) {
  VMEM_RETURN_IF_ERROR(enter("wait_event"));
  VMEM_ASSIGN_OR_RETURN(const std::shared_ptr<WorkQueue> queue, queue_of(stream));
  if (event.state() == nullptr) return {};
  auto* const completion = dynamic_cast<Completion*>(event.state()->origin());
  if (completion == nullptr || completion->machine() != machine_.get()) {
    return error(StatusCode::kUnsupported, "wait_event: the event is another backend's");
  }
  // The event in the task keeps the completion.
  return queue
      ->enqueue([event, completion](WorkContext& context) {
        return context.wait_for(std::shared_ptr<Completion>(std::make_shared<Event>(event), completion));
      })
      .error();
}

Result<TrackedRange> MemoryDevice::locate(const void* address, std::size_t bytes) const {
  if (bytes == 0) return TrackedRange{};
  auto range = machine_->addresses.find(address, bytes, owner_);
  if (!range) return range.error().with_device(spec_.info.name);
  return range;
}

Result<TrackedRange> MemoryDevice::locate_host(const void* address, std::size_t bytes) const {
  if (bytes == 0) return TrackedRange{};
  auto range = machine_->addresses.find_host(address, bytes, owner_);
  if (!range) return range.error().with_device(spec_.info.name);
  return range;
}

Result<Event> MemoryDevice::copy_from_host(void* destination, const void* host, std::size_t bytes, Stream stream) {
  VMEM_ASSIGN_OR_RETURN(const Faulted fault, enter_work("copy_from_host", CallKind::kData));
  Transfer transfer{{}, {}, bytes, link_in_, nullptr};
  VMEM_ASSIGN_OR_RETURN(transfer.destination, locate(destination, bytes));
  VMEM_ASSIGN_OR_RETURN(transfer.source, locate_host(host, bytes));
  return submit_transfer(std::move(transfer), stream, fault);
}

Result<Event> MemoryDevice::copy_to_host(void* host, const void* source, std::size_t bytes, Stream stream) {
  VMEM_ASSIGN_OR_RETURN(const Faulted fault, enter_work("copy_to_host", CallKind::kData));
  Transfer transfer{{}, {}, bytes, link_out_, nullptr};
  VMEM_ASSIGN_OR_RETURN(transfer.destination, locate_host(host, bytes));
  VMEM_ASSIGN_OR_RETURN(transfer.source, locate(source, bytes));
  return submit_transfer(std::move(transfer), stream, fault);
}

Result<Event> MemoryDevice::copy_within(void* destination, const void* source, std::size_t bytes, Stream stream) {
  VMEM_ASSIGN_OR_RETURN(const Faulted fault, enter_work("copy_within", CallKind::kData));
  Transfer transfer{{}, {}, bytes, nullptr, nullptr};
  VMEM_ASSIGN_OR_RETURN(transfer.destination, locate(destination, bytes));
  VMEM_ASSIGN_OR_RETURN(transfer.source, locate(source, bytes));
  const std::uintptr_t to = transfer.destination.begin;
  const std::uintptr_t from = transfer.source.begin;
  if ((to > from ? to - from : from - to) < bytes) {
    return error(StatusCode::kInvalidValue, "copy_within: the ranges overlap");
  }
  return submit_transfer(std::move(transfer), stream, fault);
}

bool MemoryDevice::can_access_peer(const Device& peer) const noexcept {
  const auto* const other = dynamic_cast<const MemoryDevice*>(&peer);
  return has(DeviceCap::kPeerCopy) && other != nullptr && other != this && other->machine_ == machine_ &&
         other->has(DeviceCap::kPeerCopy) && other->spec_.info.vendor == spec_.info.vendor;
}

Result<Event> MemoryDevice::copy_to_peer(Device& peer, void* destination, const void* source, std::size_t bytes,
                                         Stream stream) {
  if (!has(DeviceCap::kPeerCopy)) return Device::copy_to_peer(peer, destination, source, bytes, stream);
  VMEM_ASSIGN_OR_RETURN(const Faulted fault, enter_work("copy_to_peer", CallKind::kData));
  if (!can_access_peer(peer)) {
    return error(StatusCode::kUnsupported, "copy_to_peer: device '" + peer.info().name + "' is not a peer");
  }
  auto& other = static_cast<MemoryDevice&>(peer);
  if (other.lost_.load(std::memory_order_acquire)) return other.lost();
  Transfer transfer{{}, {}, bytes, peer_out_, other.peer_in_};
  VMEM_ASSIGN_OR_RETURN(transfer.destination, other.locate(destination, bytes));
  VMEM_ASSIGN_OR_RETURN(transfer.source, locate(source, bytes));
  return submit_transfer(std::move(transfer), stream, fault);
}

Result<Event> MemoryDevice::submit_transfer(Transfer transfer, Stream stream, const Faulted& fault) {
  return submit(stream, fault, [this, transfer = std::move(transfer), corrupt = corrupts(fault)](WorkContext& context) {
    return run_transfer(context, transfer, corrupt);
  });
}

Status MemoryDevice::run_transfer(WorkContext& context, const Transfer& transfer, bool corrupt) {
  using TimePoint = WorkContext::TimePoint;
  if (transfer.bytes == 0) return {};
  TimePoint arrives{};
  if (transfer.link) {
    arrives = transfer.peer_link
                  ? LinkClock::reserve_both(*transfer.link, *transfer.peer_link, context.ready_at, transfer.bytes)
                  : transfer.link->reserve(context.ready_at, transfer.bytes);
    arrives += std::chrono::duration_cast<TimePoint::duration>(spec_.links->latency);
    context.finished_at = arrives;
    context.timed = true;
    // Bytes appear as late as the link allows, so that who reads too early sees the old ones. The copy itself takes
    // time too and begins that much earlier.
    const std::chrono::duration<double> copying(static_cast<double>(transfer.bytes) / copy_rate_.load());
    VMEM_RETURN_IF_ERROR(context.sleep_until(arrives - std::chrono::duration_cast<TimePoint::duration>(copying)));
  }
  const TimePoint started = TimePoint::clock::now();
  {
    const Pinned destination(machine_->addresses, transfer.destination);
    VMEM_RETURN_IF_ERROR(destination.status());
    const Pinned source(machine_->addresses, transfer.source);
    VMEM_RETURN_IF_ERROR(source.status());
    std::memcpy(pointer_to(transfer.destination), pointer_to(transfer.source), transfer.bytes);
    if (corrupt) flip_a_byte(transfer.destination);
  }
  if (!transfer.link) return {};
  const std::chrono::duration<double> took(TimePoint::clock::now() - started);
  if (took.count() > 0) copy_rate_ = (3 * copy_rate_ + static_cast<double>(transfer.bytes) / took.count()) / 4;
  return context.sleep_until(arrives);
}

Result<Event> MemoryDevice::fill(void* destination, std::uint8_t value, std::size_t bytes, Stream stream) {
  VMEM_ASSIGN_OR_RETURN(const Faulted fault, enter_work("fill", CallKind::kData));
  VMEM_ASSIGN_OR_RETURN(const TrackedRange range, locate(destination, bytes));
  return submit(stream, fault, [this, range, value, corrupt = corrupts(fault)](WorkContext&) {
    if (range.bytes == 0) return Status();
    const Pinned pinned(machine_->addresses, range);
    VMEM_RETURN_IF_ERROR(pinned.status());
    std::memset(pointer_to(range), value, range.bytes);
    if (corrupt) flip_a_byte(range);
    return Status();
  });
}

Status MemoryDevice::add_kernel(const KernelImage& image) {
  if (!has(DeviceCap::kKernels)) return Device::add_kernel(image);
  VMEM_RETURN_IF_ERROR(enter("add_kernel"));
  if (image.name == nullptr || *image.name == '\0') {
    return error(StatusCode::kInvalidValue, "add_kernel: the kernel has no name");
  }
  if (image.reference == nullptr) {
    return error(StatusCode::kUnsupported, "add_kernel: kernel '" + std::string(image.name) +
                                               "' has no CPU form, and this device runs nothing else");
  }
  MutexLock lock(kernels_mutex_);
  kernels_[image.name] = image.reference;
  return {};
}

Result<Event> MemoryDevice::launch(const KernelLaunch& launch, Stream stream) {
  if (!has(DeviceCap::kKernels)) return Device::launch(launch, stream);
  VMEM_ASSIGN_OR_RETURN(const Faulted fault, enter_work("launch", CallKind::kWork));
  auto owned = std::make_shared<OwnedLaunch>();  // shared: std::function copies what it holds
  {
    MutexLock lock(kernels_mutex_);
    const auto it = kernels_.find(launch.name);
    if (it == kernels_.end()) return error(StatusCode::kNotFound, "launch: there is no kernel '" + launch.name + "'");
    owned->body = it->second;
  }
  std::uint64_t threads = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    threads *= launch.block[i];
    if (launch.grid[i] == 0 || launch.block[i] == 0 || threads > kHighestThreadsPerBlock) {
      return error(StatusCode::kInvalidValue,
                   "launch: kernel '" + launch.name + "' needs a grid of at least 1 and blocks of 1 to 1024 threads");
    }
  }
  for (const KernelArgument& argument : launch.arguments) {
    if (argument.data == nullptr || argument.bytes == 0) {
      return error(StatusCode::kInvalidValue, "launch: a parameter of kernel '" + launch.name + "' has no value");
    }
    const auto* const first = static_cast<const std::byte*>(argument.data);
    owned->values.emplace_back(first, first + argument.bytes);
  }
  owned->launch.grid = launch.grid;
  owned->launch.block = launch.block;
  owned->wave_width = spec_.info.wave_width;
  return submit(stream, fault, [owned](WorkContext&) {
    owned->run();
    return Status();
  });
}

Status MemoryDevice::write_signal(Stream stream, std::uint32_t* word, std::uint32_t value) {
  if (!has(DeviceCap::kStreamSignals)) return Device::write_signal(stream, word, value);
  VMEM_RETURN_IF_ERROR(enter("write_signal"));
  VMEM_ASSIGN_OR_RETURN(const std::shared_ptr<WorkQueue> queue, queue_of(stream));
  VMEM_ASSIGN_OR_RETURN(const TrackedRange range, find_signal(word));
  return queue
      ->enqueue([this, word, value, range](WorkContext&) {
        const Pinned pinned(machine_->addresses, range);
        VMEM_RETURN_IF_ERROR(pinned.status());
        std::atomic_ref<std::uint32_t>(*word).store(value, std::memory_order_release);
        return Status();
      })
      .error();
}

Status MemoryDevice::wait_signal(Stream stream, std::uint32_t* word, std::uint32_t value) {
  if (!has(DeviceCap::kStreamSignals)) return Device::wait_signal(stream, word, value);
  VMEM_RETURN_IF_ERROR(enter("wait_signal"));
  VMEM_ASSIGN_OR_RETURN(const std::shared_ptr<WorkQueue> queue, queue_of(stream));
  VMEM_ASSIGN_OR_RETURN(const TrackedRange range, find_signal(word));
  return queue
      ->enqueue([this, word, value, range](WorkContext& context) {
        Status unmapped;
        VMEM_RETURN_IF_ERROR(context.poll([&] {
          const Pinned pinned(machine_->addresses, range);
          unmapped = pinned.status();
          return !unmapped || std::atomic_ref<std::uint32_t>(*word).load(std::memory_order_acquire) >= value;
        }));
        return unmapped;
      })
      .error();
}

Result<TrackedRange> MemoryDevice::find_signal(const std::uint32_t* word) const {
  if (reinterpret_cast<std::uintptr_t>(word) % alignof(std::uint32_t) != 0) {
    return error(StatusCode::kInvalidValue, "a signal's word must be aligned to 4 bytes");
  }
  return locate(word, sizeof *word);
}

}  // namespace vmem
