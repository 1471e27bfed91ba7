// The memory of a device: slabs, chunks, windows, registered host pages.
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "backends/host/memory_device.hpp"
#include "runtime/support/bytes.hpp"

namespace vmem {
namespace {

constexpr std::size_t kHugePageBytes = 2_MiB;

std::uintptr_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }
void* pointer_to(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

void* map_nothing(std::uintptr_t at, std::size_t bytes, int flags) {
  return ::mmap(pointer_to(at), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
}

}  // namespace

Result<std::uintptr_t> MemoryDevice::reserve_addresses(std::size_t bytes) {
  const std::size_t alignment = std::max(spec_.info.granularity, bytes >= kHugePageBytes ? kHugePageBytes : kPageBytes);
  const auto padded = checked_add(bytes, alignment);
  void* const start = padded ? map_nothing(0, *padded, 0) : MAP_FAILED;
  if (start == MAP_FAILED) {
    return error(StatusCode::kOutOfAddresses, "no range of " + format_bytes(bytes) + " of addresses is free");
  }
  const std::uintptr_t begin = align_up(address_of(start), alignment);
  if (begin > address_of(start)) ::munmap(start, begin - address_of(start));
  const std::uintptr_t end = address_of(start) + *padded;
  if (end > begin + bytes) ::munmap(pointer_to(begin + bytes), end - begin - bytes);
  return begin;
}

Status MemoryDevice::place(std::uintptr_t address, const MappedBytes& memory) {
  void* const mapped = ::mmap(pointer_to(address), memory.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                              memory.fd, static_cast<off_t>(memory.offset));
  if (mapped == MAP_FAILED) {
    return error(StatusCode::kOutOfHostMemory,
                 "memory can't be mapped (" + std::string(std::strerror(errno)) + "); see /proc/sys/vm/max_map_count");
  }
  if (spec_.bind_to) {
    unsigned long mask[64] = {};
    constexpr unsigned kBits = sizeof(unsigned long) * 8;
    mask[*spec_.bind_to / kBits] = 1UL << (*spec_.bind_to % kBits);
    // Preferred, not bound: a full node borrows from its neighbours instead of ending the process.
    if (::syscall(SYS_mbind, mapped, memory.bytes, MPOL_PREFERRED, mask, sizeof mask * 8, 0U) != 0) {
      machine_->warn_once("mbind", spec_.info.name + ": pages can't be placed on NUMA node " +
                                       std::to_string(*spec_.bind_to) + " (" + std::strerror(errno) +
                                       "); the system places them");
    }
  }
  if (is_host() && memory.bytes >= kHugePageBytes &&
      machine_->system.madvise(mapped, memory.bytes, MADV_HUGEPAGE) != 0) {
    machine_->warn_once("hugepage", spec_.info.name + ": huge pages are not to be had (" + std::strerror(errno) +
                                        "); registering memory takes longer");
  }
  return {};
}

void MemoryDevice::place_nothing(std::uintptr_t address, std::size_t bytes) { map_nothing(address, bytes, MAP_FIXED); }

Result<void*> MemoryDevice::allocate(std::size_t bytes) {
  VMEM_RETURN_IF_ERROR(enter("allocate"));
  if (bytes == 0) return error(StatusCode::kInvalidValue, "an allocation of 0 bytes was asked for");
  const std::size_t rounded = checked_align_up(bytes, spec_.info.granularity).value_or(bytes);
  VMEM_RETURN_IF_ERROR(charge(rounded));
  auto offset = file_->allocate(rounded);
  if (!offset) return refund(rounded), offset.error().with_device(spec_.info.name);
  auto begin = reserve_addresses(rounded);
  if (!begin) return file_->release(*offset, rounded), refund(rounded), begin.error();
  const MappedBytes memory{file_->fd(), *offset, rounded};
  if (Status placed = place(*begin, memory); !placed) {
    ::munmap(pointer_to(*begin), rounded);
    file_->release(*offset, rounded);
    refund(rounded);
    return placed;
  }
  machine_->addresses.add_region(*begin, rounded, owner_, RegionKind::kSlab);
  VMEM_CHECK(machine_->addresses.begin_map(*begin, memory, owner_));
  machine_->addresses.finish_map(*begin, true);
  return pointer_to(*begin);
}

Status MemoryDevice::deallocate(void* address) {
  VMEM_RETURN_IF_ERROR(enter("deallocate"));
  const std::uintptr_t begin = address_of(address);
  const auto bytes = machine_->addresses.region_bytes(begin, owner_, RegionKind::kSlab);
  if (!bytes)
    return error(StatusCode::kInvalidValue, "deallocate: the pointer is not the start of an allocation of this device");
  auto memory = machine_->addresses.begin_unmap(begin, *bytes, owner_);
  if (!memory) return memory.error().with_device(spec_.info.name);
  machine_->addresses.finish_unmap(begin);
  VMEM_CHECK(machine_->addresses.remove_region(begin, owner_, RegionKind::kSlab));
  ::munmap(address, *bytes);
  file_->release(memory->offset, *bytes);
  refund(*bytes);
  return {};
}

Result<Chunk> MemoryDevice::create_chunk(std::size_t bytes) {
  if (!has(DeviceCap::kVirtualMemory)) return Device::create_chunk(bytes);
  VMEM_RETURN_IF_ERROR(enter("create_chunk"));
  if (bytes == 0 || bytes % spec_.info.granularity != 0) {
    return error(StatusCode::kInvalidValue, "a chunk of " + std::to_string(bytes) + " bytes is no multiple of " +
                                                format_bytes(spec_.info.granularity));
  }
  VMEM_RETURN_IF_ERROR(charge(bytes));
  auto offset = file_->allocate(bytes);
  if (!offset) return refund(bytes), offset.error().with_device(spec_.info.name);
  MutexLock lock(chunks_mutex_);
  const std::uint64_t handle = next_chunk_++;
  chunks_.emplace(handle, LiveChunk{*offset, bytes, 0});
  return Chunk{handle, bytes};
}

Status MemoryDevice::destroy_chunk(const Chunk& chunk) {
  if (!has(DeviceCap::kVirtualMemory)) return Device::destroy_chunk(chunk);
  VMEM_RETURN_IF_ERROR(enter("destroy_chunk"));
  std::uint64_t offset = 0;
  {
    MutexLock lock(chunks_mutex_);
    const auto it = chunks_.find(chunk.handle);
    if (it == chunks_.end() || it->second.bytes != chunk.bytes) {
      return error(StatusCode::kInvalidValue, "destroy_chunk: there is no such chunk");
    }
    if (it->second.num_mappings != 0) return error(StatusCode::kInvalidValue, "destroy_chunk: the chunk is mapped");
    offset = it->second.offset;
    chunks_.erase(it);
  }
  file_->release(offset, chunk.bytes);
  refund(chunk.bytes);
  return {};
}

Result<void*> MemoryDevice::reserve_window(std::size_t bytes) {
  if (!has(DeviceCap::kVirtualMemory)) return Device::reserve_window(bytes);
  VMEM_RETURN_IF_ERROR(enter("reserve_window"));
  const auto rounded = checked_align_up(bytes, spec_.info.granularity);
  if (bytes == 0) return error(StatusCode::kInvalidValue, "a window of 0 bytes was asked for");
  if (!rounded) return error(StatusCode::kOutOfAddresses, "no range of addresses is that large");
  VMEM_ASSIGN_OR_RETURN(const std::uintptr_t begin, reserve_addresses(*rounded));
  machine_->addresses.add_region(begin, *rounded, owner_, RegionKind::kWindow);
  return pointer_to(begin);
}

Status MemoryDevice::release_window(void* window, std::size_t bytes) {
  if (!has(DeviceCap::kVirtualMemory)) return Device::release_window(window, bytes);
  VMEM_RETURN_IF_ERROR(enter("release_window"));
  const std::uintptr_t begin = address_of(window);
  const auto reserved = machine_->addresses.region_bytes(begin, owner_, RegionKind::kWindow);
  if (!reserved || checked_align_up(bytes, spec_.info.granularity) != reserved) {
    return error(StatusCode::kInvalidValue, "release_window: the range is not a window of this device");
  }
  if (Status status = machine_->addresses.remove_region(begin, owner_, RegionKind::kWindow); !status) {
    return status.with_device(spec_.info.name);
  }
  ::munmap(window, *reserved);
  return {};
}

Status MemoryDevice::map(void* address, const Chunk& chunk) {
  if (!has(DeviceCap::kVirtualMemory)) return Device::map(address, chunk);
  VMEM_RETURN_IF_ERROR(enter("map"));
  const std::uintptr_t begin = address_of(address);
  if (begin % spec_.info.granularity != 0) {
    return error(StatusCode::kInvalidValue, "map: the address is no multiple of the granularity");
  }
  MappedBytes memory{file_->fd(), 0, chunk.bytes};
  {
    MutexLock lock(chunks_mutex_);
    const auto it = chunks_.find(chunk.handle);
    if (it == chunks_.end() || it->second.bytes != chunk.bytes) {
      return error(StatusCode::kInvalidValue, "map: there is no such chunk");
    }
    memory.offset = it->second.offset;
    ++it->second.num_mappings;
  }
  Status status = machine_->addresses.begin_map(begin, memory, owner_).with_device(spec_.info.name);
  if (status) {
    status = place(begin, memory);
    if (status) {
      MutexLock lock(chunks_mutex_);
      mapped_chunks_[begin] = chunk.handle;
    }
    machine_->addresses.finish_map(begin, status.is_ok());
  }
  if (!status) {
    MutexLock lock(chunks_mutex_);
    --chunks_.at(chunk.handle).num_mappings;
  }
  return status;
}

Status MemoryDevice::unmap(void* address, std::size_t bytes) {
  if (!has(DeviceCap::kVirtualMemory)) return Device::unmap(address, bytes);
  VMEM_RETURN_IF_ERROR(enter("unmap"));
  const std::uintptr_t begin = address_of(address);
  {
    MutexLock lock(chunks_mutex_);
    // Slabs and second addresses are mappings as well, but not of chunks.
    if (mapped_chunks_.count(begin) == 0) return error(StatusCode::kInvalidValue, "unmap: no chunk is mapped there");
  }
  auto memory = machine_->addresses.begin_unmap(begin, bytes, owner_);
  if (!memory) return memory.error().with_device(spec_.info.name);
  place_nothing(begin, bytes);
  {
    MutexLock lock(chunks_mutex_);
    const auto it = mapped_chunks_.find(begin);
    --chunks_.at(it->second).num_mappings;
    mapped_chunks_.erase(it);
  }
  machine_->addresses.finish_unmap(begin);
  return {};
}

HostPins::Kind MemoryDevice::pin_kind(std::uintptr_t begin, std::size_t bytes) const {
  return {!is_host(), !machine_->addresses.host_bytes_behind(begin, bytes).empty()};
}

Result<void*> MemoryDevice::register_host(void* host, std::size_t bytes) {
  if (!has(DeviceCap::kHostRegistration)) return Device::register_host(host, bytes);
  VMEM_RETURN_IF_ERROR(enter("register_host"));
  const std::uintptr_t begin = address_of(host);
  if (host == nullptr || bytes == 0 || !checked_add(begin, bytes)) {
    return error(StatusCode::kInvalidValue, "register_host: no such range of host memory");
  }
  if (auto range = machine_->addresses.find_host(host, bytes, owner_); !range) {
    return range.error().with_device(spec_.info.name);
  }
  if (Status status = machine_->addresses.add_registration(begin, bytes, owner_); !status) {
    return status.with_device(spec_.info.name);
  }
  const HostPins::Kind kind = pin_kind(begin, bytes);
  Status status = machine_->pins.pin(begin, bytes, kind);
  void* device_address = host;
  if (status && spec_.alias_offset != 0) {
    auto second = alias(begin, bytes);
    status = second.error();
    if (second) device_address = *second;
    if (!second) machine_->pins.unpin(begin, bytes, kind);
  }
  if (!status) {
    static_cast<void>(machine_->addresses.remove_registration(begin, owner_));
    return status.with_device(spec_.info.name);
  }
  MutexLock lock(host_mutex_);
  registered_[begin] = Registered{address_of(device_address), kind};
  return device_address;
}

Status MemoryDevice::unregister_host(void* host) {
  if (!has(DeviceCap::kHostRegistration)) return Device::unregister_host(host);
  VMEM_RETURN_IF_ERROR(enter("unregister_host"));
  const std::uintptr_t begin = address_of(host);
  auto bytes = machine_->addresses.remove_registration(begin, owner_);
  if (!bytes) return bytes.error().with_device(spec_.info.name);
  Registered registered{};
  {
    MutexLock lock(host_mutex_);
    const auto it = registered_.find(begin);
    VMEM_CHECK(it != registered_.end());
    registered = it->second;
    registered_.erase(it);
  }
  if (registered.device_address != begin) remove_alias(registered.device_address);
  machine_->pins.unpin(begin, *bytes, registered.kind);
  return {};
}

Result<void*> MemoryDevice::alias(std::uintptr_t host, std::size_t bytes) {
  const std::uintptr_t first = align_down(host, kPageBytes);
  const std::size_t whole = align_up(host + bytes, kPageBytes) - first;
  const auto pieces = machine_->addresses.host_bytes_behind(first, whole);
  if (pieces.empty()) {
    return error(StatusCode::kUnsupported, "only memory of the host devices can have a second address");
  }
  // At the asked distance where those addresses are free, which a distance less than the range can't be.
  void* reserved = map_nothing(first + align_down(spec_.alias_offset, kPageBytes), whole, MAP_FIXED_NOREPLACE);
  if (reserved == MAP_FAILED) reserved = map_nothing(0, whole, 0);
  if (reserved == MAP_FAILED) return error(StatusCode::kOutOfAddresses, "no second address is free");
  const std::uintptr_t begin = address_of(reserved);
  std::uintptr_t at = begin;
  for (const MappedBytes& piece : pieces) {
    if (Status placed = place(at, piece); !placed) return ::munmap(reserved, whole), placed;
    at += piece.bytes;
  }
  machine_->addresses.add_region(begin, whole, owner_, RegionKind::kAlias);
  // One mapping for all of it: the pieces are never unmapped one by one.
  VMEM_CHECK(machine_->addresses.begin_map(begin, MappedBytes{pieces[0].fd, pieces[0].offset, whole}, owner_));
  machine_->addresses.finish_map(begin, true);
  return pointer_to(begin + (host - first));
}

void MemoryDevice::remove_alias(std::uintptr_t address) {
  const std::uintptr_t begin = align_down(address, kPageBytes);
  const auto bytes = machine_->addresses.region_bytes(begin, owner_, RegionKind::kAlias);
  if (!bytes) return;
  // Work that still runs on it keeps it mapped; the device's end takes it away.
  if (!machine_->addresses.begin_unmap(begin, *bytes, owner_)) return;
  machine_->addresses.finish_unmap(begin);
  VMEM_CHECK(machine_->addresses.remove_region(begin, owner_, RegionKind::kAlias));
  ::munmap(pointer_to(begin), *bytes);
}

}  // namespace vmem
