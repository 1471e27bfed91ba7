// Entries: memory, virtual memory, pinned host memory, what a pointer is.
#include <array>
#include <vector>

#include "tests/doubles/cuda/entries.hpp"
#include "tests/doubles/cuda/entry.hpp"

using namespace vmem;
using namespace vmem::cuda_double;
using sim::PointerInfo;
using sim::Protection;

namespace {

// A location of chunks and of access; nothing where it is none.
std::optional<int> place_of(const CuMemLocation& location) {
  switch (static_cast<int>(location.type)) {
    case kCuLocationDevice:
      return index_of(location.id);
    case kCuLocationHostNuma:
      if (location.id < 0) return std::nullopt;
      return sim::kHostLocation;
    case kCuLocationHost:
    case kCuLocationHostNumaCurrent:
      return sim::kHostLocation;
    default:
      return std::nullopt;
  }
}

// Host locations are known to drivers from 12.2 on.
CuResult check_location(const CuMemLocation& location) {
  const auto place = place_of(location);
  if (!place) return static_cast<int>(location.type) == kCuLocationDevice ? kCuInvalidDevice : kCuInvalidValue;
  return *place == sim::kHostLocation && version() < 12020 ? kCuInvalidValue : kCuSuccess;
}

CuResult check_properties(const CuMemAllocationProp* properties) {
  if (properties == nullptr || properties->type != kCuAllocationPinned) return kCuInvalidValue;
  const int handles = properties->requested_handle_types;
  if (handles != 0 && handles != kCuHandlePosixFd) return kCuNotSupported;
  // Memory is made at a node of the host, not at "the host".
  if (static_cast<int>(properties->location.type) == kCuLocationHost) return kCuInvalidValue;
  return check_location(properties->location);
}

std::optional<Protection> protection_of(int flags) {
  switch (flags) {
    case 0:
      return Protection::kNone;
    case 1:
      return Protection::kRead;
    case 3:
      return Protection::kReadWrite;
    default:
      return std::nullopt;
  }
}

// False for an attribute that drivers have and the double does not.
bool pointer_attribute(const PointerInfo& info, int attribute, Address pointer, void* out) {
  const bool known = info.kind != PointerInfo::Kind::kUnknown;
  const auto put = [&](auto value) { return *static_cast<decltype(value)*>(out) = value, true; };
  switch (attribute) {
    case kCuPointerContext:
      return put(as_handle<CuContext>(info.context));
    case kCuPointerMemoryType:
      return put(info.kind == PointerInfo::Kind::kDevice ? 2U : info.kind == PointerInfo::Kind::kHost ? 1U : 0U);
    case 3:
      return put(known ? static_cast<CuDevicePtr>(info.device_address) : CuDevicePtr{0});
    case 4:
      return put(static_cast<void*>(info.host_address));
    case 6:
    case 8:
      return put(0U);  // synchronous operations, managed memory
    case 7:
      return put(static_cast<unsigned long long>(info.id));
    case kCuPointerDeviceOrdinal: {
      if (!known) return put(-2);
      const int ordinal = info.device == sim::kHostLocation ? 0 : ordinal_of(info.device);
      return put(ordinal);
    }
    case 10:
      return put(info.allocated ? 1 : 0);
    case kCuPointerRangeStart: {
      const bool whole = !info.allocated && info.reserved_begin != 0;
      return put(reinterpret_cast<void*>(whole ? info.reserved_begin : info.begin));
    }
    case kCuPointerRangeSize: {
      const bool whole = !info.allocated && info.reserved_begin != 0;
      return put(whole ? info.reserved_bytes : info.bytes);
    }
    case kCuPointerMapped:
      return put(known ? 1U : 0U);
    case 14:
      return put(0ULL);
    case 15:
      return put(0U);
    case 17:
      return put(static_cast<void*>(nullptr));
    case 18:
      return put(info.bytes);
    case 19:
      return put(reinterpret_cast<void*>(known ? info.begin : pointer * 0));
    default:
      return false;
  }
}

}  // namespace

// -- Memory ----------------------------------------------------------------------------------------------------------

VMEM_CUDA_EXPORT cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  return entry("cuMemGetInfo", kContext, [&](Call& call) -> CuResult {
    if (free == nullptr || total == nullptr) return kCuInvalidValue;
    call.driver->memory_info(call.context->device, *free, *total);
    return kCuSuccess;
  });
}

VMEM_CUDA_EXPORT cuMemAlloc_v2(CuDevicePtr* address, std::size_t bytes) {
  return entry("cuMemAlloc", kContext | kUnsafe, [&](Call& call) -> CuResult {
    if (address == nullptr) return kCuInvalidValue;
    return result_of(call.driver->allocate(*call.context, bytes, *address));
  });
}

VMEM_CUDA_EXPORT cuMemAllocPitch_v2(CuDevicePtr* address, std::size_t* pitch, std::size_t width, std::size_t height,
                                    unsigned element) {
  return entry("cuMemAllocPitch", kContext | kUnsafe, [&](Call& call) -> CuResult {
    const bool wrong = address == nullptr || pitch == nullptr || width == 0 || height == 0 ||
                       (element != 4 && element != 8 && element != 16) || width > (std::size_t{1} << 40U);
    if (wrong) return kCuInvalidValue;
    *pitch = sim::round_up(width, 512);
    if (height > (std::size_t{1} << 50U) / *pitch) return kCuOutOfMemory;
    return result_of(call.driver->allocate(*call.context, *pitch * height, *address));
  });
}

VMEM_CUDA_EXPORT cuMemFree_v2(CuDevicePtr address) {
  return entry("cuMemFree", kContext | kUnsafe, [&](Call& call) -> CuResult {
    if (address == 0) return kCuSuccess;
    return result_of(call.driver->deallocate(address));
  });
}

VMEM_CUDA_EXPORT cuMemGetAddressRange_v2(CuDevicePtr* begin, std::size_t* bytes, CuDevicePtr address) {
  return entry("cuMemGetAddressRange", kContext, [&](Call& call) -> CuResult {
    const PointerInfo info = call.driver->pointer_info(address);
    if (info.kind == PointerInfo::Kind::kUnknown) return kCuInvalidValue;
    if (begin != nullptr) *begin = info.begin;
    if (bytes != nullptr) *bytes = info.bytes;
    return kCuSuccess;
  });
}

VMEM_CUDA_EXPORT cuMemAllocManaged(CuDevicePtr*, std::size_t, unsigned) {
  return entry("cuMemAllocManaged", kContext | kUnsafe, [](Call&) { return kCuNotSupported; });
}

VMEM_CUDA_EXPORT cuIpcGetMemHandle(void* handle, CuDevicePtr address) {
  return entry("cuIpcGetMemHandle", kContext, [&](Call& call) -> CuResult {
    if (handle == nullptr) return kCuInvalidValue;
    // Handles of this kind are for allocations; the double has no other process to give one to.
    return call.driver->pointer_info(address).allocated ? kCuNotSupported : kCuInvalidValue;
  });
}

// -- Virtual memory --------------------------------------------------------------------------------------------------

VMEM_CUDA_EXPORT cuMemGetAllocationGranularity(std::size_t* bytes, const CuMemAllocationProp* properties,
                                               CuMemGranularity) {
  return entry("cuMemGetAllocationGranularity", kInitialized, [&](Call& call) -> CuResult {
    if (bytes == nullptr) return kCuInvalidValue;
    if (!call.driver->settings().vmm) return kCuNotSupported;
    *bytes = call.driver->settings().granularity;
    return check_properties(properties);
  });
}

VMEM_CUDA_EXPORT cuMemCreate(CuMemHandle* handle, std::size_t bytes, const CuMemAllocationProp* properties,
                             unsigned long long flags) {
  return entry("cuMemCreate", kInitialized, [&](Call& call) -> CuResult {
    if (handle == nullptr || flags != 0) return kCuInvalidValue;
    if (const CuResult wrong = check_properties(properties); wrong != kCuSuccess) return wrong;
    const int place = *place_of(properties->location);
    if (const int failure = call.driver->failure(place); failure != 0) return static_cast<CuResult>(failure);
    Handle chunk = 0;
    const bool shareable = static_cast<int>(properties->requested_handle_types) == kCuHandlePosixFd;
    const Error error = call.driver->create_chunk(place, bytes, shareable, chunk);
    if (error == Error::kNone) *handle = chunk;
    return result_of(error);
  });
}

VMEM_CUDA_EXPORT cuMemRelease(CuMemHandle handle) {
  return entry("cuMemRelease", kInitialized, [&](Call& call) { return call.driver->release_chunk(handle); });
}

VMEM_CUDA_EXPORT cuMemRetainAllocationHandle(CuMemHandle* handle, void* address) {
  return entry("cuMemRetainAllocationHandle", kInitialized, [&](Call& call) -> CuResult {
    if (handle == nullptr) return kCuInvalidValue;
    Handle chunk = 0;
    const Error error = call.driver->retain_chunk(reinterpret_cast<Address>(address), chunk);
    if (error == Error::kNone) *handle = chunk;
    return result_of(error);
  });
}

VMEM_CUDA_EXPORT cuMemGetAllocationPropertiesFromHandle(CuMemAllocationProp* properties, CuMemHandle handle) {
  return entry("cuMemGetAllocationPropertiesFromHandle", kInitialized, [&](Call& call) -> CuResult {
    int place = 0;
    bool shareable = false;
    if (properties == nullptr) return kCuInvalidValue;
    const Error error = call.driver->chunk_info(handle, place, shareable);
    if (error != Error::kNone) return result_of(error);
    *properties = {};
    properties->type = kCuAllocationPinned;
    properties->requested_handle_types = static_cast<CuMemHandleType>(shareable ? kCuHandlePosixFd : 0);
    properties->location.type =
        static_cast<CuMemLocationType>(place == sim::kHostLocation ? kCuLocationHostNuma : kCuLocationDevice);
    properties->location.id = place == sim::kHostLocation ? 0 : ordinal_of(place);
    return kCuSuccess;
  });
}

VMEM_CUDA_EXPORT cuMemExportToShareableHandle(void* shareable, CuMemHandle handle, CuMemHandleType type,
                                              unsigned long long flags) {
  return entry("cuMemExportToShareableHandle", kInitialized, [&](Call& call) -> CuResult {
    if (shareable == nullptr || static_cast<int>(type) != kCuHandlePosixFd || flags != 0) return kCuInvalidValue;
    return result_of(call.driver->export_chunk(handle, *static_cast<int*>(shareable)));
  });
}

VMEM_CUDA_EXPORT cuMemImportFromShareableHandle(CuMemHandle* handle, void* shareable, CuMemHandleType type) {
  return entry("cuMemImportFromShareableHandle", kInitialized, [&](Call& call) -> CuResult {
    if (handle == nullptr || static_cast<int>(type) != kCuHandlePosixFd) return kCuInvalidValue;
    Handle chunk = 0;
    const Error error = call.driver->import_chunk(static_cast<int>(reinterpret_cast<std::intptr_t>(shareable)), chunk);
    if (error == Error::kNone) *handle = chunk;
    return result_of(error);
  });
}

VMEM_CUDA_EXPORT cuMemAddressReserve(CuDevicePtr* address, std::size_t bytes, std::size_t alignment, CuDevicePtr hint,
                                     unsigned long long flags) {
  return entry("cuMemAddressReserve", kInitialized, [&](Call& call) -> CuResult {
    if (address == nullptr || flags != 0) return kCuInvalidValue;
    return result_of(call.driver->reserve(bytes, alignment, hint, *address));
  });
}

VMEM_CUDA_EXPORT cuMemAddressFree(CuDevicePtr address, std::size_t bytes) {
  return entry("cuMemAddressFree", kInitialized, [&](Call& call) { return call.driver->release(address, bytes); });
}

VMEM_CUDA_EXPORT cuMemMap(CuDevicePtr address, std::size_t bytes, std::size_t offset, CuMemHandle handle,
                          unsigned long long flags) {
  return entry("cuMemMap", kInitialized, [&](Call& call) -> CuResult {
    if (flags != 0) return kCuInvalidValue;
    return result_of(call.driver->map(address, bytes, offset, handle));
  });
}

VMEM_CUDA_EXPORT cuMemUnmap(CuDevicePtr address, std::size_t bytes) {
  return entry("cuMemUnmap", kInitialized, [&](Call& call) { return call.driver->unmap(address, bytes); });
}

VMEM_CUDA_EXPORT cuMemSetAccess(CuDevicePtr address, std::size_t bytes, const CuMemAccessDesc* accesses,
                                std::size_t count) {
  return entry("cuMemSetAccess", kInitialized, [&](Call& call) -> CuResult {
    if (accesses == nullptr || count == 0) return kCuInvalidValue;
    for (std::size_t i = 0; i < count; ++i) {
      const auto protection = protection_of(accesses[i].flags);
      if (!protection) return kCuInvalidValue;
      if (const CuResult wrong = check_location(accesses[i].location); wrong != kCuSuccess) return wrong;
      const Error error = call.driver->set_access(address, bytes, *place_of(accesses[i].location), *protection);
      if (error != Error::kNone) return result_of(error);
    }
    return kCuSuccess;
  });
}

VMEM_CUDA_EXPORT cuMemGetAccess(unsigned long long* flags, const CuMemLocation* location, CuDevicePtr address) {
  return entry("cuMemGetAccess", kInitialized, [&](Call& call) -> CuResult {
    if (flags == nullptr || location == nullptr) return kCuInvalidValue;
    if (const CuResult wrong = check_location(*location); wrong != kCuSuccess) return wrong;
    Protection protection = Protection::kNone;
    const Error error = call.driver->access_of(address, *place_of(*location), protection);
    *flags = protection == Protection::kNone ? 0 : protection == Protection::kRead ? 1 : 3;
    return result_of(error);
  });
}

// -- Pinned host memory ----------------------------------------------------------------------------------------------

VMEM_CUDA_EXPORT cuMemHostAlloc(void** host, std::size_t bytes, unsigned flags) {
  return entry("cuMemHostAlloc", kContext | kUnsafe, [&](Call& call) -> CuResult {
    if (host == nullptr) return kCuInvalidValue;
    char* memory = nullptr;
    const Error error = call.driver->allocate_host(*call.context, bytes, flags, memory);
    if (error == Error::kNone) *host = memory;
    return result_of(error);
  });
}

VMEM_CUDA_EXPORT cuMemAllocHost_v2(void** host, std::size_t bytes) {
  return entry("cuMemAllocHost", kContext | kUnsafe, [&](Call& call) -> CuResult {
    if (host == nullptr) return kCuInvalidValue;
    char* memory = nullptr;
    const Error error = call.driver->allocate_host(*call.context, bytes, 0, memory);
    if (error == Error::kNone) *host = memory;
    return result_of(error);
  });
}

VMEM_CUDA_EXPORT cuMemFreeHost(void* host) {
  return entry("cuMemFreeHost", kContext | kUnsafe,
               [&](Call& call) { return call.driver->deallocate_host(static_cast<char*>(host)); });
}

VMEM_CUDA_EXPORT cuMemHostRegister_v2(void* host, std::size_t bytes, unsigned flags) {
  return entry("cuMemHostRegister", kContext | kUnsafe, [&](Call& call) {
    return call.driver->register_host(*call.context, static_cast<char*>(host), bytes, flags);
  });
}

VMEM_CUDA_EXPORT cuMemHostUnregister(void* host) {
  return entry("cuMemHostUnregister", kContext | kUnsafe,
               [&](Call& call) { return call.driver->unregister_host(static_cast<char*>(host)); });
}

VMEM_CUDA_EXPORT cuMemHostGetDevicePointer_v2(CuDevicePtr* address, void* host, unsigned flags) {
  return entry("cuMemHostGetDevicePointer", kContext, [&](Call& call) -> CuResult {
    if (address == nullptr || flags != 0) return kCuInvalidValue;
    return result_of(call.driver->host_device_pointer(static_cast<const char*>(host), *address));
  });
}

VMEM_CUDA_EXPORT cuMemHostGetFlags(unsigned* flags, void* host) {
  return entry("cuMemHostGetFlags", kContext, [&](Call& call) -> CuResult {
    if (flags == nullptr) return kCuInvalidValue;
    return result_of(call.driver->host_flags(static_cast<const char*>(host), *flags));
  });
}

// -- Pointers --------------------------------------------------------------------------------------------------------

VMEM_CUDA_EXPORT cuPointerGetAttribute(void* data, CuPointerAttribute attribute, CuDevicePtr address) {
  return entry("cuPointerGetAttribute", kContext, [&](Call& call) -> CuResult {
    const PointerInfo info = call.driver->pointer_info(address);
    if (data == nullptr) return kCuInvalidValue;
    if (info.kind == PointerInfo::Kind::kUnknown && info.reserved_begin == 0) return kCuInvalidValue;
    return pointer_attribute(info, attribute, address, data) ? kCuSuccess : kCuInvalidValue;
  });
}

VMEM_CUDA_EXPORT cuPointerGetAttributes(unsigned count, CuPointerAttribute* attributes, void** data,
                                        CuDevicePtr address) {
  return entry("cuPointerGetAttributes", kContext, [&](Call& call) -> CuResult {
    if (attributes == nullptr || data == nullptr || count == 0) return kCuInvalidValue;
    const PointerInfo info = call.driver->pointer_info(address);
    for (unsigned i = 0; i < count; ++i) {
      if (data[i] == nullptr || !pointer_attribute(info, attributes[i], address, data[i])) return kCuInvalidValue;
    }
    return kCuSuccess;
  });
}
