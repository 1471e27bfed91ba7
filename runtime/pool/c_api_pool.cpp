#include <vmem/vmem.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/pool/c_api.hpp"
#include "runtime/support/format.hpp"

namespace vmem {
namespace {

Result<BufferOptions> convert(vmemPool_t pool, const vmemMallocOptions_t* given) {
  constexpr vmemMallocOptions_t kDefaults = VMEM_MALLOC_OPTIONS_INIT;
  VMEM_ASSIGN_OR_RETURN(const auto c, read_options(given, kDefaults, "vmemMallocOptions_t"));
  BufferOptions options;
  options.zeroed = c.zeroed != 0;
  if (c.preferred_device != nullptr) {
    VMEM_RETURN_IF_ERROR(use(pool, c.preferred_device));
    options.preferred_device = device_of(c.preferred_device).info().name;
  }
  return options;
}

Result<AcquireRange> convert(const vmemRange_t& range) {
  VMEM_ASSIGN_OR_RETURN(const Access access,
                        convert_enum<Access>(range.access, vmemAccessWriteDiscard, "ranges[].access"));
  return AcquireRange{range.address, range.bytes, access};
}

Result<Acquired> acquire_list(Pool& pool, const AcquireOptions& options, const vmemRange_t* ranges,
                              std::size_t num_ranges) {
  if (num_ranges == 1) {
    VMEM_ASSIGN_OR_RETURN(const AcquireRange range, convert(ranges[0]));
    return pool.acquire(range, options);
  }
  std::vector<AcquireRange> list;
  list.reserve(num_ranges);
  for (std::size_t i = 0; i < num_ranges; ++i) {
    VMEM_ASSIGN_OR_RETURN(const AcquireRange range, convert(ranges[i]));
    list.push_back(range);
  }
  return pool.acquire(list, options);
}

Status acquire(vmemPool_t pool, vmemDevice_t device, vmemStream_t stream, const vmemRange_t* ranges, size_t num_ranges,
               std::optional<std::chrono::milliseconds> deadline, vmemAcquired_t* acquired, void** pointers) {
  VMEM_RETURN_IF_ERROR(need(acquired, "acquired"));
  *acquired = nullptr;
  VMEM_RETURN_IF_ERROR(use(pool, device));
  VMEM_RETURN_IF_ERROR(need(ranges, "ranges"));
  VMEM_RETURN_IF_ERROR(need(pointers, "pointers"));
  if (num_ranges == 0) return Status(StatusCode::kInvalidValue, "num_ranges is 0: expected at least one range");
  AcquireOptions options;
  options.device = device->index;
  options.stream = stream_of(stream);
  options.deadline = deadline;
  VMEM_ASSIGN_OR_RETURN(Acquired granted, acquire_list(*pool->pool, options, ranges, num_ranges));
  auto handle = std::make_unique<vmemAcquired_st>(vmemAcquired_st{pool, std::move(granted)});
  for (std::size_t i = 0; i < num_ranges; ++i) pointers[i] = handle->acquired.data(i);
  pool->num_acquired.fetch_add(1);
  *acquired = handle.release();
  return Status();
}

void clear(void** pointers, std::size_t count) noexcept {
  if (pointers != nullptr) std::fill_n(pointers, count, nullptr);
}

vmemDevice_t device_named(vmemPool_t pool, const std::string& name) {
  const auto index = pool->runtime->runtime->find(name);
  return index ? &pool->runtime->devices[*index] : nullptr;
}

vmemStats_t convert(const PoolStats& stats) {
  vmemStats_t c = VMEM_STATS_INIT;
  c.buffers = stats.buffers;
  c.allocated_bytes = stats.allocated_bytes;
  c.blocks_touched = stats.blocks_touched;
  c.bookkeeping_bytes = stats.bookkeeping_bytes;
  c.acquires = stats.acquires;
  c.acquires_resident = stats.acquires_resident;
  c.acquires_failed = stats.acquires_failed;
  c.waits = stats.waits;
  c.evictions = stats.evictions;
  for (const MoveStats& move : stats.moves) {
    c.fetched_bytes += move.fetched_bytes;
    c.evicted_bytes += move.evicted_bytes;
    c.copied_bytes += move.copied_bytes;
  }
  c.peak_staging_bytes = stats.peak_staging_bytes;
  c.address_fragmentation = stats.address_fragmentation;
  return c;
}

vmemDeviceStats_t convert(const DeviceStats& stats) {
  vmemDeviceStats_t c = VMEM_DEVICE_STATS_INIT;
  c.limit_bytes = stats.limit_bytes;
  c.used_bytes = stats.used_bytes;
  c.peak_bytes = stats.peak_bytes;
  c.reserved_bytes = stats.reserved_bytes;
  c.pinned_bytes = stats.pinned_bytes;
  c.instances = stats.instances;
  c.fragmentation = stats.fragmentation;
  c.failed = stats.failed ? 1 : 0;
  return c;
}

}  // namespace
}  // namespace vmem

using vmem::c_call;
using vmem::need;
using vmem::Status;
using vmem::StatusCode;
using vmem::use;

vmemStatus_t vmemMalloc(vmemPool_t pool, vmemAddress_t* address, size_t bytes) {
  return vmemMallocWithOptions(pool, address, bytes, nullptr);
}

vmemStatus_t vmemMallocWithOptions(vmemPool_t pool, vmemAddress_t* address, size_t bytes,
                                   const vmemMallocOptions_t* options) {
  return c_call([&] {
    VMEM_RETURN_IF_ERROR(need(address, "address"));
    *address = 0;
    VMEM_RETURN_IF_ERROR(use(pool));
    VMEM_ASSIGN_OR_RETURN(const vmem::BufferOptions converted, vmem::convert(pool, options));
    VMEM_ASSIGN_OR_RETURN(vmem::Buffer buffer, pool->pool->allocate(bytes, converted));
    *address = buffer.release();
    return Status();
  });
}

vmemStatus_t vmemFree(vmemPool_t pool, vmemAddress_t address) {
  return c_call([&] {
    VMEM_RETURN_IF_ERROR(use(pool));
    return address == 0 ? Status() : pool->pool->free(address);
  });
}

vmemStatus_t vmemAcquire(vmemPool_t pool, vmemDevice_t device, vmemStream_t stream, const vmemRange_t* ranges,
                         size_t num_ranges, vmemAcquired_t* acquired, void** pointers) {
  return c_call([&] {
    vmem::clear(pointers, num_ranges);
    return vmem::acquire(pool, device, stream, ranges, num_ranges, std::nullopt, acquired, pointers);
  });
}

vmemStatus_t vmemAcquireWithDeadline(vmemPool_t pool, vmemDevice_t device, vmemStream_t stream,
                                     const vmemRange_t* ranges, size_t num_ranges, uint64_t deadline_ms,
                                     vmemAcquired_t* acquired, void** pointers) {
  return c_call([&] {
    vmem::clear(pointers, num_ranges);
    // A day is as good as for ever, and never overflows a time point.
    constexpr std::uint64_t kDay = 24ULL * 3600 * 1000;
    const std::chrono::milliseconds deadline(std::min<std::uint64_t>(deadline_ms, kDay));
    return vmem::acquire(pool, device, stream, ranges, num_ranges, deadline, acquired, pointers);
  });
}

vmemStatus_t vmemAcquiredGetStatus(vmemAcquired_t acquired) {
  return c_call([&] {
    VMEM_RETURN_IF_ERROR(need(acquired, "acquired"));
    VMEM_RETURN_IF_ERROR(use(acquired->pool));
    return acquired->acquired.status();
  });
}

vmemStatus_t vmemRelease(vmemAcquired_t acquired) {
  return c_call([&] {
    if (acquired == nullptr || acquired->pool->runtime->fork.in_child()) return Status();
    const std::unique_ptr<vmemAcquired_st> handle(acquired);
    Status status = handle->acquired.release();
    handle->pool->num_acquired.fetch_sub(1);
    return status;
  });
}

vmemStatus_t vmemMemAdvise(vmemPool_t pool, vmemAddress_t address, size_t bytes, vmemAdvice_t advice,
                           vmemDevice_t device) {
  return c_call([&] {
    VMEM_RETURN_IF_ERROR(use(pool));
    VMEM_ASSIGN_OR_RETURN(const vmem::Advice converted,
                          vmem::convert_enum<vmem::Advice>(advice, vmemAdviseUnpin, "advice"));
    if (converted == vmem::Advice::kNoPreference && device == nullptr) {
      return pool->pool->advise(address, bytes, converted, 0);
    }
    VMEM_RETURN_IF_ERROR(use(pool, device));
    return pool->pool->advise(address, bytes, converted, device->index);
  });
}

vmemStatus_t vmemPrefetchAsync(vmemPool_t pool, vmemAddress_t address, size_t bytes, vmemDevice_t device,
                               vmemPrefetch_t* prefetch) {
  return c_call([&] {
    if (prefetch != nullptr) *prefetch = nullptr;
    VMEM_RETURN_IF_ERROR(use(pool, device));
    auto handle = std::make_unique<vmemPrefetch_st>();
    VMEM_ASSIGN_OR_RETURN(handle->prefetch, pool->pool->prefetch(address, bytes, device->index));
    if (prefetch != nullptr) *prefetch = handle.release();
    return Status();
  });
}

vmemStatus_t vmemPrefetchQuery(vmemPrefetch_t prefetch, int* done) {
  return c_call([&] {
    VMEM_RETURN_IF_ERROR(need(done, "done"));
    *done = 0;
    VMEM_RETURN_IF_ERROR(use(prefetch));
    *done = prefetch->prefetch.is_done() ? 1 : 0;
    return Status();
  });
}

vmemStatus_t vmemPrefetchWait(vmemPrefetch_t prefetch) {
  return c_call([&] {
    VMEM_RETURN_IF_ERROR(use(prefetch));
    return prefetch->prefetch.wait();
  });
}

vmemStatus_t vmemPrefetchCancel(vmemPrefetch_t prefetch) {
  return c_call([&] {
    VMEM_RETURN_IF_ERROR(use(prefetch));
    prefetch->prefetch.cancel();
    return Status();
  });
}

vmemStatus_t vmemPrefetchDestroy(vmemPrefetch_t prefetch) {
  return c_call([&] {
    delete prefetch;
    return Status();
  });
}

vmemStatus_t vmemTranslate(vmemPool_t pool, vmemAddress_t address, vmemTranslation_t* translation) {
  return c_call([&] {
    VMEM_RETURN_IF_ERROR(need(translation, "translation"));
    VMEM_RETURN_IF_ERROR(vmem::check_struct_size(translation->struct_size, "vmemTranslation_t"));
    vmemTranslation_t c = VMEM_TRANSLATION_INIT;
    vmem::write_info(translation, c);
    VMEM_RETURN_IF_ERROR(use(pool));
    VMEM_ASSIGN_OR_RETURN(const vmem::Translation found, pool->pool->translate(address));
    c.virtual_address = found.virtual_address;
    c.size = found.size;
    c.physical_address = found.physical_address;
    c.device = found.device.empty() ? nullptr : vmem::device_named(pool, found.device);
    c.reference_count = found.reference_count;
    c.chunk = found.chunk;
    c.chunk_offset = found.chunk_offset;
    vmem::write_info(translation, c);
    return Status();
  });
}

vmemStatus_t vmemGetStats(vmemPool_t pool, vmemStats_t* stats) {
  return c_call([&] {
    VMEM_RETURN_IF_ERROR(need(stats, "stats"));
    VMEM_RETURN_IF_ERROR(vmem::check_struct_size(stats->struct_size, "vmemStats_t"));
    VMEM_RETURN_IF_ERROR(use(pool));
    vmem::write_info(stats, vmem::convert(pool->pool->stats()));
    return Status();
  });
}

vmemStatus_t vmemGetDeviceStats(vmemPool_t pool, vmemDevice_t device, vmemDeviceStats_t* stats) {
  return c_call([&] {
    VMEM_RETURN_IF_ERROR(need(stats, "stats"));
    VMEM_RETURN_IF_ERROR(vmem::check_struct_size(stats->struct_size, "vmemDeviceStats_t"));
    VMEM_RETURN_IF_ERROR(use(pool, device));
    const vmem::PoolStats all = pool->pool->stats();
    if (device->index >= all.devices.size())
      return Status(StatusCode::kInternal, "the pool has no figures of the device");
    vmem::write_info(stats, vmem::convert(all.devices[device->index]));
    return Status();
  });
}

vmemStatus_t vmemPoolGetStatus(vmemPool_t pool) {
  return c_call([&] {
    VMEM_RETURN_IF_ERROR(use(pool));
    return pool->pool->status();
  });
}
