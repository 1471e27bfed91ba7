// Plans: which frames a claim needs, who leaves for them, and where to. All of it under the plan lock.
#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "runtime/memory/placement.hpp"
#include "runtime/residency/residency.hpp"
#include "runtime/support/bytes.hpp"
#include "runtime/support/check.hpp"
#include "runtime/support/format.hpp"

namespace vmem {

// A plan in the making.
struct Residency::Attempt {
  Attempt(const Claim* for_claim, const std::vector<bool>& without, bool all)
      : excluded(without), claim(for_claim), evict_all(all) {}

  Plan plan;
  const std::vector<bool>& excluded;
  const Claim* claim = nullptr;
  bool evict_all = false;
  std::size_t claim_bytes = 0;  // of frames on the device for all blocks of the claim
  bool no_room = false;         // a victim found no place to go to
  bool merge_only = false;      // blocks leave only for devices that have an instance of them already
  std::vector<Event> in_use;    // work that keeps copies from being dropped
};

namespace {

bool contains(const std::vector<Block*>& blocks, const Block* block) {
  return std::find(blocks.begin(), blocks.end(), block) != blocks.end();
}

// The spans whose blocks move on their device, each once.
std::vector<FrameSpan*> relocating_spans(const Plan& plan) {
  std::vector<FrameSpan*> spans;
  for (const Relocation& relocation : plan.relocations) {
    if (std::find(spans.begin(), spans.end(), relocation.span) == spans.end()) spans.push_back(relocation.span);
  }
  return spans;
}

Status blocked_by_plan() {
  return {StatusCode::kBusy, "the range is being moved by another acquire beyond the deadline"};
}

}  // namespace

Result<Plan> Residency::plan(Claim& claim, const std::vector<bool>& excluded, bool evict_all, Patience& patience) {
  touch(claim);
  MutexLock lock(plan_mutex_);
  bool waits = false;
  bool is_waiter = false;
  Status outcome;
  for (bool in_time = true; in_time;) {
    Attempt attempt(&claim, excluded, evict_all);
    attempt.plan.device = claim.device;
    try {
      outcome = try_plan(claim, attempt);
      if (!outcome) undo(attempt);
      if (outcome || (attempt.no_room && make_room(attempt))) {
        attempt.plan.active = true;
        ++active_plans_;
        if (is_waiter) memory_waiters_.fetch_sub(1);
        return std::move(attempt.plan);
      }
    } catch (...) {  // out of memory
      undo(attempt);
      if (is_waiter) memory_waiters_.fetch_sub(1);
      throw;
    }
    if (attempt.in_use.empty() && outcome.code() != StatusCode::kBusy) break;
    if (!std::exchange(waits, true)) waits_.fetch_add(1, std::memory_order_relaxed);
    // Two that wait for memory must not keep each other's.
    if (let_go(claim)) memory_changed_.notify_all();
    if (!attempt.in_use.empty()) {
      // Room comes with the end of work that was released on a stream: nobody would wake this thread then.
      lock.unlock();
      in_time = patience.wait(attempt.in_use.front());
      lock.lock();
    } else if (!std::exchange(is_waiter, true)) {
      // From here on a release wakes this thread; one that came before is seen by looking again.
      memory_waiters_.fetch_add(1);
    } else {
      in_time = patience.wait(memory_changed_, plan_mutex_);
    }
  }
  if (is_waiter) memory_waiters_.fetch_sub(1);
  if (patience.is_cancelled()) return Status(StatusCode::kCancelled, "cancelled while it waited for memory");
  return outcome;
}

Status Residency::wait_for_gaps_to_close(Claim& claim, Patience& patience, const Status& reason) {
  MutexLock lock(plan_mutex_);
  if (active_plans_ == 0 && !is_held_by_others(claim, memories_.subspan(claim.device, 1))) return reason;
  waits_.fetch_add(1, std::memory_order_relaxed);
  memory_waiters_.fetch_add(1);
  if (let_go(claim)) memory_changed_.notify_all();
  const bool in_time = patience.wait_briefly(memory_changed_, plan_mutex_);
  memory_waiters_.fetch_sub(1);
  if (in_time) return {};
  if (patience.is_cancelled()) return {StatusCode::kCancelled, "cancelled while it waited for memory"};
  return Status(StatusCode::kBusy, format("free memory is in pieces, and acquires beyond the deadline hold what lies "
                                          "between: {}",
                                          reason.message()))
      .with_device(memories_[claim.device].device->info().name);
}

// A plan begins an epoch, and what it brings belongs to it: it is younger than all that was there.
void Residency::touch(const Claim& claim) noexcept {
  const std::uint64_t epoch = epoch_.fetch_add(1, std::memory_order_relaxed) + 1;
  for (const Piece& piece : claim.pieces) piece.block->last_use.store(epoch, std::memory_order_relaxed);
}

// What the claim has on its device may be taken by others until its plan is made; its holds stay. True if there was
// something.
bool Residency::let_go(Claim& claim) {
  bool any = false;
  for (Piece& piece : claim.pieces) {
    piece.resident = false;
    if (!piece.pinned) continue;
    MutexLock lock(piece.block->mutex);
    --piece.block->find(claim.device)->num_holds;
    piece.pinned = false;
    any = true;
  }
  return any;
}

Status Residency::try_plan(Claim& claim, Attempt& attempt) {
  const DeviceMemory& memory = memories_[claim.device];
  const std::string& name = memory.device->info().name;
  if (!memory.failure.is_ok()) return memory.failure;
  if (memory.store == nullptr) {
    return Status(StatusCode::kOutOfDeviceMemory, "the pool may use no memory of it: raise its limit")
        .with_device(name);
  }
  VMEM_RETURN_IF_ERROR(memory.store->uses_windows() ? list_windowed(claim, attempt) : list_extents(claim, attempt));
  for (const Arriving& frame : attempt.plan.frames) attempt.plan.needed_bytes += frame.bytes;
  if (const std::size_t fitting = memory.fitting_bytes(); attempt.claim_bytes > fitting) {
    return Status(memory.device->info().tier == Tier::kHost ? StatusCode::kOutOfHostMemory
                                                            : StatusCode::kOutOfDeviceMemory,
                  format("{} asked at once, {} can be used (limit {}, {} kept spare): acquire less at a time",
                         format_bytes(attempt.claim_bytes), format_bytes(fitting),
                         format_bytes(memory.store->limit_bytes()), format_bytes(memory.store->spare_bytes())))
        .with_device(name);
  }
  return reserve(claim, attempt);
}

std::size_t Residency::frame_bytes(const DeviceMemory& memory, const Block& block) const {
  return align_up(block.bytes(), memory.store->granularity());
}

void Residency::mark_moving(Block& block, Plan& plan) {
  block.mutex.assert_held();
  plan.moving.push_back(&block);
  block.moving = true;
}

// Plans copy between windows: what was unmapped for debugging is mapped again first.
Status Residency::show_instances(Block& block) {
  for (Instance& instance : block.instances) {
    if (!instance.span->mapped) VMEM_RETURN_IF_ERROR(memories_[instance.device].show(*instance.span));
  }
  return {};
}

// Looks at a piece's block: kBusy while another plan has it; marks it as this plan's.
Status Residency::inspect(Claim& claim, Piece& piece, Attempt& attempt, bool& has_instance) {
  Block& block = *piece.block;
  MutexLock lock(block.mutex);
  if (block.moving && !contains(attempt.plan.moving, &block)) return blocked_by_plan();
  if (block.lost.overlaps(piece.needed_head) || block.lost.overlaps(piece.needed_tail)) {
    return {
        StatusCode::kDataLost,
        format("pages of the range at {:#x} were on a device that failed, and nowhere else: write_discard makes them "
               "usable again",
               block.region().address() + block.index() * block.region().block_bytes())};
  }
  has_instance = block.find(claim.device) != nullptr;
  VMEM_RETURN_IF_ERROR(show_instances(block));
  if (!block.moving) mark_moving(block, attempt.plan);
  return {};
}

Status Residency::list_windowed(Claim& claim, Attempt& attempt) {
  const DeviceMemory& memory = memories_[claim.device];
  const Block* last = nullptr;  // the furthest so far: ranges that overlap come back to blocks before it
  for (Piece& piece : claim.pieces) {
    const std::size_t bytes = frame_bytes(memory, *piece.block);
    const bool seen =
        last != nullptr && &last->region() == &piece.block->region() && piece.block->index() <= last->index();
    if (!seen) attempt.claim_bytes += bytes;
    bool has_instance = true;
    if (!piece.resident) VMEM_RETURN_IF_ERROR(inspect(claim, piece, attempt, has_instance));
    if (!has_instance && !seen) {
      attempt.plan.frames.push_back({&piece.block->region(), piece.block->index(), 1, bytes});
    }
    if (!seen) last = piece.block;
  }
  return {};
}

// Without windows: ranges that share a block become one run of blocks; a run that does not lie in one span gets a new
// one.
Status Residency::list_extents(Claim& claim, Attempt& attempt) {
  const DeviceMemory& memory = memories_[claim.device];
  for (std::size_t i = 0; i < claim.ranges.size();) {
    Region& region = *claim.ranges[i].region;
    const std::uint32_t first_piece = claim.ranges[i].first_piece;
    std::uint32_t end_piece = first_piece;
    const std::size_t first = claim.pieces[first_piece].block->index();
    std::size_t last = first;
    for (; i < claim.ranges.size() && claim.ranges[i].region == &region; ++i) {
      const ClaimRange& range = claim.ranges[i];
      if (end_piece != first_piece && claim.pieces[range.first_piece].block->index() > last) break;
      end_piece = range.first_piece + range.num_pieces;
      last = std::max(last, claim.pieces[end_piece - 1].block->index());
    }
    const FrameSpan* span = nullptr;
    bool contiguous = true;
    for (std::uint32_t p = first_piece; p < end_piece; ++p) {
      Piece& piece = claim.pieces[p];
      bool has_instance = false;
      VMEM_RETURN_IF_ERROR(inspect(claim, piece, attempt, has_instance));
      MutexLock lock(piece.block->mutex);
      const Instance* instance = piece.block->find(claim.device);
      if (p == first_piece) span = instance == nullptr ? nullptr : instance->span;
      contiguous &= instance != nullptr && instance->span == span;
    }
    const std::size_t bytes =
        (last - first) * region.block_bytes() + frame_bytes(memory, *claim.pieces[end_piece - 1].block);
    attempt.claim_bytes += bytes;
    if (contiguous) continue;
    VMEM_RETURN_IF_ERROR(list_relocations(claim, first_piece, end_piece, attempt));
    attempt.plan.frames.push_back({&region, first, last - first + 1, bytes});
  }
  return {};
}

// The run's instances as they lie now: the claim lets go of them, and they take no new holds.
Status Residency::list_relocations(Claim& claim, std::uint32_t first_piece, std::uint32_t end_piece, Attempt& attempt) {
  for (std::uint32_t p = first_piece; p < end_piece; ++p) {
    Piece& piece = claim.pieces[p];
    MutexLock lock(piece.block->mutex);
    if (piece.pinned) --piece.block->find(claim.device)->num_holds;
    piece.pinned = false;
    piece.resident = false;
  }
  for (std::uint32_t p = first_piece; p < end_piece; ++p) {
    Block& block = *claim.pieces[p].block;
    MutexLock lock(block.mutex);
    Instance* instance = block.find(claim.device);
    if (instance == nullptr) continue;
    if (instance->is_held()) {
      return {StatusCode::kBusy, "the range overlaps an extent that another acquire holds, and does not lie inside it"};
    }
    attempt.plan.relocations.push_back({&block, instance->span});
    instance->leaving = true;
  }
  return {};
}

// They stay where they are, unless they have moved.
void Residency::keep_relocations(Plan& plan) {
  for (const Relocation& relocation : plan.relocations) {
    MutexLock lock(relocation.block->mutex);
    for (Instance& instance : relocation.block->instances) {
      if (instance.span == relocation.span) instance.leaving = false;
    }
  }
  plan.relocations.clear();
}

Status Residency::reserve(Claim& claim, Attempt& attempt) {
  DeviceMemory& memory = memories_[claim.device];
  Plan& plan = attempt.plan;
  if (plan.needed_bytes == 0) return {};
  const std::size_t available = memory.store->available_bytes();
  const std::size_t at_once = std::min(available, plan.needed_bytes);
  if (at_once != 0) {
    VMEM_RETURN_IF_ERROR(memory.store->reserve(at_once));
    plan.reserved_bytes = at_once;
  }
  plan.evict_first = attempt.evict_all;
  if (at_once == plan.needed_bytes && !attempt.evict_all) return {};
  // What is used of the spare has to come back as well.
  const FrameStore::Figures figures = memory.store->figures();
  const std::size_t in_use = figures.used_bytes + figures.reserved_bytes;
  const std::size_t over = in_use > memory.usable_bytes() ? in_use - memory.usable_bytes() : 0;
  return choose_victims(claim, attempt, plan.needed_bytes - at_once + over);
}

Status Residency::choose_victims(Claim& claim, Attempt& attempt, std::size_t shortfall) {
  const DeviceMemory& memory = memories_[claim.device];
  std::vector<EvictionCandidate> figures;
  const std::vector<FrameSpan*> spans = candidates(claim.device, figures);
  std::size_t freed = 0;
  std::vector<bool> tried(spans.size());
  // The policy names as many as suffice; where some of them can't leave, it is asked for all the rest.
  for (const std::size_t wanted : {shortfall, std::numeric_limits<std::size_t>::max()}) {
    for (const std::size_t index : policy_.choose(figures, attempt.evict_all ? SIZE_MAX : wanted)) {
      if (freed >= shortfall && !attempt.evict_all) break;
      if (tried[index]) continue;
      tried[index] = true;
      if (claim_victim(*spans[index], attempt)) freed += spans[index]->frame.bytes();
    }
    if (freed >= shortfall && !attempt.evict_all) return {};
  }
  // Last, memory of the claim's own blocks that does not lie where it must (extents): it leaves and comes back. Where
  // it can't leave, it moves on its device.
  for (FrameSpan* span : relocating_spans(attempt.plan)) {
    if (freed >= shortfall && !attempt.evict_all) break;
    if (!claim_victim(*span, attempt)) continue;
    freed += span->frame.bytes();
    attempt.plan.evict_first = true;  // its block must have left before it gets its new frame
  }
  if (freed >= shortfall) return {};
  const std::string& name = memory.device->info().name;
  if (attempt.no_room && active_plans_ == 0 && !is_held_by_others(claim, memories_)) {
    return Status(
               StatusCode::kOutOfHostMemory,
               format("{} must leave to make room, and no other device has room for it: free buffers or raise a limit",
                      format_bytes(shortfall - freed)))
        .with_device(name);
  }
  return Status(StatusCode::kBusy, format("{} asked, {} of the memory is held by other acquires beyond the deadline",
                                          format_bytes(attempt.plan.needed_bytes), format_bytes(shortfall - freed)))
      .with_device(name);
}

// True if a grant other than this claim's, or a pin, keeps memory of one of the devices.
bool Residency::is_held_by_others(const Claim& claim, std::span<const DeviceMemory> memories) {
  for (const DeviceMemory& memory : memories) {
    for (const auto& span : memory.spans) {
      for (std::size_t i = 0; i < span->num_blocks; ++i) {
        Block* block = span->region->find_block(span->first_block + i);
        if (block == nullptr) continue;
        MutexLock lock(block->mutex);
        if (!block->pins.empty()) return true;
        for (const vmem::Hold& hold : block->holds) {
          if (hold.owner != &claim) return true;
        }
      }
    }
  }
  return false;
}

std::vector<FrameSpan*> Residency::candidates(DeviceIndex device, std::vector<EvictionCandidate>& figures) {
  std::vector<FrameSpan*> spans;
  for (const auto& span : memories_[device].spans) {
    EvictionCandidate candidate;
    if (!inspect_candidate(*span, candidate)) continue;
    spans.push_back(span.get());
    figures.push_back(candidate);
  }
  return spans;
}

bool Residency::inspect_candidate(FrameSpan& span, EvictionCandidate& figures) {
  figures.bytes = span.frame.bytes();
  figures.clean = true;
  for (std::size_t i = 0; i < span.num_blocks; ++i) {
    Block* block = span.region->find_block(span.first_block + i);
    if (block == nullptr) continue;
    MutexLock lock(block->mutex);
    const Instance* instance = block->find(span);
    if (instance == nullptr) continue;
    if (block->moving || !block->may_leave(*instance)) return false;
    figures.last_use = std::max(figures.last_use, block->last_use.load(std::memory_order_relaxed));
    figures.clean &= instance->arriving.empty() && block->is_redundant(*instance);
  }
  return true;
}

// Marks every block of the span as leaving and finds a place for those that need one; nothing is changed on failure.
bool Residency::claim_victim(FrameSpan& span, Attempt& attempt) {
  Plan& plan = attempt.plan;
  const std::size_t first_moving = plan.moving.size();
  plan.moving.reserve(first_moving + span.num_blocks);
  plan.evictions.push_back({&span, {}});
  std::vector<Departure>& departures = plan.evictions.back().departures;
  departures.reserve(span.num_blocks);
  std::vector<std::size_t> need_room;
  need_room.reserve(span.num_blocks);
  bool possible = true;
  for (std::size_t i = 0; i < span.num_blocks && possible; ++i) {
    Block* block = span.region->find_block(span.first_block + i);
    if (block == nullptr) continue;
    MutexLock lock(block->mutex);
    Instance* instance = block->find(span);
    if (instance == nullptr) continue;
    const bool ours = contains(plan.moving, block);
    // What only moves on its device may leave it as well.
    const bool relocates = ours && std::exchange(instance->leaving, false);
    // A block of the claim that lies where it must stays there, though the claim let go of it while it waited.
    const bool is_needed = ours && !relocates && span.device == plan.device;
    possible =
        !is_needed && block->may_leave(*instance, attempt.claim) && (!block->moving || ours) && show_instances(*block);
    if (relocates || possible) instance->leaving = true;
    if (!possible) break;
    departures.push_back({block, span.device, 0});
    if (!ours) mark_moving(*block, plan);
    block->settle({0, block->num_pages()});
    const bool settled = instance->arriving.empty() && block->pending_commits.empty();
    if (!settled || !block->give_up(*instance).none()) need_room.push_back(departures.size() - 1);
  }
  for (std::size_t i = 0; i < need_room.size() && possible; ++i) {
    Departure& departure = departures[need_room[i]];
    const auto room = find_room(*departure.block, span.device, attempt);
    possible = room.has_value();
    if (room) departure = *room;
  }
  if (possible) {
    std::erase_if(plan.relocations, [&](const Relocation& relocation) { return relocation.span == &span; });
    return true;
  }
  abandon_victim(plan, first_moving);
  return false;
}

// Undoes the last victim, which can't leave after all.
void Residency::abandon_victim(Plan& plan, std::size_t first_moving) {
  const Eviction& eviction = plan.evictions.back();
  for (const Departure& departure : eviction.departures) {
    if (departure.reserved_bytes != 0) memories_[departure.to].store->unreserve(departure.reserved_bytes);
    const bool relocates = std::any_of(plan.relocations.begin(), plan.relocations.end(), [&](const Relocation& other) {
      return other.block == departure.block && other.span == eviction.span;
    });
    MutexLock lock(departure.block->mutex);
    departure.block->find(*eviction.span)->leaving = relocates;
  }
  plan.evictions.pop_back();
  for (std::size_t i = first_moving; i < plan.moving.size(); ++i) stop_moving(*plan.moving[i]);
  plan.moving.resize(first_moving);
}

void Residency::stop_moving(Block& block) {
  MutexLock lock(block.mutex);
  block.moving = false;
  block.changed.notify_all();
}

std::optional<Departure> Residency::find_room(Block& block, DeviceIndex from, Attempt& attempt) {
  const auto ranked = rank_destinations(block.region(), from, block.bytes(), attempt);
  {
    MutexLock lock(block.mutex);
    // What it prefers comes before where it happens to have a frame.
    const auto preferred = block.region().preferred();
    if (preferred && !ranked.empty() && ranked.front() == *preferred && block.find(*preferred) == nullptr) {
      const std::size_t bytes = frame_bytes(memories_[*preferred], block);
      if (!attempt.merge_only && memories_[*preferred].store->reserve(bytes))
        return Departure{&block, *preferred, bytes};
    }
    for (const DeviceIndex device : ranked) {
      if (block.find(device) != nullptr) return Departure{&block, device, 0};
    }
  }
  if (attempt.merge_only) return std::nullopt;
  for (const DeviceIndex device : ranked) {
    const std::size_t bytes = frame_bytes(memories_[device], block);
    if (memories_[device].store->reserve(bytes)) return Departure{&block, device, bytes};
  }
  for (const DeviceIndex device : ranked) {
    const std::size_t bytes = frame_bytes(memories_[device], block);
    if (reclaim(device, bytes, attempt) && memories_[device].store->reserve(bytes)) {
      return Departure{&block, device, bytes};
    }
  }
  for (const DeviceIndex device : ranked) {
    const std::size_t bytes = frame_bytes(memories_[device], block);
    if (memories_[device].store->reserve(bytes, FrameStore::SpareUse::kAllowed))
      return Departure{&block, device, bytes};
  }
  attempt.no_room = true;
  return std::nullopt;
}

std::vector<DeviceIndex> Residency::rank_destinations(const Region& region, DeviceIndex from, std::size_t bytes,
                                                      const Attempt& attempt) const {
  std::vector<PlacementCandidate> with_room;
  std::vector<PlacementCandidate> full;
  for (const DeviceMemory& memory : memories_) {
    if (memory.index == from || !memory.is_usable() || attempt.excluded[memory.index]) continue;
    const auto route = topology_.route(from, memory.index, bytes);
    if (!route) continue;
    PlacementCandidate candidate;
    candidate.device = memory.index;
    candidate.tier = memory.device->info().tier;
    candidate.free_bytes = memory.store->available_bytes();
    candidate.limit_bytes = memory.store->limit_bytes();
    candidate.latency_seconds = std::chrono::duration<double>(route->latency).count();
    candidate.seconds_per_byte = route->bytes_per_second > 0 ? 1.0 / route->bytes_per_second : 0;
    if (candidate.free_bytes >= bytes) {
      with_room.push_back(candidate);
    } else {
      candidate.free_bytes = candidate.limit_bytes;  // what it could have
      full.push_back(candidate);
    }
  }
  std::vector<DeviceIndex> ranked = rank_targets({bytes, 0}, with_room, options_.placement);
  const auto rest = rank_targets({bytes, 0}, full, options_.placement);
  ranked.insert(ranked.end(), rest.begin(), rest.end());
  if (const auto preferred = region.preferred()) {
    std::stable_partition(ranked.begin(), ranked.end(), [&](DeviceIndex device) { return device == *preferred; });
  }
  return ranked;
}

// Drops copies that others have as well until so many bytes can be reserved; moves nothing.
bool Residency::reclaim(DeviceIndex device, std::size_t bytes, Attempt& attempt) {
  DeviceMemory& memory = memories_[device];
  for (std::size_t i = memory.spans.size(); i-- > 0 && memory.store->available_bytes() < bytes;) {
    if (i < memory.spans.size()) drop_if_idle(*memory.spans[i], attempt);
  }
  return memory.store->available_bytes() >= bytes;
}

void Residency::drop_if_idle(FrameSpan& span, Attempt& attempt) {
  std::vector<Block*> blocks;
  for (std::size_t i = 0; i < span.num_blocks; ++i) {
    Block* block = span.region->find_block(span.first_block + i);
    if (block == nullptr) continue;
    MutexLock lock(block->mutex);
    const Instance* instance = block->find(span);
    if (instance == nullptr) continue;
    const PageRange whole{0, block->num_pages()};
    // A copy under way may be reading this one, or make it redundant.
    const bool settled = block->settle(whole);
    if (!block->may_leave(*instance) || block->moving || (settled && !block->is_redundant(*instance))) return;
    if (!settled || !block->uses.empty()) {
      if (const auto arrival = block->next_arrival(whole)) attempt.in_use.push_back(*arrival);
      block->collect_uses(whole, true, span.device, Stream(), attempt.in_use);
      return;
    }
    blocks.push_back(block);
  }
  bool idle = true;
  for (Block* block : blocks) {
    MutexLock lock(block->mutex);
    Instance* instance = block->find(span);
    // Looked at again: the block was let go of in between.
    idle = idle && block->uses.empty() && block->may_leave(*instance) && block->is_redundant(*instance);
    if (!idle) continue;
    block->give_up(*instance);
    remove_instance(*block, span);
  }
  if (span.num_instances != 0) return;
  memories_[span.device].end_span(span, false);
  evictions_.fetch_add(1, std::memory_order_relaxed);
}

// Where blocks are in pieces on several devices (each owns some of their pages), the pieces come together: every one
// that leaves gives a frame back.
bool Residency::make_room(Attempt& attempt) {
  const std::size_t wanted = attempt.plan.needed_bytes;
  const DeviceIndex asking = attempt.plan.device;
  attempt.plan = Plan{};
  attempt.plan.device = asking;
  attempt.plan.makes_room = true;
  attempt.merge_only = true;
  std::size_t freed = 0;
  for (const DeviceMemory& memory : memories_) {
    if (memory.index == asking || !memory.is_usable()) continue;
    std::vector<EvictionCandidate> figures;
    for (FrameSpan* span : candidates(memory.index, figures)) {
      if (freed >= wanted) return true;
      if (claim_victim(*span, attempt)) freed += span->frame.bytes();
    }
  }
  return freed != 0;
}

void Residency::undo(Attempt& attempt) {
  Plan& plan = attempt.plan;
  keep_relocations(plan);
  for (const Eviction& eviction : plan.evictions) {
    for (const Departure& departure : eviction.departures) {
      if (departure.reserved_bytes != 0) memories_[departure.to].store->unreserve(departure.reserved_bytes);
      MutexLock lock(departure.block->mutex);
      departure.block->find(*eviction.span)->leaving = false;
    }
  }
  for (Block* block : plan.moving) stop_moving(*block);
  if (plan.reserved_bytes != 0) memories_[plan.device].store->unreserve(plan.reserved_bytes);
  plan.reserved_bytes = 0;
}

}  // namespace vmem
