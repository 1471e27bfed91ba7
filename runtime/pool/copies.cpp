// Copies and fills of pool ranges: block by block, each where its bytes are.
#include <algorithm>
#include <utility>

#include "runtime/pool/pool_impl.hpp"
#include "runtime/support/format.hpp"

namespace vmem {

Result<DeviceIndex> Pool::Impl::host_device() const {
  for (DeviceIndex i = 0; i < context_.devices.size(); ++i) {
    if (context_.devices[i]->info().tier == Tier::kHost) return i;
  }
  return Status(StatusCode::kUnsupported, "no device of this machine is host memory");
}

// REQUIRES: in a read section.
Result<const BufferRecord*> Pool::Impl::buffer_with(PoolAddress address, std::size_t bytes) const {
  const BufferRecord* record = buffers_->find(address);
  if (record != nullptr && bytes <= record->bytes - (address - record->address)) return record;
  return Status(StatusCode::kInvalidValue, format("{} bytes at {:#x} do not lie in a buffer", bytes, address));
}

// The rest of the range in the block at `address`, and where to work on it: where its first page is, else where the
// buffer would rather be, else in host memory, else on the first device that takes frames.
Result<Pool::Impl::Part> Pool::Impl::part_at(PoolAddress address, std::size_t bytes) {
  return look_up([&] { return part_of(address, bytes); });
}

Result<Pool::Impl::Part> Pool::Impl::part_of(PoolAddress address, std::size_t bytes) {
  VMEM_ASSIGN_OR_RETURN(const BufferRecord* record, buffer_with(address, bytes));
  Region& region = *record->region;
  const std::size_t offset = record->offset + (address - record->address);
  const std::size_t in_block = offset & (region.block_bytes() - 1);
  Part part{std::min(bytes, region.block_bytes() - in_block), 0};
  std::optional<DeviceIndex> device;
  if (Block* block = region.find_block(region.block_index(offset))) {
    device = Residency::owner_of(*block, static_cast<std::uint32_t>(in_block / kPageBytes));
  }
  if (!device) device = region.preferred();
  if (device && residency_->memory(*device).is_usable()) {
    part.device = *device;
    return part;
  }
  const auto host = host_device();
  if (host && residency_->memory(*host).is_usable()) {
    part.device = *host;
    return part;
  }
  for (DeviceIndex i = 0; i < context_.devices.size(); ++i) {
    if (!residency_->memory(i).is_usable()) continue;
    part.device = i;
    return part;
  }
  return Status(StatusCode::kOutOfHostMemory, "no device of this machine may be used by the pool");
}

Status Pool::Impl::transfer(DeviceIndex to, void* destination, DeviceIndex from, const void* source,
                            std::size_t bytes) {
  VMEM_ASSIGN_OR_RETURN(const Event event,
                        context_.transfers->copy_pointers({to, destination}, Stream(),
                                                          {from, const_cast<void*>(source)}, Stream(), bytes));
  const Status status = event.wait();
  if (status) {
    moves_.add(from, to, MoveCounters::Reason::kCopy, bytes);
  } else {
    take_in_failures(status);
  }
  return status;
}

Status Pool::Impl::copy_in(PoolAddress destination, const void* host, std::size_t bytes) {
  VMEM_RETURN_IF_ERROR(check_fork());
  if (host == nullptr && bytes != 0) return {StatusCode::kInvalidValue, "the host pointer is null"};
  VMEM_ASSIGN_OR_RETURN(const DeviceIndex from, host_device());
  for (std::size_t done = 0; done < bytes;) {
    VMEM_ASSIGN_OR_RETURN(const Part part, part_at(destination + done, bytes - done));
    const AcquireRange range{destination + done, part.bytes, Access::kWriteDiscard};
    VMEM_ASSIGN_OR_RETURN(Acquired acquired, acquire({&range, 1}, {part.device, {}, {}}));
    VMEM_RETURN_IF_ERROR(
        transfer(part.device, acquired.data(), from, static_cast<const std::byte*>(host) + done, part.bytes));
    VMEM_RETURN_IF_ERROR(acquired.release());
    done += part.bytes;
  }
  return {};
}

Status Pool::Impl::copy_out(void* host, PoolAddress source, std::size_t bytes) {
  VMEM_RETURN_IF_ERROR(check_fork());
  if (host == nullptr && bytes != 0) return {StatusCode::kInvalidValue, "the host pointer is null"};
  VMEM_ASSIGN_OR_RETURN(const DeviceIndex to, host_device());
  for (std::size_t done = 0; done < bytes;) {
    VMEM_ASSIGN_OR_RETURN(const Part part, part_at(source + done, bytes - done));
    const AcquireRange range{source + done, part.bytes, Access::kRead};
    VMEM_ASSIGN_OR_RETURN(Acquired acquired, acquire({&range, 1}, {part.device, {}, {}}));
    VMEM_RETURN_IF_ERROR(transfer(to, static_cast<std::byte*>(host) + done, part.device, acquired.data(), part.bytes));
    VMEM_RETURN_IF_ERROR(acquired.release());
    done += part.bytes;
  }
  return {};
}

Status Pool::Impl::copy(PoolAddress destination, PoolAddress source, std::size_t bytes) {
  VMEM_RETURN_IF_ERROR(check_fork());
  if (bytes != 0 && destination < source + bytes && source < destination + bytes) {
    return {StatusCode::kInvalidValue, "source and destination overlap"};
  }
  // As a whole, before a part of it: what follows a buffer may be another.
  if (bytes != 0) {
    const auto whole = look_up([&] { return buffer_with(destination, bytes); });
    if (!whole) return whole.error();
  }
  for (std::size_t done = 0; done < bytes;) {
    VMEM_ASSIGN_OR_RETURN(const Part from, part_at(source + done, bytes - done));
    VMEM_ASSIGN_OR_RETURN(const Part to, part_at(destination + done, from.bytes));
    const AcquireRange ranges[] = {{source + done, to.bytes, Access::kRead},
                                   {destination + done, to.bytes, Access::kWriteDiscard}};
    VMEM_ASSIGN_OR_RETURN(Acquired acquired, acquire(ranges, {from.device, {}, {}}));
    VMEM_RETURN_IF_ERROR(transfer(from.device, acquired.data(1), from.device, acquired.data(0), to.bytes));
    VMEM_RETURN_IF_ERROR(acquired.release());
    done += to.bytes;
  }
  return {};
}

Status Pool::Impl::fill(PoolAddress address, std::uint8_t value, std::size_t bytes) {
  VMEM_RETURN_IF_ERROR(check_fork());
  for (std::size_t done = 0; done < bytes;) {
    VMEM_ASSIGN_OR_RETURN(const Part part, part_at(address + done, bytes - done));
    const AcquireRange range{address + done, part.bytes, Access::kWriteDiscard};
    VMEM_ASSIGN_OR_RETURN(Acquired acquired, acquire({&range, 1}, {part.device, {}, {}}));
    const auto event = context_.devices[part.device]->fill(acquired.data(), value, part.bytes, Stream());
    if (Status status = event ? event->wait() : event.error(); !status) {
      take_in_failures(status);
      return status;
    }
    VMEM_RETURN_IF_ERROR(acquired.release());
    done += part.bytes;
  }
  return {};
}

}  // namespace vmem
