// The memory of a device: slabs, chunks, windows, registered host pages.
#include <utility>

#include "backends/cuda/cuda_device.hpp"
#include "runtime/support/bytes.hpp"
#include "runtime/support/format.hpp"

namespace vmem {
namespace {

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }
void* pointer_to(std::uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

Status CudaDevice::out_of_memory(std::size_t bytes, const Status& cause) {
  std::size_t free = 0;
  std::size_t total = 0;
  static_cast<void>(driver().cuMemGetInfo_v2(&free, &total));
  return error(StatusCode::kOutOfDeviceMemory,
               format("{} asked, {} free (capacity {})", format_bytes(bytes), format_bytes(free),
                      format_bytes(static_cast<std::size_t>(info_.total_bytes))))
      .with_driver(cause.driver_code(), std::string(cause.driver_name()));
}

// Whole granules come aligned to one from the drivers known; where one gives less, there is a granule more to cut from.
Result<CuDevicePtr> CudaDevice::allocate_aligned(std::size_t bytes, CuDevicePtr& base) {
  VMEM_RETURN_IF_ERROR(check(driver().cuMemAlloc_v2(&base, bytes), "cuMemAlloc"));
  if (base % info_.granularity == 0) return base;
  static_cast<void>(driver().cuMemFree_v2(base));
  VMEM_RETURN_IF_ERROR(check(driver().cuMemAlloc_v2(&base, bytes + info_.granularity), "cuMemAlloc"));
  return align_up(base, info_.granularity);
}

Result<void*> CudaDevice::allocate(std::size_t bytes) {
  if (bytes == 0) return error(StatusCode::kInvalidValue, "allocate: 0 bytes were asked for");
  DriverCall call(*context_);
  VMEM_RETURN_IF_ERROR(call.status());
  const auto rounded = checked_align_up(bytes, info_.granularity);
  if (!rounded || *rounded > info_.total_bytes) return out_of_memory(bytes, Status());
  CuDevicePtr base = 0;
  auto address = allocate_aligned(*rounded, base);
  if (!address) {
    const Status status = address.error();
    return status.code() == StatusCode::kOutOfDeviceMemory ? out_of_memory(bytes, status) : status;
  }
  memory_.add_slab(*address, {base, *rounded});
  return pointer_to(*address);
}

Status CudaDevice::deallocate(void* address) {
  DriverCall call(*context_);
  VMEM_RETURN_IF_ERROR(call.status());
  const auto slab = memory_.take_slab(address_of(address));
  if (!slab) {
    return error(StatusCode::kInvalidValue, format("deallocate: {} was not allocated on this device", address));
  }
  const Status status = check(driver().cuMemFree_v2(slab->base), "cuMemFree");
  if (!status) memory_.add_slab(address_of(address), *slab);
  return status;
}

CuMemAllocationProp CudaDevice::chunk_properties() const noexcept {
  CuMemAllocationProp properties{};
  properties.type = kCuAllocationPinned;
  properties.location = {kCuLocationDevice, context_->device()};
  return properties;
}

Result<Chunk> CudaDevice::create_chunk(std::size_t bytes) {
  if (!has(DeviceCap::kVirtualMemory)) return Device::create_chunk(bytes);
  if (bytes == 0 || bytes % info_.granularity != 0) {
    return error(StatusCode::kInvalidValue,
                 format("create_chunk: {} bytes are no multiple of {}", bytes, format_bytes(info_.granularity)));
  }
  DriverCall call(*context_);
  VMEM_RETURN_IF_ERROR(call.status());
  const CuMemAllocationProp properties = chunk_properties();
  CuMemHandle handle = 0;
  const Status status = check(driver().cuMemCreate(&handle, bytes, &properties, 0), "cuMemCreate");
  if (status.code() == StatusCode::kOutOfDeviceMemory) return out_of_memory(bytes, status);
  VMEM_RETURN_IF_ERROR(status);
  const Chunk chunk{handle, bytes};
  memory_.add_chunk(chunk);
  return chunk;
}

Status CudaDevice::destroy_chunk(const Chunk& chunk) {
  if (!has(DeviceCap::kVirtualMemory)) return Device::destroy_chunk(chunk);
  DriverCall call(*context_);
  VMEM_RETURN_IF_ERROR(call.status());
  if (Status status = memory_.take_chunk(chunk); !status) return status.with_device(info_.name);
  const Status status = check(driver().cuMemRelease(chunk.handle), "cuMemRelease");
  if (!status) memory_.add_chunk(chunk);
  return status;
}

Result<void*> CudaDevice::reserve_window(std::size_t bytes) {
  if (!has(DeviceCap::kVirtualMemory)) return Device::reserve_window(bytes);
  if (bytes == 0) return error(StatusCode::kInvalidValue, "reserve_window: 0 bytes were asked for");
  DriverCall call(*context_);
  VMEM_RETURN_IF_ERROR(call.status());
  const auto rounded = checked_align_up(bytes, info_.granularity);
  CuDevicePtr begin = 0;
  const Status status =
      rounded ? check(driver().cuMemAddressReserve(&begin, *rounded, info_.granularity, 0, 0), "cuMemAddressReserve")
              : error(StatusCode::kOutOfDeviceMemory, "the size overflows");
  if (status.code() == StatusCode::kOutOfDeviceMemory || status.code() == StatusCode::kInvalidValue) {
    return error(StatusCode::kOutOfAddresses, format("no range of {} of addresses is free", format_bytes(bytes)))
        .with_driver(status.driver_code(), std::string(status.driver_name()));
  }
  VMEM_RETURN_IF_ERROR(status);
  memory_.add_window(begin, *rounded);
  return pointer_to(begin);
}

Status CudaDevice::release_window(void* window, std::size_t bytes) {
  if (!has(DeviceCap::kVirtualMemory)) return Device::release_window(window, bytes);
  DriverCall call(*context_);
  VMEM_RETURN_IF_ERROR(call.status());
  const std::uint64_t begin = address_of(window);
  if (Status status = memory_.take_window(begin, bytes); !status) return status.with_device(info_.name);
  const std::size_t rounded = align_up(bytes, info_.granularity);
  const Status status = check(driver().cuMemAddressFree(begin, rounded), "cuMemAddressFree");
  if (!status) memory_.add_window(begin, rounded);
  return status;
}

Status CudaDevice::grant_access(CuDevicePtr address, std::size_t bytes) {
  std::vector<CuMemAccessDesc> access;
  for (const CuDevice device : mapped_by_) access.push_back({{kCuLocationDevice, device}, kCuAccessReadWrite});
  return check(driver().cuMemSetAccess(address, bytes, access.data(), access.size()), "cuMemSetAccess");
}

Status CudaDevice::map(void* address, const Chunk& chunk) {
  if (!has(DeviceCap::kVirtualMemory)) return Device::map(address, chunk);
  DriverCall call(*context_);
  VMEM_RETURN_IF_ERROR(call.status());
  const std::uint64_t begin = address_of(address);
  if (Status status = memory_.begin_map(begin, chunk); !status) return status.with_device(info_.name);
  Status status = check(driver().cuMemMap(begin, chunk.bytes, 0, chunk.handle, 0), "cuMemMap");
  if (status) {
    status = grant_access(begin, chunk.bytes);
    if (!status) static_cast<void>(driver().cuMemUnmap(begin, chunk.bytes));
  }
  memory_.finish_map(begin, status.is_ok());
  return status;
}

Status CudaDevice::unmap(void* address, std::size_t bytes) {
  if (!has(DeviceCap::kVirtualMemory)) return Device::unmap(address, bytes);
  DriverCall call(*context_);
  VMEM_RETURN_IF_ERROR(call.status());
  const std::uint64_t begin = address_of(address);
  if (Status status = memory_.begin_unmap(begin, bytes); !status) return status.with_device(info_.name);
  const Status status = check(driver().cuMemUnmap(begin, bytes), "cuMemUnmap");
  memory_.finish_unmap(begin, status.is_ok());
  return status;
}

Result<void*> CudaDevice::register_host(void* host, std::size_t bytes) {
  if (!has(DeviceCap::kHostRegistration)) return Device::register_host(host, bytes);
  VMEM_RETURN_IF_ERROR(context_->failure());
  return context_->machine().host_pages.add(*context_, host, bytes);
}

Status CudaDevice::unregister_host(void* host) {
  if (!has(DeviceCap::kHostRegistration)) return Device::unregister_host(host);
  VMEM_RETURN_IF_ERROR(context_->failure());
  return context_->machine().host_pages.remove(*context_, host);
}

}  // namespace vmem
