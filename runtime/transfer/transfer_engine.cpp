#include "runtime/transfer/transfer_engine.hpp"

#include <algorithm>
#include <bit>
#include <exception>
#include <map>
#include <new>
#include <thread>
#include <tuple>
#include <utility>

#include "runtime/support/bytes.hpp"
#include "runtime/support/format.hpp"
#include "runtime/support/thread_annotations.hpp"
#include "runtime/transfer/arena.hpp"
#include "runtime/transfer/chunking.hpp"
#include "runtime/transfer/flight.hpp"
#include "runtime/transfer/hop.hpp"
#include "runtime/transfer/route_graph.hpp"
#include "runtime/transfer/staging.hpp"
#include "runtime/transfer/start_gate.hpp"
#include "runtime/transfer/transfer.hpp"
#include "runtime/transfer/transfer_path.hpp"

namespace vmem {
namespace {

constexpr std::size_t kLeastStaging = 256_KiB;
// A copy call never moves more, so that the watch over a device sees it advance.
constexpr std::size_t kLargestCopy = 64_MiB;
constexpr std::size_t kLargestDirectPieces = 16;
// A device without a gather kernel gets a call for each range of a chunk; so many may be in its queue at once.
constexpr std::size_t kPiecesOfAChunk = 32;
constexpr unsigned kMostDefaultThreads = 8;
// A hop that takes no longer is waited for by its caller: a graph's threads would still be waking up.
constexpr std::chrono::duration<double> kQuickHop{25e-6};
// Fewer bytes are not spread over several routes: the graphs of all of them would fill and drain.
constexpr std::size_t kLeastSplit = 4_MiB;

using RouteChoice = std::shared_ptr<const std::vector<Route>>;  // shared: used outside the lock
// Both ends, the bits of the size, whether several routes may be used.
using RouteKey = std::tuple<DeviceIndex, DeviceIndex, int, bool>;

unsigned num_threads_for(const TransferOptions& options) {
  if (options.copy_threads > 0) return options.copy_threads;
  return std::clamp(std::thread::hardware_concurrency(), 1U, kMostDefaultThreads);
}

Status check_options(const std::vector<Device*>& devices, const Topology& topology, const TransferOptions& options) {
  if (devices.size() != topology.devices().size()) {
    return Status(StatusCode::kInvalidValue,
                  format("{} devices, but the topology has {}", devices.size(), topology.devices().size()));
  }
  if (std::find(devices.begin(), devices.end(), nullptr) != devices.end()) {
    return Status(StatusCode::kInvalidValue, "a device is null");
  }
  if (options.staging_bytes < kLeastStaging) {
    return Status(StatusCode::kInvalidValue,
                  format("staging_bytes is {}: at least {} are needed", options.staging_bytes, kLeastStaging));
  }
  if (options.timeout <= std::chrono::milliseconds::zero()) {
    return Status(StatusCode::kInvalidValue, format("timeout is {} ms: it must be positive", options.timeout.count()));
  }
  if (options.max_in_flight == 0) return Status(StatusCode::kInvalidValue, "max_in_flight is 0: at least 1 is needed");
  return Status();
}

// The whole of a transfer as one hop's copy, in calls that are not too large.
HopCopy whole_copy(const TransferPath& path, const HopExecutor& hops, const Transfer& transfer,
                   const std::vector<ByteRange>& ranges) {
  HopCopy copy;
  copy.from = path.places[0];
  copy.to = path.places[1];
  copy.kind = hops.kind_of(copy.from, copy.to);
  copy.source = static_cast<const std::byte*>(transfer.source.address);
  copy.destination = static_cast<std::byte*>(transfer.destination.address);
  for (const ByteRange& range : ranges) {
    for (std::size_t done = 0; done < range.bytes; done += kLargestCopy) {
      const std::size_t offset = range.offset + done;
      copy.segments.push_back({offset, offset, std::min(kLargestCopy, range.bytes - done)});
    }
  }
  return copy;
}

void destroy_streams_of(Device& device, const CopyStreams& streams) {
  for (const Stream stream : {streams.in, streams.out}) {
    if (stream.has_value()) static_cast<void>(device.destroy_stream(stream));
  }
}

// The arguments of copy_pointers.
struct PointerCopy {
  Endpoint destination;
  Stream destination_stream;
  Endpoint source;
  Stream source_stream;
  std::size_t bytes = 0;
};

}  // namespace

class TransferEngine::Impl {
 public:
  Impl(std::vector<Device*> devices, std::vector<CopyStreams> streams, const Topology& topology, Logger& logger,
       const TransferOptions& options)
      : devices_(std::move(devices)),
        streams_(std::move(streams)),
        topology_(topology),
        options_(options),
        num_threads_(num_threads_for(options)),
        flight_(devices_, options.timeout, logger),
        counters_(std::make_shared<HopCounters>()),
        ledger_(std::make_shared<TransferLedger>()),
        registrations_(devices_, logger),
        ring_(devices_, options.staging_bytes, registrations_, logger),
        hops_(devices_, streams_, flight_, ring_, counters_),
        arena_(num_threads_),
        door_(std::make_shared<ArenaDoor>(arena_)) {}

  ~Impl() {
    const bool idle = ledger_->wait_until_idle(std::chrono::steady_clock::now() + options_.timeout);
    // From here on no completion reaches the arena. What still waits for other work never starts.
    door_->close();
    if (!idle) cancel_gates();
    ledger_->wait_until_idle();
    {
      MutexLock lock(mutex_);
      graphs_.clear();
    }
    destroy_streams();
  }

  void mark_failed(DeviceIndex device, const Status& status) { flight_.fail_device(device, status); }

  Result<Event> start(const TransferRequest& request) {
    VMEM_ASSIGN_OR_RETURN(auto ranges, checked_ranges(request, devices_.size()));
    if (ranges.empty()) return Event();
    std::vector<Event> pending;
    for (const Event& event : request.after) {
      if (!event.is_done()) {
        pending.push_back(event);
      } else if (const Status status = event.wait(); !status) {
        return completed_event(status);
      }
    }
    VMEM_ASSIGN_OR_RETURN(const auto choice, routes_for(request, ranges));
    const RouteChoice routes = with_staging(choice, request);
    return routes->size() == 1 ? start_on(routes->front(), request, ranges, pending)
                               : start_split(*routes, request, ranges, pending);
  }

  Result<Event> copy_pointers(const PointerCopy& asked);

  Status device_status(DeviceIndex device) const {
    if (device >= devices_.size()) {
      return Status(StatusCode::kInvalidValue,
                    format("device {} does not exist: there are {}", device, devices_.size()));
    }
    return flight_.device_status(device);
  }

  HostRegistrations& registrations() noexcept { return registrations_; }

  TransferStats stats() const {
    TransferStats stats;
    ledger_->read(stats);
    stats.hops = counters_->read();
    stats.staging_bytes = ring_.allocated_bytes();
    stats.staging_peak_bytes = ring_.peak_bytes();
    return stats;
  }

 private:
  void destroy_streams() {
    for (DeviceIndex i = 0; i < devices_.size(); ++i) {
      // A stream of a failed device might never come to its end.
      if (!flight_.device_status(i)) continue;
      destroy_streams_of(*devices_[i], streams_[i]);
    }
  }

  Result<Event> copy_on_stream(const HopCopy& copy, Stream stream, DeviceIndex other, Stream other_stream);
  Status check_stream(DeviceIndex device, Stream stream);
  Status order_after(DeviceIndex device, Stream stream, const Event& event);

  // Looked up once for sizes of the same power of two.
  Result<RouteChoice> routes_for(const TransferRequest& request, const std::vector<ByteRange>& ranges) {
    std::size_t bytes = 0;
    for (const ByteRange& range : ranges) bytes += range.bytes;
    const bool together = bytes >= kLeastSplit && !are_scattered(ranges);
    const RouteKey key{request.source.device, request.destination.device, std::bit_width(bytes), together};
    MutexLock lock(mutex_);
    auto& choice = choices_[key];
    if (choice) return choice;
    if (together) {
      VMEM_ASSIGN_OR_RETURN(auto routes, topology_.routes(request.source.device, request.destination.device, bytes));
      choice = std::make_shared<const std::vector<Route>>(std::move(routes));
    } else {
      VMEM_ASSIGN_OR_RETURN(auto route, topology_.route(request.source.device, request.destination.device, bytes));
      choice = std::make_shared<const std::vector<Route>>(1, std::move(route));
    }
    return choice;
  }

  // Without the routes that relay through a device which has no memory left for that; else the way over host memory.
  RouteChoice with_staging(const RouteChoice& chosen, const TransferRequest& request) {
    const auto has_room = [&](const Route& route) {
      for (std::size_t i = 1; i + 1 < route.devices.size() && !route.forced; ++i) {
        if (!hops_.is_host(route.devices[i]) && !ring_.has_room_at(route.devices[i])) return false;
      }
      return true;
    };
    if (std::all_of(chosen->begin(), chosen->end(), has_room)) return chosen;
    std::vector<Route> routes;
    double share = 0;
    for (const Route& route : *chosen) {
      if (!has_room(route)) continue;
      routes.push_back(route);
      share += route.share;
    }
    if (routes.empty()) {
      routes.push_back(chosen->front());
      routes.front().devices = {request.source.device, request.destination.device};
      share = routes.front().share;
    }
    for (Route& route : routes) route.share /= share;
    return std::make_shared<const std::vector<Route>>(std::move(routes));
  }

  // Several routes at once, each with a part of the bytes.
  Result<Event> start_split(const std::vector<Route>& routes, const TransferRequest& request,
                            const std::vector<ByteRange>& ranges, const std::vector<Event>& pending) {
    const auto parts = parts_of(ranges, routes);
    std::vector<Event> events;
    for (std::size_t i = 0; i < routes.size(); ++i) {
      if (parts[i].empty()) continue;
      auto event = start_on(routes[i], request, parts[i], pending);
      // The others are under way: nobody may hear of the end before theirs.
      events.push_back(event ? *event : completed_event(event.error()));
    }
    return when_all(events);
  }

  Result<Event> start_on(const Route& chosen, const TransferRequest& request, const std::vector<ByteRange>& ranges,
                         const std::vector<Event>& pending) {
    const bool scattered = are_scattered(ranges);
    VMEM_ASSIGN_OR_RETURN(RouteGraph * route, graph_for(chosen, scattered));
    for (const DeviceIndex place : route->path().places) VMEM_RETURN_IF_ERROR(flight_.device_status(place));
    auto completion = std::make_shared<TransferCompletion>();  // shared with the event and the transfer
    auto transfer = std::make_shared<Transfer>(request, ranges, ledger_, completion);
    plan(*transfer, route->path(), ranges);
    if (pending.empty() && scattered && chosen.devices.size() == 2 && start_pages(request, ranges, transfer)) {
      return Event(std::move(completion));
    }
    if (!pending.empty()) {
      wait_behind(pending, *route, std::move(transfer));
    } else if (!start_at_once(*route, ranges, transfer)) {
      route->submit(std::move(transfer));
    }
    return Event(std::move(completion));
  }

  Result<RouteGraph*> graph_for(const Route& route, bool packed) {
    VMEM_ASSIGN_OR_RETURN(TransferPath path, plan_path(topology_, hops_, route, packed));
    MutexLock lock(mutex_);
    auto& graph = graphs_[path.places];
    if (!graph) graph = std::make_unique<RouteGraph>(std::move(path), hops_, ring_, arena_);
    return graph.get();
  }

  void plan(Transfer& transfer, const TransferPath& path, const std::vector<ByteRange>& ranges) const {
    const HopKind kind = hops_.kind_of(path.places[0], path.places[1]);
    transfer.most_pieces = kPiecesOfAChunk;
    if (path.num_hops() > 1) {
      transfer.plan = plan_chunks(transfer.total_bytes, path.num_hops(), path.bytes_per_second, ring_.buffer_bytes());
      if (ranges.size() > kPiecesOfAChunk && by_kernel(path, ranges)) {
        transfer.plan.chunk_bytes = std::min(transfer.plan.chunk_bytes, most_page_bytes(ring_.buffer_bytes()));
        transfer.most_pieces = SIZE_MAX;
      }
    } else if (kind == HopKind::kHostToHost) {
      const std::size_t share = align_up(transfer.total_bytes / num_threads_ + 1, kPageBytes);
      transfer.plan = {std::clamp<std::size_t>(share, 256_KiB, 4_MiB), num_threads_};
      transfer.most_pieces = SIZE_MAX;
    } else {
      transfer.plan = {kLargestCopy, 2};
    }
  }

  // Whether each device end of the path moves such ranges in one launch a chunk.
  bool by_kernel(const TransferPath& path, const std::vector<ByteRange>& ranges) const {
    for (const DeviceIndex end : {path.places.front(), path.places.back()}) {
      if (!hops_.is_host(end) && !hops_.moves_pages(end)) return false;
    }
    return std::all_of(ranges.begin(), ranges.end(),
                       [](const ByteRange& range) { return range.bytes % kPageBytes == 0; });
  }

  // Copies that need no graph. False where it does.
  bool start_at_once(RouteGraph& route, const std::vector<ByteRange>& ranges, const TransferPtr& transfer) {
    const TransferPath& path = route.path();
    if (path.num_hops() == 1) {
      return hops_.kind_of(path.places[0], path.places[1]) == HopKind::kHostToHost
                 ? copy_small_by_cpu(path, ranges, transfer)
                 : start_direct(path, ranges, transfer);
    }
    return path.num_hops() == 2 && ranges.size() == 1 && bounce_small(route, ranges, transfer);
  }

  bool copy_small_by_cpu(const TransferPath& path, const std::vector<ByteRange>& ranges, const TransferPtr& transfer) {
    if (transfer->total_bytes > options_.small_bytes) return false;
    hops_.run(whole_copy(path, hops_, *transfer, ranges), nullptr,
              [&](const Status& status) { transfer->end(status); });
    return true;
  }

  // One hop on one device: its own queue keeps the order, its own event is the end.
  bool start_direct(const TransferPath& path, const std::vector<ByteRange>& ranges, const TransferPtr& transfer) {
    if (ranges.size() > kLargestDirectPieces) return false;
    const HopCopy copy = whole_copy(path, hops_, *transfer, ranges);
    const std::size_t in_flight = flight_.in_flight(HopExecutor::operator_of(copy));
    if (copy.segments.size() > kLargestDirectPieces || in_flight + copy.segments.size() > options_.max_in_flight) {
      return false;
    }
    const auto completion = transfer->completion();
    completion->set_origin(hops_.run(copy, nullptr, [transfer](const Status& status) { transfer->end(status); }));
    return true;
  }

  // Scattered pages between a device and host memory that its kernels reach: one launch, and no byte is moved by a CPU.
  bool start_pages(const TransferRequest& request, const std::vector<ByteRange>& ranges, const TransferPtr& transfer) {
    HopCopy copy;
    copy.from = request.source.device;
    copy.to = request.destination.device;
    copy.kind = hops_.kind_of(copy.from, copy.to);
    if (copy.kind != HopKind::kHostToDevice && copy.kind != HopKind::kDeviceToHost) return false;
    const DeviceIndex device = HopExecutor::operator_of(copy);
    const Endpoint& host = copy.kind == HopKind::kHostToDevice ? request.source : request.destination;
    if (!hops_.reaches_pages(device, host.address, ranges.back().offset + ranges.back().bytes)) return false;
    std::size_t num_pages = 0;
    for (const ByteRange& range : ranges) {
      if (range.bytes % kPageBytes != 0) return false;
      num_pages += range.bytes / kPageBytes;
    }
    if (num_pages > most_listed_pages(ring_.buffer_bytes())) return false;
    if (flight_.in_flight(device) >= options_.max_in_flight) return false;
    const auto lane = ring_.take_now(LaneShape{{host.device}, {{device}}});
    if (!lane) return false;
    const LaneGuard returned(ring_, *lane);  // it lingers until the copy has ended
    copy.source = static_cast<const std::byte*>(request.source.address);
    copy.destination = static_cast<std::byte*>(request.destination.address);
    copy.page_list = (*lane)->buffers.front();
    copy.segments.reserve(ranges.size());
    for (const ByteRange& range : ranges) copy.segments.push_back({range.offset, range.offset, range.bytes});
    const auto completion = transfer->completion();
    completion->set_origin(hops_.run(copy, *lane, [transfer](const Status& status) { transfer->end(status); }));
    return true;
  }

  // Copy, wait, copy: for few bytes the quickest way over staging memory.
  bool bounce_small(RouteGraph& route, const std::vector<ByteRange>& ranges, const TransferPtr& transfer) {
    const TransferPath& path = route.path();
    const ByteRange range = ranges.front();
    const auto quick_bytes = static_cast<std::size_t>(path.bytes_per_second * kQuickHop.count());
    if (range.bytes > std::min(std::max(options_.small_bytes, quick_bytes), ring_.buffer_bytes())) return false;
    const auto lane = ring_.take_now(route.lane_shape());
    if (!lane) return false;
    const LaneGuard returned(ring_, *lane);  // it lingers until the copies have ended
    std::byte* const staging = (*lane)->buffers.front()->address;

    HopCopy first{path.places[0],
                  path.places[1],
                  hops_.kind_of(path.places[0], path.places[1]),
                  static_cast<const std::byte*>(transfer->source.address),
                  staging,
                  {{range.offset, 0, range.bytes}}};
    const auto arrival = std::make_shared<TransferCompletion>();  // shared with the copy's completion
    hops_.run(first, *lane, [arrival](const Status& status) { arrival->complete(status); });
    if (const Status status = arrival->wait(Event::Deadline::max()); !status) {
      transfer->end(status);
      return true;
    }
    HopCopy second{path.places[1],
                   path.places[2],
                   hops_.kind_of(path.places[1], path.places[2]),
                   staging,
                   static_cast<std::byte*>(transfer->destination.address),
                   {{0, range.offset, range.bytes}}};
    const Event last = hops_.run(second, *lane, [transfer](const Status& status) { transfer->end(status); });
    transfer->completion()->set_origin(last);
    return true;
  }

  void wait_behind(const std::vector<Event>& events, RouteGraph& route, TransferPtr transfer) {
    auto gate = std::make_shared<StartGate>(route, std::move(transfer), door_);  // shared with the events' callbacks
    {
      MutexLock lock(mutex_);
      if (gates_.size() >= prune_gates_at_) {
        std::erase_if(gates_, [](const auto& old) { return old.expired(); });
        prune_gates_at_ = 2 * gates_.size() + 64;
      }
      gates_.push_back(gate);
    }
    gate->wait_for(events);
  }

  void cancel_gates() {
    std::vector<std::weak_ptr<StartGate>> gates;
    {
      MutexLock lock(mutex_);
      gates.swap(gates_);
    }
    for (const auto& weak : gates) {
      if (const auto gate = weak.lock()) {
        gate->cancel(Status(StatusCode::kCancelled, "the transfer engine was destroyed"));
      }
    }
  }

  const std::vector<Device*> devices_;
  const std::vector<CopyStreams> streams_;
  const Topology& topology_;
  const TransferOptions options_;
  const unsigned num_threads_;
  Flight flight_;
  const std::shared_ptr<HopCounters> counters_;   // shared with completions
  const std::shared_ptr<TransferLedger> ledger_;  // shared with transfers
  HostRegistrations registrations_;
  StagingRing ring_;
  const HopExecutor hops_;
  TransferArena arena_;
  const std::shared_ptr<ArenaDoor> door_;  // shared with gates

  Mutex mutex_;
  std::map<RouteKey, RouteChoice> choices_ VMEM_GUARDED_BY(mutex_);
  std::map<std::vector<DeviceIndex>, std::unique_ptr<RouteGraph>> graphs_ VMEM_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<StartGate>> gates_ VMEM_GUARDED_BY(mutex_);
  std::size_t prune_gates_at_ VMEM_GUARDED_BY(mutex_) = 64;
};

Result<Event> TransferEngine::Impl::copy_pointers(const PointerCopy& asked) {
  TransferRequest request{asked.source, asked.destination, {{0, asked.bytes}}, {}};
  VMEM_ASSIGN_OR_RETURN(const auto ranges, checked_ranges(request, devices_.size()));
  if (ranges.empty()) return Event();
  VMEM_RETURN_IF_ERROR(check_stream(asked.source.device, asked.source_stream));
  VMEM_RETURN_IF_ERROR(check_stream(asked.destination.device, asked.destination_stream));
  VMEM_ASSIGN_OR_RETURN(const auto routes, routes_for(request, ranges));
  VMEM_ASSIGN_OR_RETURN(const RouteGraph* route, graph_for(routes->front(), false));
  for (const DeviceIndex place : route->path().places) VMEM_RETURN_IF_ERROR(flight_.device_status(place));
  if (routes->size() == 1 && route->path().num_hops() == 1) {
    HopCopy copy{asked.source.device,
                 asked.destination.device,
                 hops_.kind_of(asked.source.device, asked.destination.device),
                 static_cast<const std::byte*>(asked.source.address),
                 static_cast<std::byte*>(asked.destination.address),
                 {{0, 0, asked.bytes}}};
    if (copy.kind != HopKind::kHostToHost) {
      const bool at_destination = HopExecutor::operator_of(copy) == asked.destination.device;
      const bool chosen = at_destination && asked.destination_stream.has_value();
      const Stream stream = chosen ? asked.destination_stream : asked.source_stream;
      const bool is_operators = chosen || HopExecutor::operator_of(copy) == asked.source.device;
      if (stream.has_value() && is_operators) {
        return chosen ? copy_on_stream(copy, stream, asked.source.device, asked.source_stream)
                      : copy_on_stream(copy, stream, asked.destination.device, asked.destination_stream);
      }
    }
  }
  const std::pair<DeviceIndex, Stream> streams[] = {{asked.source.device, asked.source_stream},
                                                    {asked.destination.device, asked.destination_stream}};
  for (const auto& [device, stream] : streams) {
    if (!stream.has_value()) continue;
    VMEM_ASSIGN_OR_RETURN(Event so_far, devices_[device]->record(stream));
    request.after.push_back(std::move(so_far));
  }
  VMEM_ASSIGN_OR_RETURN(Event copied, start(request));
  for (const auto& [device, stream] : streams) {
    if (stream.has_value()) VMEM_RETURN_IF_ERROR(order_after(device, stream, copied));
  }
  return copied;
}

// On the application's own stream: nobody waits on the CPU, unless the other end's stream is another driver's.
Result<Event> TransferEngine::Impl::copy_on_stream(const HopCopy& copy, Stream stream, DeviceIndex other,
                                                   Stream other_stream) {
  const DeviceIndex index = HopExecutor::operator_of(copy);
  const bool two_streams = other_stream.has_value() && !(other == index && other_stream == stream);
  if (two_streams) {
    VMEM_ASSIGN_OR_RETURN(const Event so_far, devices_[other]->record(other_stream));
    VMEM_RETURN_IF_ERROR(order_after(index, stream, so_far));
  }
  VMEM_ASSIGN_OR_RETURN(const Event before, devices_[index]->record(stream));
  VMEM_ASSIGN_OR_RETURN(const Event copied, hops_.issue(copy, copy.segments.front(), stream));
  auto completion = std::make_shared<TransferCompletion>();  // shared by the event and the watch
  completion->set_origin(copied);
  flight_.watch_alone(index, before, copied, [completion, counters = counters_, copy](const Status& status) {
    if (status) counters->add(copy, copy.segments.front().bytes);
    completion->complete(status);
  });
  Event event(std::move(completion));
  if (two_streams) VMEM_RETURN_IF_ERROR(order_after(other, other_stream, event));
  return event;
}

Status TransferEngine::Impl::check_stream(DeviceIndex device, Stream stream) {
  if (!stream.has_value()) return Status();
  VMEM_RETURN_IF_ERROR(devices_[device]->check_stream(stream));
  VMEM_ASSIGN_OR_RETURN(const bool capturing, devices_[device]->is_capturing(stream));
  if (!capturing) return Status();
  return Status(StatusCode::kUnsupported, "a copy can't be captured into a graph: it may be staged by the CPU")
      .with_device(devices_[device]->info().name);
}

Status TransferEngine::Impl::order_after(DeviceIndex device, Stream stream, const Event& event) {
  const Status status = devices_[device]->wait_event(stream, event);
  if (status.code() != StatusCode::kUnsupported) return status;
  static_cast<void>(event.wait());  // whoever has the event sees its outcome
  return Status();
}

TransferEngine::TransferEngine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

TransferEngine::~TransferEngine() = default;

Result<std::unique_ptr<TransferEngine>> TransferEngine::create(std::vector<Device*> devices, const Topology& topology,
                                                               Logger& logger, const TransferOptions& options) {
  VMEM_RETURN_IF_ERROR(check_options(devices, topology, options));
  std::vector<CopyStreams> streams(devices.size());
  std::vector<std::pair<DeviceIndex, Status>> failed;
  for (DeviceIndex i = 0; i < devices.size(); ++i) {
    if (devices[i]->info().tier != Tier::kDevice) continue;
    auto in = devices[i]->create_stream();
    if (in) streams[i].in = *in;
    auto out = devices[i]->create_stream();
    if (out) streams[i].out = *out;
    // One device that doesn't work leaves the others usable.
    if (!in || !out) failed.emplace_back(i, in ? out.error() : in.error());
  }
  std::unique_ptr<Impl> impl;
  try {
    impl = std::make_unique<Impl>(devices, streams, topology, logger, options);
  } catch (const std::exception& error) {  // the system has no more threads or memory
    for (DeviceIndex i = 0; i < devices.size(); ++i) destroy_streams_of(*devices[i], streams[i]);
    return Status(StatusCode::kInternal, format("the transfer engine could not be made: {}", error.what()));
  }
  for (auto& [device, status] : failed) {
    logger.warn(format("no streams to copy on: {}", status.to_string()));
    impl->mark_failed(device, status);
  }
  return std::unique_ptr<TransferEngine>(new TransferEngine(std::move(impl)));
}

Result<Event> TransferEngine::start(const TransferRequest& request) {
  try {
    return impl_->start(request);
  } catch (const std::exception& error) {
    return Status(StatusCode::kOutOfHostMemory, format("the transfer could not be started: {}", error.what()));
  }
}

Status TransferEngine::copy(const TransferRequest& request) {
  VMEM_ASSIGN_OR_RETURN(const Event event, start(request));
  return event.wait();
}

Result<Event> TransferEngine::copy_pointers(Endpoint destination, Stream destination_stream, Endpoint source,
                                            Stream source_stream, std::size_t bytes) {
  try {
    return impl_->copy_pointers({destination, destination_stream, source, source_stream, bytes});
  } catch (const std::exception& error) {
    return Status(StatusCode::kOutOfHostMemory, format("the copy could not be started: {}", error.what()));
  }
}

Status TransferEngine::device_status(DeviceIndex device) const { return impl_->device_status(device); }

TransferStats TransferEngine::stats() const { return impl_->stats(); }

HostRegistrations& TransferEngine::registrations() noexcept { return impl_->registrations(); }

}  // namespace vmem
