// Holds: the part of residency that every acquire and release goes through.
#include "runtime/residency/residency.hpp"

#include <algorithm>
#include <utility>

#include "runtime/support/bytes.hpp"
#include "runtime/support/check.hpp"
#include "runtime/support/format.hpp"

namespace vmem {
namespace {

// Beyond this many the list of uses is gone through for those that are over.
constexpr std::size_t kManyUses = 8;

Status refusal(const Status& fault) {
  if (fault) return {};
  return Status(
             fault.code(),
             format("bytes of the range did not arrive for an earlier acquire, and what was written under it was not "
                    "taken over: prefetch the range to go on with the bytes from before, or discard it ({})",
                    fault.message()))
      .with_device(std::string(fault.device()))
      .with_driver(fault.driver_code(), std::string(fault.driver_name()));
}

bool overlaps(const PageMask& pages, const Piece& piece) {
  return pages.overlaps(piece.needed_head) || pages.overlaps(piece.needed_tail);
}

// What the piece needs has to arrive; what it discards only has to be over.
void collect_arrivals(Claim& claim, const Piece& piece, const Instance& instance) {
  for (const Arrival& arrival : instance.arriving) {
    if (overlaps(arrival.pages, piece)) {
      add_event(claim.arrivals, arrival.event);
    } else if (arrival.pages.overlaps(piece.pages)) {
      add_event(claim.waits, arrival.event);
    }
  }
}

Status make_store(DeviceMemory& memory, const Residency::Options& options, std::uint64_t limit) {
  const std::size_t granularity = memory.device->info().granularity;
  if (limit < granularity) return {};  // nothing fits: the device takes no frames
  FrameStore::Options store;
  store.limit_bytes = limit;
  // A device that holds fewer than two blocks has none to spare.
  store.spare_bytes = limit >= 2 * options.block_bytes ? options.block_bytes : 0;
  store.strategy = options.fit;
  store.block_bytes = options.block_bytes;
  store.registrations = options.registrations;
  VMEM_ASSIGN_OR_RETURN(memory.store, FrameStore::create(*memory.device, store));
  return {};
}

}  // namespace

Residency::Residency(const Topology& topology, const Options& options, EvictionPolicy& policy, AccessObserver* observer,
                     std::size_t num_devices)
    : topology_(topology),
      options_(options),
      policy_(policy),
      observer_(observer),
      storage_(std::make_unique<DeviceMemory[]>(num_devices)),
      memories_(storage_.get(), num_devices) {}

Residency::~Residency() = default;

Result<std::unique_ptr<Residency>> Residency::create(const Topology& topology, const std::vector<Device*>& devices,
                                                     const Options& options, EvictionPolicy& policy,
                                                     AccessObserver* observer) {
  std::unique_ptr<Residency> residency(new Residency(topology, options, policy, observer, devices.size()));
  for (DeviceIndex i = 0; i < devices.size(); ++i) {
    DeviceMemory& memory = residency->memories_[i];
    memory.index = i;
    memory.device = devices[i];
    VMEM_RETURN_IF_ERROR(make_store(memory, options, options.limits[i]));
  }
  return residency;
}

Status Residency::hold(Claim& claim, Patience& patience) {
  auto held = hold_all(claim, &patience);
  return held ? Status() : held.error();
}

Result<bool> Residency::try_hold(Claim& claim) { return hold_all(claim, nullptr); }

Result<bool> Residency::hold_all(Claim& claim, Patience* patience) {
  claim.resident = true;
  try {
    for (Piece& piece : claim.pieces) {
      const auto held = hold_piece(claim, piece, patience);
      if (!held || *held == Hold::kWouldWait) {
        drop(claim);
        if (!held) return held.error();
        return false;
      }
      claim.resident &= piece.resident;
    }
  } catch (...) {  // out of memory
    drop(claim);
    throw;
  }
  if (!memories_[claim.device].is_usable() || !memories_[claim.device].store->uses_windows()) check_contiguous(claim);
  return true;
}

Result<Residency::Hold> Residency::hold_piece(Claim& claim, Piece& piece, Patience* patience) {
  Block& block = *piece.block;
  MutexLock lock(block.mutex);
  if (block.retired) return Status(StatusCode::kInvalidValue, "the buffer is being freed");
  if (block.conflicts(piece.pages, piece.writes, &claim)) {
    if (patience == nullptr) return Hold::kWouldWait;
    VMEM_RETURN_IF_ERROR(wait_for_holders(block, piece, claim, *patience));
  }
  if (patience == nullptr && block.has_pending_commit(piece.pages)) {
    block.settle(piece.pages);
    if (block.has_pending_commit(piece.pages)) return Hold::kWouldWait;
  }
  vmem::Hold& hold = block.holds.append();
  hold.owner = &claim;
  hold.pages = piece.pages;
  hold.device = claim.device;
  hold.writes = piece.writes;
  piece.held = true;
  while (block.has_pending_commit(piece.pages) && !block.settle(piece.pages)) {
    const auto arrival = block.next_arrival(piece.pages);
    VMEM_CHECK(arrival.has_value());
    lock.unlock();
    static_cast<void>(arrival->wait());  // its outcome is taken in by settle
    lock.lock();
  }
  if (!block.faults.empty() && !claim.refetches) {
    VMEM_RETURN_IF_ERROR(refusal(block.fault_of(piece.needed_head)));
    VMEM_RETURN_IF_ERROR(refusal(block.fault_of(piece.needed_tail)));
  }
  piece.resident = check_resident(claim, piece, block);
  observe(claim, piece);
  return Hold::kHeld;
}

Status Residency::wait_for_holders(Block& block, const Piece& piece, const Claim& claim, Patience& patience) {
  waits_.fetch_add(1, std::memory_order_relaxed);
  ++block.num_waiters;
  bool in_time = true;
  while (in_time && !block.retired && block.conflicts(piece.pages, piece.writes, &claim)) {
    in_time = patience.wait(block.changed, block.mutex);
  }
  --block.num_waiters;
  if (block.retired) return {StatusCode::kInvalidValue, "the buffer is being freed"};
  if (!block.conflicts(piece.pages, piece.writes, &claim)) return {};
  if (patience.is_cancelled()) return {StatusCode::kCancelled, "cancelled while it waited for a holder"};
  const PoolAddress address = block.region().address() + block.index() * block.region().block_bytes() +
                              std::size_t{piece.pages.begin} * kPageBytes;
  return {StatusCode::kBusy,
          format("pages at {:#x} are held for {} by another acquire that was not released before the deadline", address,
                 piece.writes ? "reading or writing" : "writing")};
}

bool Residency::check_resident(Claim& claim, Piece& piece, Block& block) {
  Instance* instance = block.find(claim.device);
  if (instance == nullptr || memories_[claim.device].failed.load(std::memory_order_relaxed)) return false;
  ++instance->num_holds;
  piece.pinned = true;
  piece.base = instance->address;
  if (!instance->span->mapped) return false;
  if (!instance->valid.covers(piece.needed_head) || !instance->valid.covers(piece.needed_tail)) return false;
  // A plan may be copying what the block has elsewhere into pages here that are not valid yet.
  if (piece.writes && block.moving) return false;
  if (!instance->arriving.empty()) collect_arrivals(claim, piece, *instance);
  if (!block.uses.empty()) {
    if (block.uses.size() > kManyUses) block.settle(piece.pages);
    block.collect_uses(piece.pages, piece.writes, claim.device, claim.stream, claim.waits);
  }
  return true;
}

// Without windows a range must lie in one span: where it does not, the plan has to make it so.
void Residency::check_contiguous(Claim& claim) {
  for (const ClaimRange& range : claim.ranges) {
    if (range.num_pieces < 2) continue;
    const FrameSpan* span = nullptr;
    bool contiguous = true;
    for (std::uint32_t i = 0; i < range.num_pieces; ++i) {
      Piece& piece = claim.pieces[range.first_piece + i];
      MutexLock lock(piece.block->mutex);
      const Instance* instance = piece.block->find(claim.device);
      if (i == 0) span = instance == nullptr ? nullptr : instance->span;
      contiguous &= span != nullptr && instance != nullptr && instance->span == span;
    }
    if (contiguous) continue;
    claim.resident = false;
    for (std::uint32_t i = 0; i < range.num_pieces; ++i) {
      Piece& piece = claim.pieces[range.first_piece + i];
      MutexLock lock(piece.block->mutex);
      piece.resident = false;
      if (!piece.pinned) continue;
      --piece.block->find(claim.device)->num_holds;
      piece.pinned = false;
    }
  }
}

void Residency::observe(const Claim& claim, const Piece& piece) noexcept {
  Block& block = *piece.block;
  block.last_use.store(epoch_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  if (observer_ == nullptr) return;
  const PoolAddress address = block.region().address() + block.index() * block.region().block_bytes() +
                              std::size_t{piece.pages.begin} * kPageBytes;
  const Access access = !piece.writes                                            ? Access::kRead
                        : piece.needed_head.empty() && piece.needed_tail.empty() ? Access::kWriteDiscard
                                                                                 : Access::kWrite;
  observer_->on_access({address, block.bytes_of(piece.pages), claim.device, access, piece.resident});
}

void Residency::remove_hold(Claim& claim, Piece& piece, Block& block) {
  for (std::size_t i = 0; i < block.holds.size(); ++i) {
    if (block.holds[i].owner != &claim || block.holds[i].pages != piece.pages) continue;
    block.holds.erase_unordered(i);
    break;
  }
  piece.held = false;
  if (piece.pinned) {
    Instance* instance = block.find(claim.device);
    VMEM_CHECK(instance != nullptr && instance->num_holds > 0);
    --instance->num_holds;
    piece.pinned = false;
  }
  if (block.num_waiters != 0) block.changed.notify_all();
}

void Residency::wake_memory_waiters() noexcept {
  if (memory_waiters_.load() == 0) return;
  MutexLock lock(plan_mutex_);
  memory_changed_.notify_all();
}

Status Residency::release(Claim& claim, const std::optional<Event>& use) {
  Status result = arrival_failure(claim);
  // Where something is still under way it is known later what becomes of the writes.
  std::shared_ptr<const std::vector<Event>> pending;  // shared by the blocks
  if (!claim.arrivals.empty()) {
    reserve_.finish([&] { pending = std::make_shared<const std::vector<Event>>(claim.arrivals); });
  }
  for (Piece& piece : claim.pieces) {
    Block& block = *piece.block;
    MutexLock lock(block.mutex);
    remove_hold(claim, piece, block);
    if (use) {
      reserve_.finish([&] {
        block.mutex.assert_held();
        block.add_use({piece.pages, claim.device, claim.stream, piece.writes, *use});
      });
    }
    if (memories_[claim.device].failed.load()) {
      reserve_.finish([&] {
        result = Status(StatusCode::kDeviceFailed, "the device failed while the range was held")
                     .with_device(memories_[claim.device].device->info().name);
      });
      continue;
    }
    if (piece.writes) {
      reserve_.finish([&] {
        block.mutex.assert_held();
        if (pending == nullptr) {
          block.commit_write(claim.device, piece.pages);
        } else {
          block.pending_commits.push_back({piece.pages, claim.device, pending});
        }
      });
    }
    if (pending == nullptr) continue;
    reserve_.finish([&] {
      block.mutex.assert_held();
      block.settle(piece.pages);
    });
  }
  wake_memory_waiters();
  return result;
}

// Why something that the claim needs did not arrive, as far as it is known.
Status Residency::arrival_failure(const Claim& claim) {
  for (const Event& arrival : claim.arrivals) {
    if (arrival.is_done()) VMEM_RETURN_IF_ERROR(arrival.wait(Event::Deadline::min()));
  }
  return {};
}

void Residency::drop(Claim& claim) noexcept {
  for (Piece& piece : claim.pieces) {
    if (!piece.held) continue;
    Block& block = *piece.block;
    MutexLock lock(block.mutex);
    remove_hold(claim, piece, block);
  }
  claim.waits.clear();
  claim.arrivals.clear();
  wake_memory_waiters();
}

Status Residency::grant(Claim& claim) {
  claim.waits.clear();
  claim.arrivals.clear();
  for (Piece& piece : claim.pieces) {
    Block& block = *piece.block;
    MutexLock lock(block.mutex);
    Instance* instance = block.find(claim.device);
    if (memories_[claim.device].failed.load() || instance == nullptr) {
      return Status(StatusCode::kDeviceFailed, "the device failed while the range was fetched")
          .with_device(memories_[claim.device].device->info().name);
    }
    if (!piece.pinned) ++instance->num_holds;
    piece.pinned = true;
    piece.base = instance->address;
    if (!piece.writes) block.commit_first_use(*instance, piece.pages);
    collect_arrivals(claim, piece, *instance);
    block.collect_uses(piece.pages, piece.writes, claim.device, claim.stream, claim.waits);
  }
  return {};
}

void Residency::settle(Block& block, PageRange pages) {
  MutexLock lock(block.mutex);
  while (!block.settle(pages)) {
    const auto arrival = block.next_arrival(pages);
    VMEM_CHECK(arrival.has_value());
    lock.unlock();
    static_cast<void>(arrival->wait());
    lock.lock();
  }
}

std::optional<DeviceIndex> Residency::owner_of(Block& block, std::uint32_t page) {
  MutexLock lock(block.mutex);
  block.settle({page, page + 1});
  for (const Instance& instance : block.instances) {
    if (instance.dirty.test(page)) return instance.device;
  }
  return std::nullopt;
}

void Residency::collect_references(Block& block, PageRange pages, std::vector<std::uint64_t>& references) {
  MutexLock lock(block.mutex);
  for (const vmem::Hold& hold : block.holds) {
    // Claims are named by their address, which is even.
    if (hold.pages.overlaps(pages)) references.push_back(reinterpret_cast<std::uintptr_t>(hold.owner));
  }
  for (const Pin& pin : block.pins) {
    if (pin.pages.overlaps(pages)) references.push_back(pin.id * 2 + 1);
  }
}

Status Residency::device_status(DeviceIndex device) const {
  if (!memories_[device].failed.load()) return {};
  MutexLock lock(plan_mutex_);
  return memories_[device].failure;
}

Residency::Usage Residency::usage(DeviceIndex device) const {
  MutexLock lock(plan_mutex_);
  Usage usage;
  for (const auto& span : memories_[device].spans) {
    usage.instances += span->num_instances;
    bool held = false;
    for (std::size_t i = 0; i < span->num_blocks; ++i) {
      Block* block = span->region->find_block(span->first_block + i);
      if (block == nullptr) continue;
      MutexLock block_lock(block->mutex);
      const Instance* instance = block->find(*span);
      held |= instance != nullptr && instance->is_held();
    }
    if (held) usage.pinned_bytes += span->frame.bytes();
  }
  return usage;
}

Residency::Counters Residency::counters() const noexcept {
  return {evictions_.load(std::memory_order_relaxed), waits_.load(std::memory_order_relaxed)};
}

}  // namespace vmem
