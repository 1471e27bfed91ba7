#include "runtime/transfer/hop.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

namespace vmem {

// Joins the operations of one hop: `done` is called when the last has ended, with the first error.
class HopExecutor::Joined {
 public:
  explicit Joined(Flight::Done done) : done_(std::move(done)) {}

  void begin() { pending_.fetch_add(1, std::memory_order_relaxed); }
  void end(const Status& status) {
    if (!status.is_ok()) {
      MutexLock lock(mutex_);
      if (error_.is_ok()) error_ = status;
    }
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    Status error;
    {
      MutexLock lock(mutex_);
      error = error_;
    }
    done_(error);
  }

 private:
  Flight::Done done_;
  std::atomic<std::size_t> pending_{1};  // the issuer counts as one, until it has issued all
  Mutex mutex_;
  Status error_ VMEM_GUARDED_BY(mutex_);
};

namespace {

constexpr std::uint64_t kMostThreadBlocks = 1024;
constexpr std::uint32_t kThreadsPerBlock = 256;

Status out_of_memory() { return {StatusCode::kOutOfHostMemory, "the process has no memory to start the copy"}; }

Result<Event> call_device(Device& device, Device& peer, const HopCopy& copy, const CopySegment& segment,
                          Stream stream) {
  const std::byte* source = copy.source + segment.from;
  std::byte* destination = copy.destination + segment.to;
  switch (copy.kind) {
    case HopKind::kLocal:
      return device.copy_within(destination, source, segment.bytes, stream);
    case HopKind::kHostToDevice:
      return device.copy_from_host(destination, source, segment.bytes, stream);
    case HopKind::kDeviceToHost:
      return device.copy_to_host(destination, source, segment.bytes, stream);
    case HopKind::kPeer:
      return device.copy_to_peer(peer, destination, source, segment.bytes, stream);
    case HopKind::kHostToHost:
      break;
  }
  return Status(StatusCode::kInternal, "no device copies from host to host");
}

}  // namespace

const char* to_string(HopKind kind) noexcept {
  switch (kind) {
    case HopKind::kLocal:
      return "local";
    case HopKind::kHostToHost:
      return "host to host";
    case HopKind::kHostToDevice:
      return "host to device";
    case HopKind::kDeviceToHost:
      return "device to host";
    case HopKind::kPeer:
      return "peer";
  }
  return "unknown";
}

void HopCounters::add(const HopCopy& copy, std::uint64_t bytes) noexcept {
  MutexLock lock(mutex_);
  try {
    HopStats& hop = hops_[{copy.from, copy.to, copy.kind}];
    hop.from = copy.from;
    hop.to = copy.to;
    hop.kind = copy.kind;
    ++hop.copies;
    hop.bytes += bytes;
  } catch (const std::exception&) {  // out of memory: then it is not counted
  }
}

std::vector<HopStats> HopCounters::read() const {
  MutexLock lock(mutex_);
  std::vector<HopStats> hops;
  for (const auto& [key, hop] : hops_) hops.push_back(hop);
  return hops;
}

HopExecutor::HopExecutor(std::vector<Device*> devices, std::vector<CopyStreams> streams, Flight& flight,
                         const StagingRing& ring, std::shared_ptr<HopCounters> counters)
    : devices_(std::move(devices)),
      streams_(std::move(streams)),
      flight_(flight),
      ring_(ring),
      kernels_missing_(std::make_unique<std::atomic<bool>[]>(devices_.size())),
      counters_(std::move(counters)) {}

bool HopExecutor::moves_pages(DeviceIndex index) const {
  const DeviceCaps caps = devices_[index]->info().caps;
  return caps.has(DeviceCap::kKernels) && caps.has(DeviceCap::kHostRegistration) &&
         !ring_.registrations().is_pageable(index) && !kernels_missing_[index].load(std::memory_order_relaxed);
}

HopKind HopExecutor::kind_of(DeviceIndex from, DeviceIndex to) const {
  if (is_host(from)) return is_host(to) ? HopKind::kHostToHost : HopKind::kHostToDevice;
  if (is_host(to)) return HopKind::kDeviceToHost;
  return from == to ? HopKind::kLocal : HopKind::kPeer;
}

Stream HopExecutor::stream_of(const HopCopy& copy) const {
  const CopyStreams& streams = streams_[operator_of(copy)];
  return queue_of(copy.kind) == CopyQueue::kIn ? streams.in : streams.out;
}

Result<Event> HopExecutor::issue(const HopCopy& copy, const CopySegment& segment, Stream stream) const noexcept {
  const DeviceIndex index = operator_of(copy);
  try {
    VMEM_RETURN_IF_ERROR(flight_.device_status(index));
    return call_device(*devices_[index], *devices_[copy.to], copy, segment, stream);
  } catch (const std::exception& error) {
    return Status(StatusCode::kInternal, std::string("a backend threw: ") + error.what())
        .with_device(devices_[index]->info().name);
  } catch (...) {
    return Status(StatusCode::kInternal, "a backend threw").with_device(devices_[index]->info().name);
  }
}

// One launch of a kernel that moves pages, and where the list of their offsets lies, as the CPU and the device see it.
struct HopExecutor::PageWork {
  const char* kernel = nullptr;
  const void* destination = nullptr;
  const void* source = nullptr;
  std::uint64_t* offsets = nullptr;
  const void* offsets_on_device = nullptr;
};

bool HopExecutor::reaches_pages(DeviceIndex index, const void* host, std::size_t bytes) const {
  return moves_pages(index) && ring_.registrations().address_on(host, bytes, index) != nullptr;
}

bool HopExecutor::can_launch(const HopCopy& copy) const {
  if (copy.page_list != nullptr) return moves_pages(operator_of(copy));
  if (copy.segments.size() < 2 || copy.packed == nullptr || !is_host(copy.packed->place)) return false;
  if (copy.kind != HopKind::kHostToDevice && copy.kind != HopKind::kDeviceToHost) return false;
  if (!moves_pages(operator_of(copy))) return false;
  std::size_t bytes = 0;
  for (const CopySegment& segment : copy.segments) {
    if (segment.bytes % kPageBytes != 0) return false;
    bytes += segment.bytes;
  }
  return bytes <= most_page_bytes(ring_.buffer_bytes());
}

// Between pages of the device and a buffer in which they lie packed, with the list behind them.
HopExecutor::PageWork HopExecutor::packed_pages(const HopCopy& copy, std::uint64_t count) const {
  const bool gathers = copy.kind == HopKind::kDeviceToHost;
  auto* const seen = static_cast<std::byte*>(
      ring_.registrations().address_on(copy.packed->address, ring_.buffer_bytes(), operator_of(copy)));
  const std::size_t tail = ring_.buffer_bytes() - count * sizeof(std::uint64_t);
  PageWork work;
  if (seen == nullptr) return work;
  work.kernel = gathers ? "vmem_gather_pages" : "vmem_scatter_pages";
  work.destination = gathers ? seen : copy.destination;
  work.source = gathers ? copy.source : seen;
  work.offsets = reinterpret_cast<std::uint64_t*>(copy.packed->address + tail);
  work.offsets_on_device = seen + tail;
  return work;
}

// Between pages of the device and of host memory that it reaches.
HopExecutor::PageWork HopExecutor::listed_pages(const HopCopy& copy) const {
  const HostRegistrations& registrations = ring_.registrations();
  const DeviceIndex index = operator_of(copy);
  const bool to_host = copy.kind == HopKind::kDeviceToHost;
  const std::size_t end = copy.segments.back().from + copy.segments.back().bytes;
  const void* host = registrations.address_on(to_host ? copy.destination : copy.source, end, index);
  PageWork work;
  work.offsets_on_device = registrations.address_on(copy.page_list->address, ring_.buffer_bytes(), index);
  if (host == nullptr || work.offsets_on_device == nullptr) return work;
  work.kernel = "vmem_copy_pages";
  work.destination = to_host ? host : copy.destination;
  work.source = to_host ? copy.source : host;
  work.offsets = reinterpret_cast<std::uint64_t*>(copy.page_list->address);
  return work;
}

// All segments in one launch: a copy call for each page would take many times as long.
Result<Event> HopExecutor::launch_pages(const HopCopy& copy, Stream stream) const noexcept {
  const DeviceIndex index = operator_of(copy);
  std::uint64_t count = 0;
  for (const CopySegment& segment : copy.segments) count += segment.bytes / kPageBytes;
  const PageWork work = copy.page_list != nullptr ? listed_pages(copy) : packed_pages(copy, count);
  if (work.kernel == nullptr) return Status(StatusCode::kUnsupported, "the host memory is not registered");
  std::uint64_t* offset = work.offsets;
  for (const CopySegment& segment : copy.segments) {
    const std::size_t first = copy.kind == HopKind::kDeviceToHost ? segment.from : segment.to;
    for (std::size_t done = 0; done < segment.bytes; done += kPageBytes) *offset++ = first + done;
  }
  const std::uint64_t page_bytes = kPageBytes;
  try {
    VMEM_RETURN_IF_ERROR(flight_.device_status(index));
    KernelLaunch launch;
    launch.name = work.kernel;
    launch.grid[0] = static_cast<std::uint32_t>(std::min<std::uint64_t>(count, kMostThreadBlocks));
    launch.block[0] = kThreadsPerBlock;
    launch.arguments = {{&work.destination, sizeof work.destination},
                        {&work.source, sizeof work.source},
                        {&work.offsets_on_device, sizeof work.offsets_on_device},
                        {&count, sizeof count},
                        {&page_bytes, sizeof page_bytes}};
    auto event = devices_[index]->launch(launch, stream);
    const StatusCode code = event ? StatusCode::kOk : event.error().code();
    if (code == StatusCode::kNotFound || code == StatusCode::kUnsupported) {
      kernels_missing_[index].store(true, std::memory_order_relaxed);
    }
    return event;
  } catch (const std::exception& error) {
    return Status(StatusCode::kInternal, std::string("a backend threw: ") + error.what())
        .with_device(devices_[index]->info().name);
  }
}

Event HopExecutor::run(const HopCopy& copy, const LanePtr& lane, Flight::Done done) const noexcept {
  if (copy.kind == HopKind::kHostToHost) {
    std::uint64_t bytes = 0;
    for (const CopySegment& segment : copy.segments) {
      std::memcpy(copy.destination + segment.to, copy.source + segment.from, segment.bytes);
      bytes += segment.bytes;
    }
    counters_->add(copy, bytes);
    done(Status());
    return Event();
  }
  std::shared_ptr<Joined> joined;  // shared by the operations
  try {
    std::uint64_t bytes = 0;
    for (const CopySegment& segment : copy.segments) bytes += segment.bytes;
    joined = std::make_shared<Joined>([counters = counters_, copy, bytes, done](const Status& s) {
      if (s.is_ok()) counters->add(copy, bytes);
      done(s);
    });
  } catch (const std::exception&) {
    done(out_of_memory());
    return Event();
  }
  const Event last = issue_all(copy, lane, joined);
  joined->end(Status());
  return last;
}

Event HopExecutor::issue_all(const HopCopy& copy, const LanePtr& lane,
                             const std::shared_ptr<Joined>& joined) const noexcept {
  const DeviceIndex index = operator_of(copy);
  const Stream stream = stream_of(copy);
  Event last;
  const auto keep = [&](const Result<Event>& event) {
    joined->begin();
    if (!event) {
      if (event.error().code() == StatusCode::kDeviceFailed) flight_.fail_device(index, event.error());
      joined->end(event.error());
      return;
    }
    last = *event;
    watch(index, queue_of(copy.kind), *event, lane, joined);
  };
  if (can_launch(copy)) {
    const auto event = launch_pages(copy, stream);
    const StatusCode code = event ? StatusCode::kOk : event.error().code();
    if (code != StatusCode::kNotFound && code != StatusCode::kUnsupported) {
      keep(event);
      return last;
    }
  }
  for (const CopySegment& segment : copy.segments) {
    const auto event = issue(copy, segment, stream);
    keep(event);
    if (!event) break;
  }
  return last;
}

void HopExecutor::watch(DeviceIndex index, CopyQueue queue, const Event& event, const LanePtr& lane,
                        const std::shared_ptr<Joined>& joined) const noexcept {
  if (lane) lane->busy.fetch_add(1, std::memory_order_relaxed);
  try {
    flight_.watch(
        index, queue, event, [joined](const Status& status) { joined->end(status); },
        [lane] {
          if (lane) lane->busy.fetch_sub(1, std::memory_order_acq_rel);
        });
  } catch (const std::exception&) {  // there is no memory to watch it: it is waited for
    const Status status = event.wait();
    if (lane) lane->busy.fetch_sub(1, std::memory_order_acq_rel);
    joined->end(status);
  }
}

}  // namespace vmem
