// Pins, and how regions, packed buffers and devices end.
#include <algorithm>

#include "runtime/residency/residency.hpp"
#include "runtime/support/check.hpp"
#include "runtime/support/format.hpp"

namespace vmem {
namespace {

Status busy() { return {StatusCode::kBusy, "the buffer is acquired or pinned: release it first"}; }

// Waits until no plan moves the block and nothing that overlaps the pages is under way or in use.
void wait_until_idle(Block& block, PageRange pages, bool for_plans) {
  MutexLock lock(block.mutex);
  for (;;) {
    while (for_plans && block.moving) block.changed.wait(block.mutex);
    std::vector<Event> events;
    if (!block.settle(pages)) {
      if (auto arrival = block.next_arrival(pages)) events.push_back(std::move(*arrival));
    }
    block.collect_uses(pages, true, 0, Stream(), events);
    if (events.empty()) return;
    lock.unlock();
    for (const Event& event : events) static_cast<void>(event.wait());  // how it ended no longer matters
    lock.lock();
  }
}

}  // namespace

Status Residency::retire(Region& region) {
  VMEM_RETURN_IF_ERROR(begin_retire(region));
  finish_retire(region);
  return {};
}

Status Residency::begin_retire(Region& region) {
  if (region.num_claims.load() != 0) return busy();
  bool idle = true;
  region.for_each_block([&](Block& block) {
    MutexLock lock(block.mutex);
    idle = idle && block.holds.empty() && block.pins.empty() && block.num_waiters == 0;
    if (idle) block.retired = true;
  });
  if (idle) return {};
  region.for_each_block([](Block& block) {
    MutexLock lock(block.mutex);
    block.retired = false;
  });
  return busy();
}

void Residency::finish_retire(Region& region) {
  region.for_each_block([this](Block& block) {
    reserve_.finish([&] { wait_until_idle(block, {0, block.num_pages()}, true); });
  });
  MutexLock lock(plan_mutex_);
  release_memory(region);
  memory_changed_.notify_all();
}

void Residency::release_memory(Region& region) {
  region.for_each_block([&](Block& block) {
    plan_mutex_.assert_held();
    MutexLock lock(block.mutex);
    while (!block.instances.empty()) {
      FrameSpan& span = *block.instances.back().span;
      remove_instance(block, span);
      if (span.num_instances == 0) memories_[span.device].end_span(span, false);
    }
  });
}

Status Residency::check_unused(Block& block, PageRange pages) {
  MutexLock lock(block.mutex);
  const auto overlaps = [&](const auto& user) { return user.pages.overlaps(pages); };
  const bool used = std::any_of(block.holds.begin(), block.holds.end(), overlaps) ||
                    std::any_of(block.pins.begin(), block.pins.end(), overlaps);
  return used ? busy() : Status();
}

void Residency::forget(Block& block, PageRange pages, bool zero) {
  reserve_.finish([&] { wait_until_idle(block, pages, false); });
  MutexLock lock(block.mutex);
  reserve_.finish([&] {
    block.mutex.assert_held();
    block.forget(pages, zero);
  });
}

void Residency::pin(const Claim& claim) noexcept {
  const std::uint64_t id = pins_.fetch_add(1, std::memory_order_relaxed);
  for (const Piece& piece : claim.pieces) {
    MutexLock lock(piece.block->mutex);
    reserve_.finish([&] {
      piece.block->mutex.assert_held();
      piece.block->pins.push_back({piece.pages, claim.device, id});
    });
    ++piece.block->find(claim.device)->num_pins;
  }
}

Status Residency::unpin(const Claim& claim) {
  // All of it is looked at before any of it is changed.
  for (const bool changes : {false, true}) {
    for (const Piece& piece : claim.pieces) {
      Block& block = *piece.block;
      MutexLock lock(block.mutex);
      const auto pin = std::find_if(block.pins.begin(), block.pins.end(), [&](const Pin& candidate) {
        return candidate.device == claim.device && candidate.pages == piece.pages;
      });
      if (pin == block.pins.end()) {
        return Status(StatusCode::kInvalidValue, "the range is not pinned there: unpin the range that was pinned")
            .with_device(memories_[claim.device].device->info().name);
      }
      if (!changes) continue;
      block.pins.erase(pin);
      --block.find(claim.device)->num_pins;
    }
  }
  wake_memory_waiters();
  return {};
}

void Residency::drop_pins(Block& block) noexcept {
  MutexLock lock(block.mutex);
  block.pins.clear();
  for (Instance& instance : block.instances) instance.num_pins = 0;
}

void Residency::clear_faults(const Claim& claim) noexcept {
  for (const Piece& piece : claim.pieces) {
    MutexLock lock(piece.block->mutex);
    if (piece.block->faults.empty()) continue;
    reserve_.finish([&] {
      piece.block->mutex.assert_held();
      piece.block->clear_faults(piece.pages);
    });
  }
}

void Residency::hide(const Claim& claim) noexcept {
  for (const Piece& piece : claim.pieces) {
    Block& block = *piece.block;
    reserve_.finish([&] { wait_until_idle(block, {0, block.num_pages()}, false); });
    MutexLock lock(plan_mutex_);
    MutexLock block_lock(block.mutex);
    Instance* instance = block.find(claim.device);
    if (instance == nullptr || instance->is_held() || block.moving || block.retired || !block.uses.empty()) continue;
    reserve_.finish([&] {
      block.mutex.assert_held();
      static_cast<void>(memories_[claim.device].hide(*instance->span));  // refused: it stays reachable
    });
  }
}

// May be run again where it threw.
void Residency::fail_instance(Block& block, Instance& instance, const Status& why) {
  const DeviceIndex device = instance.device;
  block.uses.reserve(block.uses.size() + instance.arriving.size());
  block.faults.reserve(block.faults.size() + block.pending_commits.size());
  block.lost |= block.give_up(instance);
  instance.valid = PageMask(block.num_pages());
  instance.dirty = PageMask(block.num_pages());
  // What runs there may never end, and nobody has to wait for it any more. Copies do end, and read others' memory.
  std::erase_if(block.uses, [&](const Use& use) { return use.device == device; });
  for (Arrival& arrival : instance.arriving) {
    block.uses.push_back({{0, block.num_pages()}, device, Stream(), true, std::move(arrival.event)});
  }
  instance.arriving.clear();
  // A write that was released while a fetch was under way goes with its device. Nobody was told, so the bytes from
  // before must not pass for it.
  std::erase_if(block.pending_commits, [&](const PendingCommit& commit) {
    block.mutex.assert_held();
    if (commit.device != device) return false;
    block.faults.push_back({commit.pages, device, why});
    return true;
  });
}

void Residency::fail_device(DeviceIndex device, const Status& status) {
  MutexLock lock(plan_mutex_);
  DeviceMemory& memory = memories_[device];
  if (memory.failed.load()) return;
  reserve_.finish([&] {
    memory.failure = Status(StatusCode::kDeviceFailed, format("it failed: {}", status.to_string()))
                         .with_device(memory.device->info().name)
                         .with_driver(status.driver_code(), std::string(status.driver_name()));
  });
  memory.failed.store(true);
  for (const auto& span : memory.spans) {
    for (std::size_t i = 0; i < span->num_blocks; ++i) {
      Block* block = span->region->find_block(span->first_block + i);
      if (block == nullptr) continue;
      MutexLock block_lock(block->mutex);
      Instance* instance = block->find(*span);
      if (instance == nullptr) continue;
      reserve_.finish([&] {
        block->mutex.assert_held();
        fail_instance(*block, *instance, memory.failure);
      });
    }
  }
  memory_changed_.notify_all();
}

}  // namespace vmem
