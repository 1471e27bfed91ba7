#include "runtime/residency/block.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/support/bytes.hpp"
#include "runtime/support/check.hpp"

namespace vmem {

namespace {

PageMask arrived_pages(const Instance& instance) {
  PageMask mask = instance.valid;
  for (const Arrival& arrival : instance.arriving) mask -= arrival.pages;
  return mask;
}

}  // namespace

Block::Block(Region& region, std::size_t index, std::size_t bytes, bool zero)
    : zeroed(static_cast<std::uint32_t>(divide_up(bytes, kPageBytes))),
      lost(static_cast<std::uint32_t>(divide_up(bytes, kPageBytes))),
      region_(region),
      index_(index),
      bytes_(bytes),
      num_pages_(static_cast<std::uint32_t>(divide_up(bytes, kPageBytes))) {
  if (zero) zeroed = PageMask::full(num_pages_);
}

std::size_t Block::bytes_of(PageRange range) const noexcept {
  return std::min(bytes_, std::size_t{range.end} * kPageBytes) - std::size_t{range.begin} * kPageBytes;
}

Instance* Block::find(DeviceIndex device) {
  for (Instance& instance : instances) {
    if (instance.device == device && !instance.leaving) return &instance;
  }
  return nullptr;
}

const Instance* Block::find(DeviceIndex device) const { return const_cast<Block*>(this)->find(device); }

Instance* Block::find_any(DeviceIndex device) {
  if (Instance* instance = find(device)) return instance;
  for (Instance& instance : instances) {
    if (instance.device == device) return &instance;
  }
  return nullptr;
}

Instance* Block::find(const FrameSpan& span) {
  for (Instance& instance : instances) {
    if (instance.span == &span) return &instance;
  }
  return nullptr;
}

bool Block::conflicts(PageRange pages, bool writes, const void* owner) const {
  for (const Hold& hold : holds) {
    if (hold.owner != owner && (writes || hold.writes) && hold.pages.overlaps(pages)) return true;
  }
  return false;
}

PageMask Block::present() const {
  PageMask mask(num_pages_);
  for (const Instance& instance : instances) mask |= instance.valid;
  return mask;
}

PageMask Block::obtainable(const Instance& instance, PageRange pages) const {
  PageMask mask = zeroed;
  for (const Instance& other : instances) {
    if (&other != &instance) mask |= other.valid;
  }
  mask &= PageMask::of(num_pages_, pages);
  return mask -= instance.valid;
}

bool Block::may_leave(const Instance& instance, const void* owner) const {
  if (instance.is_held() || instance.leaving || retired) return false;
  for (const Hold& hold : holds) {
    if (hold.writes && hold.owner != owner && instance.dirty.overlaps(hold.pages)) return false;
  }
  return true;
}

bool Block::is_redundant(const Instance& instance) const {
  return instance.dirty.none() || arrived_elsewhere(instance).covers(instance.dirty);
}

PageMask Block::arrived_elsewhere(const Instance& instance) const {
  PageMask mask(num_pages_);
  for (const Instance& other : instances) {
    if (&other != &instance && !other.leaving) mask |= arrived_pages(other);
  }
  return mask;
}

bool Block::settle(PageRange pages) {
  bool settled = true;
  for (Instance& instance : instances) settled &= settle_arrivals(instance, pages);
  settled &= settle_commits(pages);
  std::erase_if(uses, [](const Use& use) { return use.event.is_done(); });
  return settled;
}

// What throws for want of memory here leaves the entry where it is, to be taken in the next time.
bool Block::settle_arrivals(Instance& instance, PageRange pages) {
  bool settled = true;
  for (std::size_t i = 0; i < instance.arriving.size();) {
    const Arrival& arrival = instance.arriving[i];
    if (!arrival.event.is_done()) {
      settled &= !arrival.pages.overlaps(pages);
      ++i;
      continue;
    }
    const Status status = arrival.event.wait(Event::Deadline::min());
    if (!status) {
      instance.valid -= arrival.pages;
      arrival.pages.for_each_run([&](PageRange run) {
        mutex.assert_held();
        faults.push_back({run, instance.device, status});
      });
    }
    instance.arriving.erase(instance.arriving.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return settled;
}

bool Block::settle_commits(PageRange pages) {
  bool settled = true;
  for (std::size_t i = 0; i < pending_commits.size();) {
    const PendingCommit& commit = pending_commits[i];
    const std::vector<Event>& arrivals = *commit.arrivals;
    if (!std::all_of(arrivals.begin(), arrivals.end(), [](const Event& arrival) { return arrival.is_done(); })) {
      settled &= !commit.pages.overlaps(pages);
      ++i;
      continue;
    }
    Status failed;
    for (const Event& arrival : arrivals) {
      if (failed) failed = arrival.wait(Event::Deadline::min());
    }
    if (find_any(commit.device) == nullptr) {
      // Its device has failed, and the block has left it.
    } else if (failed) {
      commit_write(commit.device, commit.pages);
    } else {
      abort_write(commit.device, commit.pages, failed);
    }
    pending_commits.erase(pending_commits.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return settled;
}

bool Block::finds_pending_commit(PageRange pages) const {
  return std::any_of(pending_commits.begin(), pending_commits.end(),
                     [&](const PendingCommit& commit) { return commit.pages.overlaps(pages); });
}

std::optional<Event> Block::next_arrival(PageRange pages) const {
  for (const PendingCommit& commit : pending_commits) {
    if (!commit.pages.overlaps(pages)) continue;
    const auto under_way = std::find_if(commit.arrivals->begin(), commit.arrivals->end(),
                                        [](const Event& arrival) { return !arrival.is_done(); });
    return under_way != commit.arrivals->end() ? *under_way : commit.arrivals->front();
  }
  for (const Instance& instance : instances) {
    for (const Arrival& arrival : instance.arriving) {
      if (arrival.pages.overlaps(pages)) return arrival.event;
    }
  }
  return std::nullopt;
}

void Block::add_use(const Use& use) {
  // Readers and writers take turns at most: the two that were added last are those that may be of the same release.
  for (std::size_t i = uses.size(); i-- > 0 && i + 2 >= uses.size();) {
    Use& last = uses[i];
    const bool touches = use.pages.begin <= last.pages.end && last.pages.begin <= use.pages.end;
    if (last.event.state() != use.event.state() || last.writes != use.writes || !touches) continue;
    last.pages = {std::min(last.pages.begin, use.pages.begin), std::max(last.pages.end, use.pages.end)};
    return;
  }
  uses.push_back(use);
}

void Block::collect_uses(PageRange pages, bool writes, DeviceIndex device, Stream stream,
                         std::vector<Event>& events) const {
  for (const Use& use : uses) {
    const bool in_order = stream.has_value() && use.device == device && use.stream == stream;
    if (!in_order && (writes || use.writes) && use.pages.overlaps(pages)) add_event(events, use.event);
  }
}

void Block::commit_write(DeviceIndex device, PageRange pages) {
  const Instance* writer = find_any(device);
  for (Instance& instance : instances) {
    if (&instance == writer) {
      instance.valid.set(pages);
      instance.dirty.set(pages);
    } else {
      instance.valid.clear(pages);
      instance.dirty.clear(pages);
    }
  }
  zeroed.clear(pages);
  lost.clear(pages);
  if (!faults.empty()) clear_faults(pages);
}

void Block::abort_write(DeviceIndex device, PageRange pages, const Status& why) {
  if (Instance* instance = find_any(device)) {
    const PageMask stale = arrived_elsewhere(*instance) & PageMask::of(num_pages_, pages);
    for (Instance& other : instances) {
      if (&other != instance && !other.leaving) hand_ownership(*instance, other, stale & arrived_pages(other));
    }
    instance->valid -= stale;
  }
  faults.push_back({pages, device, why});
}

void Block::commit_first_use(Instance& instance, PageRange pages) {
  PageMask fresh = PageMask::of(num_pages_, pages);
  fresh -= present();
  fresh -= lost;
  if (fresh.none()) return;
  PageMask valid = instance.valid | fresh;
  PageMask dirty = instance.dirty | fresh;
  zeroed -= fresh;
  instance.valid = std::move(valid);
  instance.dirty = std::move(dirty);
}

void Block::hand_over(Instance& from, Instance& to, const PageMask& pages) {
  const PageMask moved = pages & from.valid;  // what was overwritten elsewhere meanwhile is stale
  to.valid |= moved;
  hand_ownership(from, to, moved);
}

// Of those pages that `from` owns; `to` has them valid. All or nothing, also where memory runs out.
void Block::hand_ownership(Instance& from, Instance& to, const PageMask& pages) {
  const PageMask taken = from.dirty & pages;
  if (taken.none()) return;
  PageMask left = from.dirty - taken;
  to.dirty |= taken;
  from.dirty = std::move(left);
}

PageMask Block::give_up(Instance& from) {
  for (Instance& other : instances) {
    if (&other == &from || other.leaving || from.dirty.none()) continue;
    hand_ownership(from, other, arrived_pages(other));
  }
  return from.dirty;
}

void Block::forget(PageRange pages, bool zero) {
  for (Instance& instance : instances) {
    instance.valid.clear(pages);
    instance.dirty.clear(pages);
  }
  lost.clear(pages);
  if (zero) {
    zeroed.set(pages);
  } else {
    zeroed.clear(pages);
  }
  clear_faults(pages);
}

Status Block::fault_of(PageRange pages) const {
  for (const PageFault& fault : faults) {
    if (!intersect(fault.pages, pages).empty()) return fault.status;
  }
  return {};
}

void Block::clear_faults(PageRange pages) {
  std::vector<PageFault> left;
  for (const PageFault& fault : faults) {
    const PageRange before{fault.pages.begin, std::min(fault.pages.end, pages.begin)};
    const PageRange after{std::max(fault.pages.begin, pages.end), fault.pages.end};
    if (!before.empty()) left.push_back({before, fault.device, fault.status});
    if (!after.empty()) left.push_back({after, fault.device, fault.status});
  }
  faults = std::move(left);
}

std::size_t Block::bookkeeping_bytes() const {
  std::size_t bytes = sizeof(Block) + instances.capacity() * sizeof(Instance) + uses.capacity() * sizeof(Use) +
                      zeroed.heap_bytes() + lost.heap_bytes();
  for (const Instance& instance : instances) {
    bytes += sizeof(FrameSpan) + instance.valid.heap_bytes() + instance.dirty.heap_bytes();
  }
  return bytes;
}

}  // namespace vmem
