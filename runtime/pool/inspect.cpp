// What can be asked of a pool: entries, residency, counters.
#include <algorithm>
#include <utility>

#include "runtime/pool/pool_impl.hpp"
#include "runtime/support/bytes.hpp"
#include "runtime/support/format.hpp"

namespace vmem {
namespace {

// The place of a byte of a block on the device that answers for it.
void locate(Block& block, std::size_t in_block, Translation& entry, const Residency& residency) {
  const auto page = static_cast<std::uint32_t>(in_block / kPageBytes);
  MutexLock lock(block.mutex);
  block.settle({page, page + 1});
  for (const Instance& instance : block.instances) {
    if (!instance.dirty.test(page)) continue;
    const FrameSpan& span = *instance.span;
    const auto address = reinterpret_cast<std::uintptr_t>(instance.address);
    entry.device = residency.memory(instance.device).device->info().name;
    entry.physical_address = address + in_block;
    const auto in_span = address - reinterpret_cast<std::uintptr_t>(span.address) + in_block;
    entry.chunk_offset = span.frame.chunk_offset() + in_span;
    // Memory that has an address from the start is named by it.
    entry.chunk =
        span.frame.address() == nullptr ? span.frame.chunk().handle : entry.physical_address - entry.chunk_offset;
  }
}

}  // namespace

Result<Translation> Pool::Impl::translate(PoolAddress address) {
  VMEM_RETURN_IF_ERROR(check_fork());
  return look_up([&] { return entry_of(address); });
}

Result<Translation> Pool::Impl::entry_of(PoolAddress address) {
  const BufferRecord* record = buffers_->find(address);
  if (record == nullptr) {
    return Status(StatusCode::kInvalidValue, format("{:#x} lies in no buffer of this pool", address));
  }
  Translation entry;
  entry.virtual_address = record->address;
  entry.size = record->bytes;
  Region& region = *record->region;
  std::vector<std::uint64_t> references;
  const std::size_t end = record->offset + align_up(record->bytes, kPageBytes);
  for (std::size_t index = region.block_index(record->offset); index <= region.block_index(end - 1); ++index) {
    Block* block = region.find_block(index);
    if (block == nullptr) continue;
    const std::size_t base = index * region.block_bytes();
    const std::size_t first = std::max(base, record->offset) - base;
    const std::size_t last = std::min(base + block->bytes(), end) - base;
    const PageRange pages{static_cast<std::uint32_t>(first / kPageBytes),
                          static_cast<std::uint32_t>(divide_up(last, kPageBytes))};
    Residency::collect_references(*block, pages, references);
  }
  std::sort(references.begin(), references.end());
  const auto last_reference = std::unique(references.begin(), references.end());
  entry.reference_count = static_cast<std::uint32_t>(last_reference - references.begin());
  const std::size_t offset = record->offset + (address - record->address);
  if (Block* block = region.find_block(region.block_index(offset))) {
    locate(*block, offset & (region.block_bytes() - 1), entry, *residency_);
  }
  return entry;
}

Result<std::vector<std::size_t>> Pool::Impl::residency(PoolAddress address, std::size_t bytes) {
  VMEM_RETURN_IF_ERROR(check_fork());
  return look_up([&] { return residency_of({address, bytes, Access::kRead}); });
}

Result<std::vector<std::size_t>> Pool::Impl::residency_of(const AcquireRange& range) {
  Claim claim;
  VMEM_RETURN_IF_ERROR(add_range(range, nullptr, claim));
  std::vector<std::size_t> resident(context_.devices.size());
  for (const Piece& piece : claim.pieces) {
    Block& block = *piece.block;
    MutexLock lock(block.mutex);
    block.settle(piece.pages);
    for (const Instance& instance : block.instances) {
      const PageMask there = instance.valid & PageMask::of(block.num_pages(), piece.pages);
      there.for_each_run([&](PageRange run) { resident[instance.device] += block.bytes_of(run); });
    }
  }
  return resident;
}

PoolStats Pool::Impl::stats() {
  PoolStats stats;
  if (!check_fork()) return stats;
  const BufferTable::Figures buffers = buffers_->figures();
  stats.buffers = buffers.buffers;
  stats.allocated_bytes = buffers.allocated_bytes;
  stats.blocks_touched = buffers.blocks_touched;
  stats.bookkeeping_bytes = buffers.bookkeeping_bytes;
  stats.address_fragmentation = buffers.address_fragmentation;
  stats.acquires = acquires_.sum();
  const std::uint64_t fetched = fetched_.load(std::memory_order_relaxed);
  stats.acquires_resident = stats.acquires > fetched ? stats.acquires - fetched : 0;
  stats.acquires_failed = failed_.load(std::memory_order_relaxed);
  stats.waits = residency_->counters().waits;
  stats.evictions = residency_->counters().evictions;
  stats.peak_staging_bytes = context_.transfers->stats().staging_peak_bytes;
  for (DeviceIndex i = 0; i < context_.devices.size(); ++i) {
    DeviceStats device;
    device.name = context_.topology->devices()[i].info.name;
    device.failed = residency_->memory(i).failed.load();
    if (residency_->memory(i).store != nullptr) {
      const FrameStore::Figures figures = residency_->memory(i).store->figures();
      const Residency::Usage usage = residency_->usage(i);
      device.limit_bytes = figures.limit_bytes;
      device.used_bytes = figures.used_bytes;
      device.peak_bytes = figures.peak_used_bytes;
      device.reserved_bytes = figures.physical_bytes;
      device.pinned_bytes = usage.pinned_bytes;
      device.instances = usage.instances;
      device.fragmentation = figures.fragmentation.external();
    }
    stats.devices.push_back(std::move(device));
  }
  for (DeviceIndex from = 0; from < context_.devices.size(); ++from) {
    for (DeviceIndex to = 0; to < context_.devices.size(); ++to) {
      const MoveCounters::Pair& pair = moves_.at(from, to);
      if (pair.moves.load(std::memory_order_relaxed) == 0) continue;
      stats.moves.push_back({stats.devices[from].name, stats.devices[to].name, pair.bytes[0].load(),
                             pair.bytes[1].load(), pair.bytes[2].load(), pair.moves.load()});
    }
  }
  return stats;
}

Status Pool::Impl::status() {
  VMEM_RETURN_IF_ERROR(check_fork());
  for (DeviceIndex i = 0; i < context_.devices.size(); ++i) VMEM_RETURN_IF_ERROR(residency_->device_status(i));
  Status status;
  buffers_->for_each_block([&](Block& block) {
    MutexLock lock(block.mutex);
    block.settle({0, block.num_pages()});
    if (status && !block.faults.empty()) status = block.faults.front().status;
  });
  return status;
}

}  // namespace vmem
