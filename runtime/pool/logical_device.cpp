#include "runtime/pool/logical_device.hpp"

#include <algorithm>
#include <utility>

#include "runtime/support/bytes.hpp"
#include "runtime/support/format.hpp"

namespace vmem {
namespace {

DeviceInfo without_peers(DeviceInfo info) {
  info.caps = info.caps.without(DeviceCap::kPeerCopy);
  return info;
}

}  // namespace

LogicalDevice::LogicalDevice(Device& card, DeviceInfo info) : card_(card), info_(without_peers(std::move(info))) {}

Result<MemoryInfo> LogicalDevice::memory_info() {
  VMEM_ASSIGN_OR_RETURN(const MemoryInfo card, card_.memory_info());
  MutexLock lock(mutex_);
  return MemoryInfo{std::min(info_.total_bytes - used_, card.free_bytes), info_.total_bytes};
}

Result<std::size_t> LogicalDevice::take(std::size_t bytes) {
  // The card gives whole granules.
  const auto rounded = checked_align_up(bytes, info_.granularity);
  MutexLock lock(mutex_);
  const std::uint64_t free = info_.total_bytes - used_;
  if (!rounded || *rounded > free) {
    const StatusCode code = info_.tier == Tier::kHost ? StatusCode::kOutOfHostMemory : StatusCode::kOutOfDeviceMemory;
    return Status(code, format("{} asked, {} free (capacity of this part {})", format_bytes(bytes), format_bytes(free),
                               format_bytes(info_.total_bytes)))
        .with_device(info_.name);
  }
  used_ += *rounded;
  return *rounded;
}

void LogicalDevice::give_back(std::size_t taken) {
  MutexLock lock(mutex_);
  used_ -= taken;
}

Result<void*> LogicalDevice::allocate(std::size_t bytes) {
  VMEM_ASSIGN_OR_RETURN(const std::size_t taken, take(bytes));
  auto address = card_.allocate(bytes);
  if (!address) {
    give_back(taken);
    return address;
  }
  MutexLock lock(mutex_);
  allocations_.emplace(*address, taken);
  return address;
}

Status LogicalDevice::deallocate(void* address) {
  // Taken out first: once the card has the address back, another thread may be given it.
  std::size_t taken = 0;
  {
    MutexLock lock(mutex_);
    const auto found = allocations_.find(address);
    if (found == allocations_.end()) {
      return Status(StatusCode::kInvalidValue, format("address {} was not allocated on this part", address))
          .with_device(info_.name);
    }
    taken = found->second;
    allocations_.erase(found);
  }
  Status status = card_.deallocate(address);
  MutexLock lock(mutex_);
  if (status) {
    used_ -= taken;
  } else {
    allocations_.emplace(address, taken);
  }
  return status;
}

Result<Chunk> LogicalDevice::create_chunk(std::size_t bytes) {
  VMEM_ASSIGN_OR_RETURN(const std::size_t taken, take(bytes));
  auto chunk = card_.create_chunk(bytes);
  if (!chunk) {
    give_back(taken);
    return chunk;
  }
  MutexLock lock(mutex_);
  chunks_.emplace(chunk->handle, taken);
  return chunk;
}

Status LogicalDevice::destroy_chunk(const Chunk& chunk) {
  std::size_t taken = 0;
  {
    MutexLock lock(mutex_);
    const auto found = chunks_.find(chunk.handle);
    if (found == chunks_.end()) {
      return Status(StatusCode::kInvalidValue, format("chunk {} was not made on this part", chunk.handle))
          .with_device(info_.name);
    }
    taken = found->second;
    chunks_.erase(found);
  }
  Status status = card_.destroy_chunk(chunk);
  MutexLock lock(mutex_);
  if (status) {
    used_ -= taken;
  } else {
    chunks_.emplace(chunk.handle, taken);
  }
  return status;
}

Result<Event> LogicalDevice::copy_from_host(void* destination, const void* host, std::size_t bytes, Stream stream) {
  return card_.copy_from_host(destination, host, bytes, stream);
}

Result<Event> LogicalDevice::copy_to_host(void* host, const void* source, std::size_t bytes, Stream stream) {
  return card_.copy_to_host(host, source, bytes, stream);
}

Result<Event> LogicalDevice::copy_within(void* destination, const void* source, std::size_t bytes, Stream stream) {
  return card_.copy_within(destination, source, bytes, stream);
}

Result<Event> LogicalDevice::fill(void* destination, std::uint8_t value, std::size_t bytes, Stream stream) {
  return card_.fill(destination, value, bytes, stream);
}

Status LogicalDevice::write_signal(Stream stream, std::uint32_t* word, std::uint32_t value) {
  return card_.write_signal(stream, word, value);
}

Status LogicalDevice::wait_signal(Stream stream, std::uint32_t* word, std::uint32_t value) {
  return card_.wait_signal(stream, word, value);
}

}  // namespace vmem
