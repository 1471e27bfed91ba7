#include <vmem/vmem.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "runtime/pool/c_api.hpp"
#include "runtime/support/format.hpp"

namespace vmem {
namespace {

// A copy in a stream's order takes a pool range piece by piece, so that it may be larger than the device.
constexpr std::size_t kPieceBytes = 16_MiB;

Result<Event> copy_pointers(vmemDevice_t dst_device, void* dst, vmemStream_t dst_stream, vmemDevice_t src_device,
                            const void* src, vmemStream_t src_stream, std::size_t bytes) {
  VMEM_RETURN_IF_ERROR(need(dst_device, "dst_device"));
  VMEM_RETURN_IF_ERROR(need(src_device, "src_device"));
  VMEM_RETURN_IF_ERROR(use(dst_device));
  if (dst_device->runtime != src_device->runtime) {
    return Status(StatusCode::kInvalidValue, "the two devices belong to different runtimes");
  }
  if (bytes == 0) return Event();
  VMEM_RETURN_IF_ERROR(need(dst, "dst"));
  VMEM_RETURN_IF_ERROR(need(src, "src"));
  const DevicePointer destination{dst_device->index, dst, stream_of(dst_stream)};
  const DevicePointer source{src_device->index, const_cast<void*>(src), stream_of(src_stream)};
  return dst_device->runtime->runtime->copy(destination, source, bytes);
}

// One side of a memcpy.
struct Side {
  vmemAddress_t address = 0;
  bool pool = false;

  void* host() const { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)); }
};

Result<Side> side_of(const Pool& pool, vmemAddress_t address, std::size_t bytes, const char* name) {
  if (address == 0) return Status(StatusCode::kInvalidValue, format("address '{}' is 0", name));
  if (bytes - 1 > std::numeric_limits<vmemAddress_t>::max() - address) {
    return Status(StatusCode::kInvalidValue,
                  format("{} bytes from '{}' on run past the end of all addresses", bytes, name));
  }
  const Side side{address, pool.contains(address)};
  if (side.pool != pool.contains(address + (bytes - 1))) {
    return Status(StatusCode::kInvalidValue,
                  format("{} bytes from '{}' on lie partly in the pool's address range, partly outside", bytes, name));
  }
  return side;
}

struct Memcpy {
  Side dst;
  Side src;
  std::size_t bytes = 0;
};

// REQUIRES: bytes > 0.
Result<Memcpy> check_memcpy(const Pool& pool, vmemAddress_t dst, vmemAddress_t src, std::size_t bytes) {
  Memcpy copy;
  copy.bytes = bytes;
  VMEM_ASSIGN_OR_RETURN(copy.dst, side_of(pool, dst, bytes, "dst"));
  VMEM_ASSIGN_OR_RETURN(copy.src, side_of(pool, src, bytes, "src"));
  if (std::max(dst, src) - std::min(dst, src) < bytes) {
    return Status(StatusCode::kInvalidValue, format("the two ranges of {} bytes overlap", bytes));
  }
  return copy;
}

Status copy_now(Pool& pool, const Memcpy& copy) {
  if (copy.dst.pool && copy.src.pool) return pool.copy(copy.dst.address, copy.src.address, copy.bytes);
  if (copy.dst.pool) return pool.copy_in(copy.dst.address, copy.src.host(), copy.bytes);
  if (copy.src.pool) return pool.copy_out(copy.dst.host(), copy.src.address, copy.bytes);
  std::memcpy(copy.dst.host(), copy.src.host(), copy.bytes);
  return Status();
}

// Enqueues the copy of `bytes` at `offset` and gives what it acquired back in the stream's order.
Result<Event> enqueue_piece(Pool& pool, Device& device, const AcquireOptions& options, const Memcpy& copy,
                            std::size_t offset, std::size_t bytes) {
  std::vector<AcquireRange> ranges;
  if (copy.dst.pool) ranges.push_back({copy.dst.address + offset, bytes, Access::kWriteDiscard});
  if (copy.src.pool) ranges.push_back({copy.src.address + offset, bytes, Access::kRead});
  VMEM_ASSIGN_OR_RETURN(Acquired acquired, pool.acquire(ranges, options));
  Result<Event> event = [&] {
    if (!copy.src.pool) {
      const auto* const host = static_cast<const char*>(copy.src.host()) + offset;
      return device.copy_from_host(acquired.data(0), host, bytes, options.stream);
    }
    if (!copy.dst.pool) {
      return device.copy_to_host(static_cast<char*>(copy.dst.host()) + offset, acquired.data(0), bytes, options.stream);
    }
    return device.copy_within(acquired.data(0), acquired.data(1), bytes, options.stream);
  }();
  Status released = acquired.release();
  if (event && !released) {
    (void)event->wait();  // its outcome matters no more, but it must not touch memory after the call has failed
    return released;
  }
  return event;
}

// All of it lies in one buffer: each piece for itself might lie in the next one.
Status check_whole(const Pool& pool, const Side& side, std::size_t bytes) {
  if (!side.pool) return Status();
  VMEM_ASSIGN_OR_RETURN(const Translation entry, pool.translate(side.address));
  if (bytes <= entry.size - (side.address - entry.virtual_address)) return Status();
  return Status(StatusCode::kInvalidValue,
                format("{} bytes at {:#x} pass the end of a buffer of {} bytes", bytes, side.address, entry.size));
}

Result<std::vector<Event>> copy_on_stream(vmemPool_t pool, const Memcpy& copy, vmemDevice_t device, Stream stream) {
  VMEM_RETURN_IF_ERROR(use(pool, device));
  if (!copy.dst.pool && !copy.src.pool) {
    return Status(StatusCode::kInvalidValue, "neither address is in the pool: a copy on a stream needs one");
  }
  if (copy.bytes > kPieceBytes) {
    VMEM_RETURN_IF_ERROR(check_whole(*pool->pool, copy.dst, copy.bytes));
    VMEM_RETURN_IF_ERROR(check_whole(*pool->pool, copy.src, copy.bytes));
  }
  AcquireOptions options;
  options.device = device->index;
  options.stream = stream;
  std::vector<Event> events;
  events.reserve(copy.bytes / kPieceBytes + 1);
  for (std::size_t offset = 0; offset < copy.bytes; offset += kPieceBytes) {
    const std::size_t bytes = std::min(kPieceBytes, copy.bytes - offset);
    auto event = enqueue_piece(*pool->pool, device_of(device), options, copy, offset, bytes);
    if (!event) {
      // Without an event of its own the caller could not know when the pieces before let go of its memory.
      for (const Event& earlier : events) (void)earlier.wait();
      return event.error();
    }
    events.push_back(std::move(*event));
  }
  return events;
}

}  // namespace
}  // namespace vmem

using vmem::c_call;
using vmem::need;
using vmem::Status;
using vmem::StatusCode;
using vmem::use;

vmemStatus_t vmemCopy(vmemDevice_t dst_device, void* dst, vmemStream_t dst_stream, vmemDevice_t src_device,
                      const void* src, vmemStream_t src_stream, size_t bytes) {
  return c_call([&] {
    VMEM_ASSIGN_OR_RETURN(const vmem::Event event,
                          vmem::copy_pointers(dst_device, dst, dst_stream, src_device, src, src_stream, bytes));
    return event.wait();
  });
}

vmemStatus_t vmemCopyAsync(vmemDevice_t dst_device, void* dst, vmemStream_t dst_stream, vmemDevice_t src_device,
                           const void* src, vmemStream_t src_stream, size_t bytes, vmemEvent_t* event) {
  return c_call([&] {
    if (event != nullptr) *event = nullptr;
    auto handle = std::make_unique<vmemEvent_st>();
    handle->events.reserve(1);
    VMEM_ASSIGN_OR_RETURN(vmem::Event made,
                          vmem::copy_pointers(dst_device, dst, dst_stream, src_device, src, src_stream, bytes));
    handle->events.push_back(std::move(made));
    if (event != nullptr) *event = handle.release();
    return Status();
  });
}

vmemStatus_t vmemMemcpy(vmemPool_t pool, vmemAddress_t dst, vmemAddress_t src, size_t bytes) {
  return c_call([&] {
    VMEM_RETURN_IF_ERROR(use(pool));
    if (bytes == 0) return Status();
    VMEM_ASSIGN_OR_RETURN(const vmem::Memcpy copy, vmem::check_memcpy(*pool->pool, dst, src, bytes));
    return vmem::copy_now(*pool->pool, copy);
  });
}

vmemStatus_t vmemMemcpyAsync(vmemPool_t pool, vmemAddress_t dst, vmemAddress_t src, size_t bytes, vmemDevice_t device,
                             vmemStream_t stream, vmemEvent_t* event) {
  return c_call([&] {
    if (event != nullptr) *event = nullptr;
    VMEM_RETURN_IF_ERROR(use(pool));
    auto handle = std::make_unique<vmemEvent_st>();
    if (bytes > 0) {
      VMEM_ASSIGN_OR_RETURN(const vmem::Memcpy copy, vmem::check_memcpy(*pool->pool, dst, src, bytes));
      const vmem::Stream order = vmem::stream_of(stream);
      if (order.has_value()) {
        VMEM_ASSIGN_OR_RETURN(handle->events, vmem::copy_on_stream(pool, copy, device, order));
      } else {
        VMEM_RETURN_IF_ERROR(vmem::copy_now(*pool->pool, copy));
      }
    }
    if (event != nullptr) *event = handle.release();
    return Status();
  });
}

vmemStatus_t vmemMemset(vmemPool_t pool, vmemAddress_t address, int value, size_t bytes) {
  return c_call([&] {
    VMEM_RETURN_IF_ERROR(use(pool));
    if (bytes == 0) return Status();
    return pool->pool->fill(address, static_cast<std::uint8_t>(value & 0xFF), bytes);
  });
}

vmemStatus_t vmemEventQuery(vmemEvent_t event, int* done) {
  return c_call([&] {
    VMEM_RETURN_IF_ERROR(need(done, "done"));
    *done = 0;
    VMEM_RETURN_IF_ERROR(use(event));
    const auto& events = event->events;
    *done = std::all_of(events.begin(), events.end(), [](const vmem::Event& part) { return part.is_done(); }) ? 1 : 0;
    return Status();
  });
}

vmemStatus_t vmemEventSynchronize(vmemEvent_t event) {
  return c_call([&] {
    VMEM_RETURN_IF_ERROR(use(event));
    Status first;
    for (const vmem::Event& part : event->events) {
      const Status status = part.wait();
      if (first) first = status;
    }
    return first;
  });
}

vmemStatus_t vmemEventDestroy(vmemEvent_t event) {
  return c_call([&] {
    delete event;
    return Status();
  });
}
