// Acquire and release: holds, then a plan where something is missing, then the order of streams.
#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/pool/pool_impl.hpp"
#include "runtime/pool/without_exceptions.hpp"
#include "runtime/support/bytes.hpp"
#include "runtime/support/check.hpp"
#include "runtime/support/format.hpp"

namespace vmem {
namespace {

// A driver may refuse, and have the memory again when it is asked what it has: somebody has to give in.
constexpr unsigned kMostRefusals = 8;

Status no_buffer(PoolAddress address) {
  return {StatusCode::kInvalidValue,
          format("{:#x} lies in no buffer of this pool: freed, or never allocated", address)};
}

// Buffers that a claim waits for: they are not freed meanwhile.
class Awaited {
 public:
  Awaited() = default;
  Awaited(const Awaited&) = delete;
  Awaited& operator=(const Awaited&) = delete;
  ~Awaited() { clear(); }
  // REQUIRES: in the read section that the record was found in.
  void add(BufferRecord& record) {
    records_.push_back(&record);
    record.num_claims.fetch_add(1);
  }
  void clear() noexcept {
    for (BufferRecord* record : records_) record->num_claims.fetch_sub(1);
    records_.clear();
  }

 private:
  std::vector<BufferRecord*> records_;
};

// Takes a claim's holds away again unless it is granted for good.
class HoldGuard {
 public:
  HoldGuard(Residency& residency, Claim& claim) noexcept : residency_(residency), claim_(&claim) {}
  HoldGuard(const HoldGuard&) = delete;
  HoldGuard& operator=(const HoldGuard&) = delete;
  ~HoldGuard() {
    if (claim_ != nullptr) residency_.drop(*claim_);
  }
  void keep() noexcept { claim_ = nullptr; }

 private:
  Residency& residency_;
  Claim* claim_;
};

// Finishes a plan at the latest when it goes.
class PlanGuard {
 public:
  PlanGuard(Residency& residency, Plan& plan) noexcept : residency_(residency), plan_(plan) {}
  PlanGuard(const PlanGuard&) = delete;
  PlanGuard& operator=(const PlanGuard&) = delete;
  ~PlanGuard() { residency_.finish(plan_); }

 private:
  Residency& residency_;
  Plan& plan_;
};

}  // namespace

Status Pool::Impl::add_range(const AcquireRange& range, const AcquireRange* before, Claim& claim) {
  if (range.bytes == 0) return {StatusCode::kInvalidValue, "a range of 0 bytes: expected at least one"};
  if (range.access > Access::kWriteDiscard) {
    return {StatusCode::kInvalidValue,
            format("access {} is none of read, write, write-discard", static_cast<int>(range.access))};
  }
  BufferRecord* record = buffers_->find(range.address);
  if (record == nullptr) return no_buffer(range.address);
  const std::size_t offset = range.address - record->address;
  if (range.bytes > record->bytes - offset) {
    return {StatusCode::kInvalidValue,
            format("{} bytes at offset {} pass the end of a buffer of {} bytes", range.bytes, offset, record->bytes)};
  }
  if (before != nullptr && before->address + before->bytes > range.address &&
      (before->access != Access::kRead || range.access != Access::kRead)) {
    return {StatusCode::kInvalidValue,
            format("ranges at {:#x} and {:#x} overlap and one of them writes", before->address, range.address)};
  }
  // The last page belongs to the buffer alone: whoever reaches its end covers it.
  const bool to_the_end = offset + range.bytes == record->bytes;
  const std::size_t bytes = to_the_end ? align_up(offset + range.bytes, kPageBytes) - offset : range.bytes;
  claim.add(*record->region, record->offset + offset, bytes, range.access);
  return {};
}

Status Pool::Impl::make_claim(std::span<const AcquireRange> ranges, Claim& claim, std::vector<std::size_t>& order) {
  claim.ranges.clear();
  claim.pieces.clear();
  if (ranges.size() == 1) return add_range(ranges[0], nullptr, claim);
  order.resize(ranges.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return ranges[a].address < ranges[b].address; });
  const AcquireRange* longest = nullptr;  // of those before, the one that reaches furthest
  for (const std::size_t index : order) {
    const AcquireRange& range = ranges[index];
    VMEM_RETURN_IF_ERROR(add_range(range, longest, claim));
    if (longest == nullptr || range.address + range.bytes > longest->address + longest->bytes) longest = &range;
  }
  return {};
}

Status Pool::Impl::hold(std::span<const AcquireRange> ranges, Claim& claim, std::vector<std::size_t>& order,
                        Patience& patience) {
  Awaited awaited;
  bool held = false;
  const Status found = look_up([&]() -> Status {
    awaited.clear();
    VMEM_RETURN_IF_ERROR(make_claim(ranges, claim, order));
    VMEM_ASSIGN_OR_RETURN(held, residency_->try_hold(claim));
    for (std::size_t i = 0; i < ranges.size() && !held; ++i) {
      BufferRecord* record = buffers_->find(ranges[i].address);
      if (record == nullptr) return no_buffer(ranges[i].address);  // a free has begun meanwhile
      awaited.add(*record);
    }
    return {};
  });
  return !found || held ? found : residency_->hold(claim, patience);
}

Result<Acquired> Pool::Impl::acquire(std::span<const AcquireRange> ranges, const AcquireOptions& options) {
  VMEM_RETURN_IF_ERROR(check_fork());
  VMEM_RETURN_IF_ERROR(check_device(options.device));
  VMEM_RETURN_IF_ERROR(check_stream(options));
  if (ranges.empty()) return Status(StatusCode::kInvalidValue, "an empty list of ranges");
  std::unique_ptr<Acquired::Grant> grant(new Acquired::Grant);  // not make_unique, which would zero its lists first
  Claim& claim = grant->claim;
  grant->pool = this;
  claim.device = options.device;
  claim.stream = options.stream;
  std::vector<std::size_t> order;
  Patience patience(options.deadline.value_or(options_.acquire_deadline));
  bool fetched = false;
  Status status = hold(ranges, claim, order, patience);
  if (!status) {
    failed_.fetch_add(1, std::memory_order_relaxed);
    return status;
  }
  HoldGuard held(*residency_, claim);
  if (!claim.resident) {
    status = fetch(claim, patience);
    fetched = status.is_ok();
  }
  if (status && !(claim.waits.empty() && claim.arrivals.empty())) status = order_after(claim, patience);
  if (!status) {
    failed_.fetch_add(1, std::memory_order_relaxed);
    return status;
  }
  for (std::size_t i = 0; i < ranges.size(); ++i) grant->pointers.push_back(nullptr);
  held.keep();
  acquires_.add();
  if (fetched) fetched_.fetch_add(1, std::memory_order_relaxed);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const ClaimRange& range = claim.ranges[i];
    const std::size_t in_block = range.offset & (range.region->block_bytes() - 1);
    grant->pointers[order.empty() ? i : order[i]] =
        static_cast<std::byte*>(claim.pieces[range.first_piece].base) + in_block;
  }
  return Acquired(std::move(grant));
}

// Makes and runs plans until the bytes are there. A plan is made again where a device failed under it, or where the one
// that evicted blocks should go to could not take them.
Status Pool::Impl::fetch(Claim& claim, Patience& patience) {
  std::vector<bool> excluded(context_.devices.size());
  bool evict_all = false;
  unsigned num_refusals = 0;
  for (;;) {
    VMEM_ASSIGN_OR_RETURN(Plan plan, residency_->plan(claim, excluded, evict_all, patience));
    const PlanGuard ending(*residency_, plan);
    const FrameStore& store = *residency_->memory(claim.device).store;
    const std::size_t limit_before = store.limit_bytes();
    PlanRunner runner(*residency_, *context_.transfers, moves_, patience.cancelled());
    Status status = runner.run(plan, claim);
    // Counted in before other plans may look at the blocks again.
    const bool made_room = status && plan.makes_room;
    if (status && !made_room) status = without_exceptions([&] { return residency_->grant(claim); });
    const bool granted = status && !made_room;
    residency_->finish(plan);
    if (made_room) continue;
    if (granted) return {};
    if (status.code() == StatusCode::kCancelled) return status;
    if (take_in_failures(status)) continue;
    if (const auto device = runner.refused_by(); device && !excluded[*device]) {
      excluded[*device] = true;
      continue;
    }
    // Others hold memory that the limit allows: the store knows now, and the next plan evicts for it.
    const bool refused = runner.frames_failed() && store.limit_bytes() < limit_before;
    if (refused && ++num_refusals <= kMostRefusals) continue;
    // The bytes are free, but not in one piece.
    const bool in_pieces = runner.frames_failed() && !store.uses_windows();
    if (!in_pieces) return status;
    if (evict_all) VMEM_RETURN_IF_ERROR(wait_for_one_piece(claim, patience, status));
    evict_all = true;
  }
}

// Where all that may leave has left, others hold what lies between the pieces.
Status Pool::Impl::wait_for_one_piece(Claim& claim, Patience& patience, const Status& reason) {
  const StatusCode code = reason.code();
  if (code != StatusCode::kOutOfDeviceMemory && code != StatusCode::kOutOfHostMemory) return reason;
  return residency_->wait_for_gaps_to_close(claim, patience, reason);
}

// Asks every device whether it still works. True if one has newly failed.
bool Pool::Impl::take_in_failures(const Status& status) {
  bool failed = false;
  for (DeviceIndex i = 0; i < context_.devices.size(); ++i) {
    if (!residency_->device_status(i)) continue;
    Status health = context_.devices[i]->health();
    if (health) health = context_.transfers->device_status(i);
    if (health) continue;
    context_.log->error(format("device '{}' failed: {} (noticed by: {})", context_.devices[i]->info().name,
                               health.to_string(), status.to_string()));
    residency_->fail_device(i, health);
    failed = true;
  }
  return failed;
}

Status Pool::Impl::order_after(Claim& claim, Patience& patience) {
  const auto waits_on_stream = [&](const Event& event) {
    return claim.stream.has_value() && context_.devices[claim.device]->wait_event(claim.stream, event).is_ok();
  };
  for (const Event& event : claim.waits) {
    if (waits_on_stream(event)) continue;
    const Status status = event.wait(patience.deadline());
    if (status) continue;
    if (status.code() == StatusCode::kTimeout && !event.is_done()) {
      return Status(StatusCode::kBusy, "work that was released on a stream is not over before the deadline")
          .with_device(context_.devices[claim.device]->info().name);
    }
    // How it ended is its holder's affair, unless a device did not survive it.
    if (take_in_failures(status)) VMEM_RETURN_IF_ERROR(residency_->device_status(claim.device));
  }
  for (const Event& event : claim.arrivals) {
    if (waits_on_stream(event)) continue;
    // A copy has a time limit of its own.
    if (const Status status = event.wait(); !status) {
      take_in_failures(status);
      return status;
    }
  }
  return {};
}

// Without an event nothing could be ordered after what runs on the stream: a device that can't give one has failed.
Status Pool::Impl::record_use(const Claim& claim, std::optional<Event>& use) {
  constexpr int kTries = 3;
  Device& device = *context_.devices[claim.device];
  Status status;
  for (int i = 0; i < kTries; ++i) {
    Result<Event> event = Event();
    residency_->reserve().finish([&] { event = device.record(claim.stream); });
    if (event) {
      use = std::move(*event);
      return {};
    }
    status = event.error();
  }
  bool failed = false;
  residency_->reserve().finish([&] { failed = take_in_failures(status); });
  if (!failed) residency_->fail_device(claim.device, status);
  return status;
}

// Throws before anything is given back, or not at all.
Status Pool::Impl::release(Acquired::Grant& grant) {
  Claim& claim = grant.claim;
  VMEM_RETURN_IF_ERROR(check_fork());
  if (abandoned_.load(std::memory_order_relaxed)) return {StatusCode::kInvalidValue, "its pool is gone"};
  std::optional<Event> use;
  Status recorded;
  if (claim.stream.has_value()) recorded = record_use(claim, use);
  // Debug mode looks at the blocks after the release: the regions must not go before.
  const std::uint32_t kept = options_.unmap_released ? 1 : 0;
  for (std::size_t i = 0; i < claim.ranges.size() * kept; ++i) claim.ranges[i].region->num_claims.fetch_add(1);
  const Status status = residency_->release(claim, use);
  if (kept != 0) residency_->hide(claim);  // what can't be hidden stays reachable
  for (std::size_t i = 0; i < claim.ranges.size() * kept; ++i) claim.ranges[i].region->num_claims.fetch_sub(1);
  return status ? recorded : status;
}

Status Pool::Impl::status_of(const Acquired::Grant& grant) { return Residency::arrival_failure(grant.claim); }

}  // namespace vmem
