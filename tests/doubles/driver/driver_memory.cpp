// Driver: allocations, chunks and windows, pinned host memory, what a pointer is.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tuple>

#include "runtime/support/check.hpp"
#include "tests/doubles/driver/driver.hpp"

namespace vmem::sim {
namespace {

// Allocations of at least this size are aligned to it, smaller ones to pages.
constexpr std::size_t kLargeAllocation = std::size_t{2} << 20U;
constexpr std::size_t kHostBytesLimit = std::size_t{1} << 40U;

bool is_mapped(const char* begin, std::size_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(begin) / kPage * kPage;
  const auto last = round_up(reinterpret_cast<std::uintptr_t>(begin) + bytes, kPage);
  std::vector<unsigned char> resident((last - first) / kPage);
  return ::mincore(reinterpret_cast<void*>(first), last - first, resident.data()) == 0;
}

}  // namespace

PhysicalMemory& Driver::memory_at(int location) {
  return *memories_[location == kHostLocation ? memories_.size() - 1 : static_cast<std::size_t>(location)];
}

void Driver::memory_info(int device, std::size_t& free, std::size_t& total) {
  MutexLock lock(driver_mutex);
  free = memory_at(device).free_bytes();
  total = memory_at(device).capacity();
}

// -- Allocations -----------------------------------------------------------------------------------------------------

Error Driver::grant(Address begin, std::size_t bytes, int device, int owner, Protection protection) {
  const bool decoy = device != owner && owner != kHostLocation && link(device, owner) == VMEM_DOUBLE_PEER_LIES;
  return addresses_.set_access(begin, bytes, view_of(device), protection, decoy);
}

Error Driver::allocate(const Context& context, std::size_t bytes, Address& address) {
  if (bytes == 0) return Error::kInvalidValue;
  if (bytes > settings_.capacity) return Error::kOutOfMemory;
  MutexLock lock(driver_mutex);
  const std::size_t mapped = round_up(bytes, kPage);
  auto backing = memory_at(context.device).allocate(mapped, false);
  if (backing == nullptr) return Error::kOutOfMemory;
  const Address begin = addresses_.reserve(mapped, bytes >= kLargeAllocation ? kLargeAllocation : kPage, 0);
  if (begin == 0) return Error::kOutOfMemory;
  VMEM_CHECK(addresses_.map(begin, std::move(backing)) == Error::kNone);
  for (int device = 0; device < settings_.num_devices; ++device) {
    if (device != context.device && peers_.count({device, context.device}) == 0) continue;
    VMEM_CHECK(grant(begin, mapped, device, context.device, Protection::kReadWrite) == Error::kNone);
  }
  allocations_[begin] = {bytes, mapped, context.handle, context.device};
  address = begin;
  return Error::kNone;
}

void Driver::free_allocation(Address address) {
  const auto found = allocations_.find(address);
  VMEM_CHECK(addresses_.unmap(address, found->second.mapped_bytes) == Error::kNone);
  VMEM_CHECK(addresses_.release(address, found->second.mapped_bytes) == Error::kNone);
  allocations_.erase(found);
}

Error Driver::deallocate(Address address) {
  MutexLock lock(driver_mutex);
  auto found = allocations_.find(address);
  if (found == allocations_.end()) return Error::kInvalidValue;
  drain(found->second.device);
  // Another thread may have freed it meanwhile.
  if (allocations_.count(address) == 0) return Error::kInvalidValue;
  free_allocation(address);
  return Error::kNone;
}

// -- Chunks and windows ----------------------------------------------------------------------------------------------

Error Driver::create_chunk(int location, std::size_t bytes, bool shareable, Handle& chunk) {
  if (bytes == 0 || bytes % settings_.granularity != 0) return Error::kInvalidValue;
  if (!settings_.vmm || (location == kHostLocation && !settings_.host_vmm) || (shareable && !settings_.posix_fd)) {
    return Error::kNotSupported;
  }
  MutexLock lock(driver_mutex);
  auto backing = memory_at(location).allocate(bytes, shareable);
  if (backing == nullptr) return Error::kOutOfMemory;
  chunk = chunks_.add(std::make_shared<Chunk>(Chunk{std::move(backing), shareable}));
  return Error::kNone;
}

Error Driver::release_chunk(Handle chunk) {
  MutexLock lock(driver_mutex);
  return chunks_.take(chunk) != nullptr ? Error::kNone : Error::kInvalidValue;
}

Error Driver::retain_chunk(Address address, Handle& chunk) {
  MutexLock lock(driver_mutex);
  const auto found = addresses_.find(address);
  if (!found || found.mapping->backing == nullptr || allocations_.count(found.begin) != 0) return Error::kInvalidValue;
  const bool shareable = static_cast<bool>(found.mapping->backing->own_file);
  chunk = chunks_.add(std::make_shared<Chunk>(Chunk{found.mapping->backing, shareable}));
  return Error::kNone;
}

Error Driver::export_chunk(Handle handle, int& fd) {
  MutexLock lock(driver_mutex);
  const auto chunk = chunks_.find(handle);
  if (chunk == nullptr || !chunk->shareable) return Error::kInvalidValue;
  fd = ::fcntl(chunk->backing->fd, F_DUPFD_CLOEXEC, 0);
  return fd >= 0 ? Error::kNone : Error::kOutOfMemory;
}

Error Driver::import_chunk(int fd, Handle& chunk) {
  struct stat info {};
  if (::fstat(fd, &info) != 0 || info.st_size <= 0) return Error::kInvalidValue;
  UniqueFd own(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  MutexLock lock(driver_mutex);
  auto backing = memory_at(kHostLocation).import(std::move(own), static_cast<std::size_t>(info.st_size));
  chunk = chunks_.add(std::make_shared<Chunk>(Chunk{std::move(backing), true}));
  return Error::kNone;
}

Error Driver::chunk_info(Handle handle, int& location, bool& shareable) {
  MutexLock lock(driver_mutex);
  const auto chunk = chunks_.find(handle);
  if (chunk == nullptr) return Error::kInvalidValue;
  location = chunk->backing->location;
  shareable = chunk->shareable;
  return Error::kNone;
}

Error Driver::reserve(std::size_t bytes, std::size_t alignment, Address hint, Address& address) {
  if (!settings_.vmm) return Error::kNotSupported;
  if (bytes == 0 || bytes % settings_.granularity != 0 || (alignment & (alignment - 1)) != 0) {
    return Error::kInvalidValue;
  }
  MutexLock lock(driver_mutex);
  address = addresses_.reserve(bytes, alignment > settings_.granularity ? alignment : settings_.granularity, hint);
  return address != 0 ? Error::kNone : Error::kOutOfMemory;
}

Error Driver::release(Address address, std::size_t bytes) {
  MutexLock lock(driver_mutex);
  if (allocations_.count(address) != 0) return Error::kInvalidValue;
  return addresses_.release(address, bytes);
}

Error Driver::map(Address address, std::size_t bytes, std::size_t offset, Handle handle) {
  MutexLock lock(driver_mutex);
  const auto chunk = chunks_.find(handle);
  if (chunk == nullptr || offset != 0 || bytes != chunk->backing->bytes || address % settings_.granularity != 0) {
    return Error::kInvalidValue;
  }
  return addresses_.map(address, chunk->backing);
}

Error Driver::unmap(Address address, std::size_t bytes) {
  MutexLock lock(driver_mutex);
  if (allocations_.count(address) != 0) return Error::kInvalidValue;
  return addresses_.unmap(address, bytes);
}

Error Driver::set_access(Address address, std::size_t bytes, int location, Protection protection) {
  MutexLock lock(driver_mutex);
  // Mapping by mapping, as their owners decide; nothing changes where one of them refuses.
  std::vector<AddressSpace::Found> mappings;
  for (Address at = address; at < address + bytes;) {
    const auto found = addresses_.find(at);
    if (!found || found.begin != at || found.mapping->backing == nullptr || allocations_.count(at) != 0) {
      return Error::kInvalidValue;
    }
    const int owner = found.mapping->backing->location;
    if (location == kHostLocation && owner != kHostLocation) return Error::kInvalidValue;
    if (location != kHostLocation && owner != kHostLocation && owner != location && protection != Protection::kNone &&
        link(location, owner) == VMEM_DOUBLE_PEER_ABSENT) {
      return Error::kPeerUnsupported;
    }
    mappings.push_back(found);
    at += found.mapping->bytes;
  }
  if (mappings.empty() || mappings.back().begin + mappings.back().mapping->bytes != address + bytes) {
    return Error::kInvalidValue;
  }
  for (const auto& [begin, mapping] : mappings) {
    const Error error = location == kHostLocation
                            ? addresses_.set_access(begin, mapping->bytes, kCpuView, protection, false)
                            : grant(begin, mapping->bytes, location, mapping->backing->location, protection);
    VMEM_CHECK(error == Error::kNone);
  }
  return Error::kNone;
}

Error Driver::access_of(Address address, int location, Protection& protection) {
  MutexLock lock(driver_mutex);
  const auto found = addresses_.find(address);
  if (!found) return Error::kInvalidValue;
  protection = found.mapping->access[location == kHostLocation ? kCpuView : view_of(location)];
  return Error::kNone;
}

// -- Pinned host memory ----------------------------------------------------------------------------------------------

const std::pair<char* const, Driver::Pinned>* Driver::pinned_at(const char* host) const {
  auto found = pinned_.upper_bound(const_cast<char*>(host));
  if (found == pinned_.begin()) return nullptr;
  --found;
  return static_cast<std::size_t>(host - found->first) < found->second.bytes ? &*found : nullptr;
}

bool Driver::is_pinned(const char* host, std::size_t bytes) const {
  const char* const end = host + bytes;
  while (host < end) {
    const auto* const range = pinned_at(host);
    if (range == nullptr) return false;
    host = range->first + range->second.bytes;
  }
  return true;
}

Error Driver::pin(const Context& context, char* host, std::size_t bytes, unsigned flags, bool allocated) {
  const auto next = pinned_.lower_bound(host);
  if (pinned_at(host) != nullptr || (next != pinned_.end() && next->first < host + bytes)) {
    return Error::kAlreadyRegistered;
  }
  Pinned pinned{bytes, flags, allocated, context.handle, reinterpret_cast<Address>(host)};
  if (settings_.pointers_differ && !allocated) {
    const std::size_t slack = reinterpret_cast<std::uintptr_t>(host) % kPage;
    const Address begin = addresses_.reserve(round_up(bytes + slack, kPage), kPage, 0);
    if (begin == 0) return Error::kOutOfMemory;
    VMEM_CHECK(addresses_.map_host(begin, host - slack, round_up(bytes + slack, kPage)) == Error::kNone);
    pinned.device_address = begin + slack;
  }
  pinned_.emplace(host, pinned);
  return Error::kNone;
}

void Driver::free_pinned(char* host) {
  const auto found = pinned_.find(host);
  const Pinned pinned = found->second;
  pinned_.erase(found);
  if (addresses_.contains(pinned.device_address)) {
    const Address begin = pinned.device_address / kPage * kPage;
    const std::size_t bytes = addresses_.reserved_bytes(begin);
    VMEM_CHECK(addresses_.unmap(begin, bytes) == Error::kNone);
    VMEM_CHECK(addresses_.release(begin, bytes) == Error::kNone);
  }
  if (pinned.allocated) ::munmap(host, round_up(pinned.bytes, kPage));
}

Error Driver::allocate_host(const Context& context, std::size_t bytes, unsigned flags, char*& host) {
  if (bytes == 0) return Error::kInvalidValue;
  if (bytes > kHostBytesLimit) return Error::kOutOfMemory;
  void* const memory =
      ::mmap(nullptr, round_up(bytes, kPage), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Error::kOutOfMemory;
  MutexLock lock(driver_mutex);
  host = static_cast<char*>(memory);
  return pin(context, host, bytes, flags, true);
}

Error Driver::deallocate_host(char* host) {
  MutexLock lock(driver_mutex);
  const auto found = pinned_.find(host);
  if (found == pinned_.end() || !found->second.allocated) return Error::kInvalidValue;
  for (int device = 0; device < settings_.num_devices; ++device) drain(device);
  if (pinned_.count(host) == 0) return Error::kInvalidValue;
  free_pinned(host);
  return Error::kNone;
}

Error Driver::register_host(const Context& context, char* host, std::size_t bytes, unsigned flags) {
  if (!settings_.host_registration) return Error::kNotSupported;
  if (host == nullptr || bytes == 0 || bytes > kHostBytesLimit) return Error::kInvalidValue;
  MutexLock lock(driver_mutex);
  if (addresses_.contains(reinterpret_cast<Address>(host)) || !is_mapped(host, bytes)) return Error::kInvalidValue;
  return pin(context, host, bytes, flags, false);
}

Error Driver::unregister_host(char* host) {
  MutexLock lock(driver_mutex);
  const auto found = pinned_.find(host);
  if (found == pinned_.end()) return Error::kNotRegistered;
  if (found->second.allocated) return Error::kInvalidValue;
  free_pinned(host);
  return Error::kNone;
}

Error Driver::host_device_pointer(const char* host, Address& address) {
  MutexLock lock(driver_mutex);
  const auto* const pinned = pinned_at(host);
  if (pinned == nullptr) return Error::kInvalidValue;
  address = pinned->second.device_address + static_cast<Address>(host - pinned->first);
  return Error::kNone;
}

Error Driver::host_flags(const char* host, unsigned& flags) {
  MutexLock lock(driver_mutex);
  const auto* const pinned = pinned_at(host);
  if (pinned == nullptr) return Error::kInvalidValue;
  flags = pinned->second.flags;
  return Error::kNone;
}

PointerInfo Driver::pointer_info(Address address) {
  MutexLock lock(driver_mutex);
  PointerInfo info;
  auto* const host = reinterpret_cast<char*>(address);
  if (const auto* const pinned = pinned_at(host)) {
    info.kind = PointerInfo::Kind::kHost;
    info.device = kHostLocation;
    info.begin = reinterpret_cast<Address>(pinned->first);
    info.bytes = pinned->second.bytes;
    info.context = pinned->second.context;
    info.device_address = pinned->second.device_address + static_cast<Address>(host - pinned->first);
    info.host_address = host;
    return info;
  }
  std::tie(info.reserved_begin, info.reserved_bytes) = addresses_.reservation_of(address);
  const auto found = addresses_.find(address);
  if (!found) return info;
  info.begin = found.begin;
  info.bytes = found.mapping->bytes;
  info.device_address = address;
  info.id = found.mapping->stamp;
  if (found.mapping->host != nullptr) {
    info.kind = PointerInfo::Kind::kHost;
    info.device = kHostLocation;
    info.host_address = found.mapping->host + (address - found.begin);
    return info;
  }
  info.device = found.mapping->backing->location;
  info.kind = info.device == kHostLocation ? PointerInfo::Kind::kHost : PointerInfo::Kind::kDevice;
  if (found.mapping->access[kCpuView] != Protection::kNone) info.host_address = host;
  if (const auto allocation = allocations_.find(found.begin); allocation != allocations_.end()) {
    info.allocated = true;
    info.bytes = allocation->second.bytes;
    info.context = allocation->second.context;
  }
  return info;
}

}  // namespace vmem::sim
