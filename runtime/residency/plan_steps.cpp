// The steps of a plan: what changes in the books before and after each copy. And the end of regions and devices.
#include <algorithm>
#include <utility>

#include "runtime/residency/residency.hpp"
#include "runtime/support/bytes.hpp"
#include "runtime/support/check.hpp"
#include "runtime/support/format.hpp"

namespace vmem {
namespace {

std::vector<Instance>::iterator instance_on(Block& block, const FrameSpan* span) {
  block.mutex.assert_held();
  return std::find_if(block.instances.begin(), block.instances.end(),
                      [&](const Instance& instance) { return instance.span == span; });
}

Instance* leaving_on(Block& block, DeviceIndex device) {
  block.mutex.assert_held();
  for (Instance& instance : block.instances) {
    if (instance.device == device && instance.leaving) return &instance;
  }
  return nullptr;
}

void append_arrivals(const Instance& instance, const PageMask& pages, std::vector<Event>& events) {
  for (const Arrival& arrival : instance.arriving) {
    if (!(arrival.pages & pages).none()) events.push_back(arrival.event);
  }
}

}  // namespace

void Residency::add_instance(Block& block, FrameSpan& span) {
  Instance instance;
  instance.span = &span;
  instance.device = span.device;
  instance.address =
      static_cast<std::byte*>(span.address) + (block.index() - span.first_block) * block.region().block_bytes();
  instance.valid = PageMask(block.num_pages());
  instance.dirty = PageMask(block.num_pages());
  block.instances.push_back(std::move(instance));
  ++span.num_instances;
}

void Residency::remove_instance(Block& block, const FrameSpan& span) {
  const auto place = instance_on(block, &span);
  VMEM_CHECK(place != block.instances.end() && !place->is_held());
  --place->span->num_instances;
  block.instances.erase(place);
}

Status Residency::make_departure_instance(Departure& departure) {
  if (departure.reserved_bytes == 0) return {};
  MutexLock lock(plan_mutex_);
  DeviceMemory& memory = memories_[departure.to];
  if (memory.failed.load()) return memory.failure;
  Block& block = *departure.block;
  reserve_instance(block);
  VMEM_ASSIGN_OR_RETURN(FrameSpan * span, memory.make_span(block.region(), block.index(), 1, departure.reserved_bytes));
  departure.reserved_bytes = 0;
  MutexLock block_lock(block.mutex);
  add_instance(block, *span);
  return {};
}

// So that adding one can't fail any more.
void Residency::reserve_instance(Block& block) {
  MutexLock lock(block.mutex);
  block.instances.reserve(block.instances.size() + 1);
}

Result<Move> Residency::begin_departure(const Eviction& eviction, Departure& departure) {
  Block& block = *departure.block;
  settle(block, {0, block.num_pages()});
  VMEM_RETURN_IF_ERROR(make_departure_instance(departure));
  MutexLock lock(block.mutex);
  const auto from = instance_on(block, eviction.span);
  VMEM_CHECK(from != block.instances.end());
  Move move;
  move.block = &block;
  move.from = eviction.span->device;
  move.to = departure.to;
  move.pages = block.give_up(*from);
  move.source = from->copy_address();
  block.collect_uses({0, block.num_pages()}, true, move.from, Stream(), move.after);
  if (move.pages.none()) return move;
  const Instance* to = departure.to == eviction.span->device ? nullptr : block.find(departure.to);
  if (to == nullptr) return Status(StatusCode::kInternal, "a block became dirty while it was leaving");
  move.destination = to->copy_address();
  append_arrivals(*to, PageMask::full(block.num_pages()), move.after);
  return move;
}

void Residency::commit_departure(const Move& move) {
  MutexLock lock(move.block->mutex);
  Instance* from = leaving_on(*move.block, move.from);
  Instance* to = move.block->find(move.to);
  VMEM_CHECK(from != nullptr && to != nullptr);
  // A device that failed meanwhile has lost the pages on either side already.
  if (memories_[move.to].failed.load() || memories_[move.from].failed.load()) return;
  move.block->hand_over(*from, *to, move.pages);
}

void Residency::end_eviction(Plan& plan, Eviction& eviction) {
  MutexLock lock(plan_mutex_);
  FrameSpan& span = *eviction.span;
  for (const Departure& departure : eviction.departures) {
    if (departure.reserved_bytes != 0) memories_[departure.to].store->unreserve(departure.reserved_bytes);
    MutexLock block_lock(departure.block->mutex);
    remove_instance(*departure.block, span);
  }
  DeviceMemory& memory = memories_[span.device];
  plan.reserved_bytes += memory.end_span(span, span.device == plan.device);
  if (plan.reserved_bytes > plan.needed_bytes) {
    memory.store->unreserve(plan.reserved_bytes - plan.needed_bytes);
    plan.reserved_bytes = plan.needed_bytes;
  }
  eviction.span = nullptr;
  eviction.departures.clear();
  evictions_.fetch_add(1, std::memory_order_relaxed);
}

void Residency::abort_eviction(Eviction& eviction) {
  if (eviction.span == nullptr) return;
  MutexLock lock(plan_mutex_);
  for (const Departure& departure : eviction.departures) {
    if (departure.reserved_bytes != 0) memories_[departure.to].store->unreserve(departure.reserved_bytes);
    MutexLock block_lock(departure.block->mutex);
    const auto instance = instance_on(*departure.block, eviction.span);
    if (instance != departure.block->instances.end()) instance->leaving = false;
  }
  eviction.span = nullptr;
  eviction.departures.clear();
}

Result<std::vector<Move>> Residency::make_frames(Plan& plan, const Arriving& arriving) {
  Region& region = *arriving.region;
  for (std::size_t i = 0; i < arriving.num_blocks; ++i) {
    Block& block = region.block(arriving.first_block + i);
    settle(block, {0, block.num_pages()});
  }
  MutexLock lock(plan_mutex_);
  DeviceMemory& memory = memories_[plan.device];
  if (memory.failed.load()) return memory.failure;
  std::vector<Move> relocations;
  for (std::size_t i = 0; i < arriving.num_blocks; ++i) {
    Block& block = region.block(arriving.first_block + i);
    reserve_instance(block);
    MutexLock block_lock(block.mutex);
    const Instance* old = leaving_on(block, plan.device);
    if (old == nullptr) continue;
    Move move;
    move.block = &block;
    move.from = plan.device;
    move.to = plan.device;
    move.pages = old->valid;
    move.source = old->copy_address();
    block.collect_uses({0, block.num_pages()}, true, plan.device, Stream(), move.after);
    relocations.push_back(std::move(move));
  }
  VMEM_ASSIGN_OR_RETURN(FrameSpan * span,
                        memory.make_span(region, arriving.first_block, arriving.num_blocks, arriving.bytes));
  plan.reserved_bytes -= arriving.bytes;
  plan.needed_bytes -= arriving.bytes;
  auto relocation = relocations.begin();
  for (std::size_t i = 0; i < arriving.num_blocks; ++i) {
    Block& block = region.block(arriving.first_block + i);
    MutexLock block_lock(block.mutex);
    add_instance(block, *span);
    if (relocation == relocations.end() || relocation->block != &block) continue;
    relocation->destination = block.instances.back().copy_address();
    ++relocation;
  }
  return relocations;
}

void Residency::end_relocation(const Move& move, bool copied) {
  MutexLock lock(plan_mutex_);
  MutexLock block_lock(move.block->mutex);
  Instance* old = leaving_on(*move.block, move.from);
  VMEM_CHECK(old != nullptr);
  FrameSpan& span = copied ? *old->span : *move.block->find(move.to)->span;
  old->leaving = copied;
  remove_instance(*move.block, span);
  if (span.num_instances == 0) memories_[move.from].end_span(span, false);
}

Result<std::vector<Move>> Residency::begin_fetch(Claim& claim, Piece& piece, const PageMask* under_way) {
  Block& block = *piece.block;
  MutexLock lock(block.mutex);
  const Instance* instance = block.find(claim.device);
  if (instance == nullptr || memories_[claim.device].failed.load()) {
    return Status(StatusCode::kDeviceFailed, "the device failed while the range was fetched");
  }
  if (block.lost.overlaps(piece.needed_head) || block.lost.overlaps(piece.needed_tail)) {
    return Status(StatusCode::kDataLost, "pages of the range were on a device that failed");
  }
  PageMask missing = block.obtainable(*instance, piece.needed_head) | block.obtainable(*instance, piece.needed_tail);
  if (under_way != nullptr) missing -= *under_way;
  std::vector<Move> moves;
  const auto add_move = [&](PageMask pages, DeviceIndex from, const Instance* source) {
    Move move;
    move.block = &block;
    move.from = from;
    move.to = claim.device;
    move.destination = instance->copy_address();
    move.pages = std::move(pages);
    move.fill = source == nullptr;
    block.mutex.assert_held();
    // After those who still write the bytes, and those who still use what they replace.
    block.collect_uses(piece.pages, true, claim.device, claim.stream, move.after);
    if (source != nullptr) {
      move.source = source->copy_address();
      append_arrivals(*source, move.pages, move.after);
    }
    moves.push_back(std::move(move));
  };
  if (PageMask zeros = missing & block.zeroed; !zeros.none()) {
    missing -= zeros;
    add_move(std::move(zeros), claim.device, nullptr);
  }
  while (!missing.none()) {
    const Instance* best = nullptr;
    double best_cost = 0;
    for (const Instance& source : block.instances) {
      if (&source == instance || (source.valid & missing).none()) continue;
      const auto route = topology_.route(source.device, claim.device, block.bytes());
      if (!route) continue;
      const double cost = Topology::cost_seconds(*route, block.bytes());
      if (best != nullptr && cost >= best_cost) continue;
      best = &source;
      best_cost = cost;
    }
    if (best == nullptr) return Status(StatusCode::kNotFound, "no route leads to the device that has the bytes");
    PageMask pages = missing & best->valid;
    missing -= pages;
    add_move(std::move(pages), best->device, best);
  }
  return moves;
}

void Residency::commit_fetch(const Move& move) {
  MutexLock lock(move.block->mutex);
  Instance* instance = move.block->find(move.to);
  if (instance == nullptr || memories_[move.to].failed.load()) return;
  if (!move.fill) {
    instance->valid |= move.pages;
    return;
  }
  PageMask valid = instance->valid | move.pages;
  PageMask dirty = instance->dirty | move.pages;
  move.block->zeroed -= move.pages;
  instance->valid = std::move(valid);
  instance->dirty = std::move(dirty);
}

bool Residency::commit_fetch_later(const Move& move, const Event& event) {
  VMEM_CHECK(!move.fill);
  MutexLock lock(move.block->mutex);
  Instance* instance = move.block->find(move.to);
  if (instance == nullptr || memories_[move.to].failed.load()) return false;
  instance->arriving.push_back({move.pages, event});
  instance->valid |= move.pages;
  return true;
}

void Residency::finish(Plan& plan) noexcept {
  if (!plan.active) return;
  for (Eviction& eviction : plan.evictions) abort_eviction(eviction);
  MutexLock lock(plan_mutex_);
  keep_relocations(plan);
  if (plan.reserved_bytes != 0) memories_[plan.device].store->unreserve(plan.reserved_bytes);
  plan.reserved_bytes = 0;
  for (Block* block : plan.moving) stop_moving(*block);
  plan.moving.clear();
  plan.active = false;
  --active_plans_;
  memory_changed_.notify_all();
}

}  // namespace vmem
