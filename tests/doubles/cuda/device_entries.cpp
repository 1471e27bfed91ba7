// Entries: start, errors, devices, contexts, peers.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "tests/doubles/cuda/entries.hpp"
#include "tests/doubles/cuda/entry.hpp"

using namespace vmem;
using namespace vmem::cuda_double;

namespace {

struct ErrorText {
  int code;
  const char* name;
  const char* text;
};

constexpr ErrorText kErrors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {208, "CUDA_ERROR_ALREADY_MAPPED", "resource already mapped"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported between these two devices"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
    {902, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "operation would result in a merge of separate capture sequences"},
    {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began"},
    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {907, "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"},
    {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"}};

const ErrorText* error_text(int code) {
  for (const ErrorText& each : kErrors) {
    if (each.code == code) return &each;
  }
  return nullptr;
}

// What all devices say of themselves, by attribute; any other that does not depend on settings is 0.
constexpr std::pair<int, int> kAttributes[] = {
    {1, 1024},        // threads per block
    {2, 1024},        // of the block in x
    {3, 1024},        // in y
    {4, 64},          // in z
    {5, 0x7FFFFFFF},  // blocks of the grid in x
    {6, 65535},       // in y
    {7, 65535},       // in z
    {8, 48 << 10},    // shared memory per block
    {9, 64 << 10},    // constant memory
    {12, 64 << 10},   // registers
    {13, 1'500'000},  // clock, kHz
    {15, 1},          // copies beside kernels
    {16, 8},          // multiprocessors
    {19, 1},          // maps host memory
    {31, 1},          // kernels beside each other
    {36, 1'000'000},  // memory clock, kHz
    {37, 256},        // bits of its bus
    {38, 8 << 20},    // L2
    {39, 2048},       // threads per multiprocessor
    {40, 2},          // copy engines
    {41, 1},          // unified addressing
    {75, 9},          // compute capability
    {78, 1},          // stream priorities
};

int attribute_value(const Driver& driver, int attribute, int index) {
  const auto& settings = driver.settings();
  switch (attribute) {
    case kCuAttributeWarpSize:
      return static_cast<int>(driver.wave_width());
    case kCuAttributeIntegrated:
      return settings.integrated ? 1 : 0;
    case kCuAttributePciBusId:
      return static_cast<int>(driver.pci_bus(index));
    case 91:
      return settings.pointers_differ ? 0 : 1;  // registered memory has the host's addresses
    case 92:                                    // words of streams, in their older and newer forms
    case 93:
    case 94:
    case 122:
    case 123:
      return settings.stream_values ? 1 : 0;
    case kCuAttributeHostRegisterSupported:
      return settings.host_registration ? 1 : 0;
    case kCuAttributeVirtualMemoryManagementSupported:
      return settings.vmm ? 1 : 0;
    case 103:
      return settings.vmm && settings.posix_fd ? 1 : 0;
    case 141:
      return settings.host_vmm ? 1 : 0;  // chunks in host memory
    default:
      break;
  }
  for (const auto& [each, value] : kAttributes) {
    if (each == attribute) return value;
  }
  return 0;
}

CuResult context_entry(const char* name, CuContext context, CuResult (*body)(Call&, Handle, int)) {
  return entry(name, kInitialized, [&](Call& call) -> CuResult {
    bool was_one = false;
    const Handle handle = context == nullptr ? current_context() : as_number(context);
    const auto found = call.driver->context(handle, &was_one);
    if (found == nullptr) return was_one ? kCuContextIsDestroyed : kCuInvalidContext;
    return body(call, handle, found->device);
  });
}

}  // namespace

// -- Start and errors ------------------------------------------------------------------------------------------------

VMEM_CUDA_EXPORT cuInit(unsigned flags) {
  return free_entry("cuInit", [&]() -> CuResult {
    if (flags != 0) return kCuInvalidValue;
    return sim::is_forked() ? kCuNotInitialized : initialize();
  });
}

VMEM_CUDA_EXPORT cuDriverGetVersion(int* value) {
  return free_entry("cuDriverGetVersion", [&]() -> CuResult {
    if (value == nullptr) return kCuInvalidValue;
    *value = version();
    return kCuSuccess;
  });
}

VMEM_CUDA_EXPORT cuGetErrorName(CuResult error, const char** name) {
  return free_entry("cuGetErrorName", [&]() -> CuResult {
    if (name == nullptr) return kCuInvalidValue;
    const ErrorText* const found = error_text(error);
    *name = found == nullptr ? nullptr : found->name;
    return found == nullptr ? kCuInvalidValue : kCuSuccess;
  });
}

VMEM_CUDA_EXPORT cuGetErrorString(CuResult error, const char** text) {
  return free_entry("cuGetErrorString", [&]() -> CuResult {
    if (text == nullptr) return kCuInvalidValue;
    const ErrorText* const found = error_text(error);
    *text = found == nullptr ? nullptr : found->text;
    return found == nullptr ? kCuInvalidValue : kCuSuccess;
  });
}

// -- Devices ---------------------------------------------------------------------------------------------------------

VMEM_CUDA_EXPORT cuDeviceGetCount(int* count) {
  return entry("cuDeviceGetCount", kInitialized, [&](Call&) -> CuResult {
    if (count == nullptr) return kCuInvalidValue;
    *count = num_visible();
    return kCuSuccess;
  });
}

VMEM_CUDA_EXPORT cuDeviceGet(CuDevice* device, int ordinal) {
  return entry("cuDeviceGet", kInitialized, [&](Call&) -> CuResult {
    if (device == nullptr) return kCuInvalidValue;
    if (!index_of(ordinal)) return kCuInvalidDevice;
    *device = ordinal;
    return kCuSuccess;
  });
}

VMEM_CUDA_EXPORT cuDeviceGetName(char* name, int bytes, CuDevice device) {
  return device_entry("cuDeviceGetName", device, [&](Call&, int index) -> CuResult {
    if (name == nullptr || bytes <= 0) return kCuInvalidValue;
    std::snprintf(name, static_cast<std::size_t>(bytes), "NVIDIA double %d", index);
    return kCuSuccess;
  });
}

VMEM_CUDA_EXPORT cuDeviceTotalMem_v2(std::size_t* bytes, CuDevice device) {
  return device_entry("cuDeviceTotalMem", device, [&](Call& call, int index) -> CuResult {
    if (bytes == nullptr) return kCuInvalidValue;
    std::size_t free = 0;
    call.driver->memory_info(index, free, *bytes);
    return kCuSuccess;
  });
}

VMEM_CUDA_EXPORT cuDeviceGetAttribute(int* value, CuDeviceAttribute attribute, CuDevice device) {
  return device_entry("cuDeviceGetAttribute", device, [&](Call& call, int index) -> CuResult {
    // Attributes that are newer than the driver are unknown to it.
    const int newest = version() >= 12020 ? 150 : version() >= 12000 ? 135 : 124;
    if (value == nullptr || attribute <= 0 || static_cast<int>(attribute) > newest) return kCuInvalidValue;
    *value = attribute_value(*call.driver, attribute, index);
    return kCuSuccess;
  });
}

VMEM_CUDA_EXPORT cuDeviceGetUuid_v2(CuUuid* uuid, CuDevice device) {
  return device_entry("cuDeviceGetUuid", device, [&](Call& call, int index) -> CuResult {
    if (uuid == nullptr) return kCuInvalidValue;
    const auto bytes = call.driver->uuid(index);
    std::memcpy(uuid->bytes, bytes.data(), bytes.size());
    return kCuSuccess;
  });
}

VMEM_CUDA_EXPORT cuDeviceGetUuid(CuUuid* uuid, CuDevice device) { return cuDeviceGetUuid_v2(uuid, device); }

VMEM_CUDA_EXPORT cuDeviceGetPCIBusId(char* text, int bytes, CuDevice device) {
  return device_entry("cuDeviceGetPCIBusId", device, [&](Call& call, int index) -> CuResult {
    if (text == nullptr || bytes < 13) return kCuInvalidValue;
    std::snprintf(text, static_cast<std::size_t>(bytes), "0000:%02X:00.0", call.driver->pci_bus(index));
    return kCuSuccess;
  });
}

VMEM_CUDA_EXPORT cuDeviceGetByPCIBusId(CuDevice* device, const char* text) {
  return entry("cuDeviceGetByPCIBusId", kInitialized, [&](Call& call) -> CuResult {
    unsigned domain = 0, bus = 0, slot = 0;
    if (device == nullptr || text == nullptr) return kCuInvalidValue;
    if (std::sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3) return kCuInvalidValue;
    for (int ordinal = 0; ordinal < num_visible(); ++ordinal) {
      if (domain != 0 || slot != 0 || call.driver->pci_bus(*index_of(ordinal)) != bus) continue;
      *device = ordinal;
      return kCuSuccess;
    }
    return kCuInvalidDevice;
  });
}

VMEM_CUDA_EXPORT cuDeviceCanAccessPeer(int* can, CuDevice device, CuDevice peer) {
  return device_entry("cuDeviceCanAccessPeer", device, [&](Call& call, int index) -> CuResult {
    const auto other = index_of(peer);
    if (can == nullptr) return kCuInvalidValue;
    if (!other) return kCuInvalidDevice;
    *can = call.driver->can_access_peer(index, *other) ? 1 : 0;
    return kCuSuccess;
  });
}

VMEM_CUDA_EXPORT cuDeviceGetP2PAttribute(int* value, int attribute, CuDevice device, CuDevice peer) {
  return device_entry("cuDeviceGetP2PAttribute", device, [&](Call& call, int index) -> CuResult {
    const auto other = index_of(peer);
    if (value == nullptr || attribute < 1 || attribute > 5) return kCuInvalidValue;
    if (!other || *other == index) return kCuInvalidDevice;
    *value = attribute == 2 && call.driver->can_access_peer(index, *other) ? 1 : 0;
    return kCuSuccess;
  });
}

// -- Contexts --------------------------------------------------------------------------------------------------------

VMEM_CUDA_EXPORT cuDevicePrimaryCtxRetain(CuContext* context, CuDevice device) {
  return device_entry("cuDevicePrimaryCtxRetain", device, [&](Call& call, int index) -> CuResult {
    if (context == nullptr) return kCuInvalidValue;
    Handle handle = 0;
    const Error error = call.driver->retain_primary(index, handle);
    *context = as_handle<CuContext>(handle);
    return result_of(error);
  });
}

VMEM_CUDA_EXPORT cuDevicePrimaryCtxRelease_v2(CuDevice device) {
  return device_entry("cuDevicePrimaryCtxRelease", device,
                      [](Call& call, int index) { return call.driver->release_primary(index); });
}

VMEM_CUDA_EXPORT cuDevicePrimaryCtxReset_v2(CuDevice device) {
  return device_entry("cuDevicePrimaryCtxReset", device,
                      [](Call& call, int index) { return call.driver->reset_primary(index); });
}

VMEM_CUDA_EXPORT cuDevicePrimaryCtxSetFlags_v2(CuDevice device, unsigned flags) {
  return device_entry("cuDevicePrimaryCtxSetFlags", device,
                      [&](Call& call, int index) { return call.driver->set_primary_flags(index, flags); });
}

VMEM_CUDA_EXPORT cuDevicePrimaryCtxGetState(CuDevice device, unsigned* flags, int* active) {
  return device_entry("cuDevicePrimaryCtxGetState", device, [&](Call& call, int index) -> CuResult {
    if (flags == nullptr || active == nullptr) return kCuInvalidValue;
    bool is_active = false;
    call.driver->primary_state(index, *flags, is_active);
    *active = is_active ? 1 : 0;
    return kCuSuccess;
  });
}

VMEM_CUDA_EXPORT cuCtxCreate_v2(CuContext* context, unsigned flags, CuDevice device) {
  return device_entry("cuCtxCreate", device, [&](Call& call, int index) -> CuResult {
    if (context == nullptr) return kCuInvalidValue;
    Handle handle = 0;
    const Error error = call.driver->create_context(index, flags, handle);
    if (error != Error::kNone) return result_of(error);
    *context = as_handle<CuContext>(handle);
    return push_context(handle) ? kCuSuccess : kCuOutOfMemory;
  });
}

VMEM_CUDA_EXPORT cuCtxDestroy_v2(CuContext context) {
  return entry("cuCtxDestroy", kInitialized, [&](Call& call) -> CuResult {
    if (current_context() == as_number(context)) pop_context();
    return result_of(call.driver->destroy_context(as_number(context)));
  });
}

VMEM_CUDA_EXPORT cuCtxPushCurrent_v2(CuContext context) {
  if (context == nullptr) return entry("cuCtxPushCurrent", kInitialized, [](Call&) { return kCuInvalidContext; });
  return context_entry("cuCtxPushCurrent", context, [](Call&, Handle handle, int) -> CuResult {
    return push_context(handle) ? kCuSuccess : kCuOutOfMemory;
  });
}

VMEM_CUDA_EXPORT cuCtxPopCurrent_v2(CuContext* context) {
  return entry("cuCtxPopCurrent", kInitialized, [&](Call&) -> CuResult {
    const Handle handle = pop_context();
    if (handle == 0) return kCuInvalidContext;
    if (context != nullptr) *context = as_handle<CuContext>(handle);
    return kCuSuccess;
  });
}

VMEM_CUDA_EXPORT cuCtxSetCurrent(CuContext context) {
  if (context == nullptr) {
    return entry("cuCtxSetCurrent", kInitialized, [](Call&) -> CuResult {
      pop_context();
      return kCuSuccess;
    });
  }
  return context_entry("cuCtxSetCurrent", context, [](Call&, Handle handle, int) -> CuResult {
    pop_context();
    return push_context(handle) ? kCuSuccess : kCuOutOfMemory;
  });
}

VMEM_CUDA_EXPORT cuCtxGetCurrent(CuContext* context) {
  return entry("cuCtxGetCurrent", kInitialized, [&](Call&) -> CuResult {
    if (context == nullptr) return kCuInvalidValue;
    *context = as_handle<CuContext>(current_context());
    return kCuSuccess;
  });
}

VMEM_CUDA_EXPORT cuCtxGetDevice(CuDevice* device) {
  return entry("cuCtxGetDevice", kContext, [&](Call& call) -> CuResult {
    if (device == nullptr) return kCuInvalidValue;
    *device = ordinal_of(call.context->device);
    return kCuSuccess;
  });
}

VMEM_CUDA_EXPORT cuCtxGetFlags(unsigned* flags) {
  return entry("cuCtxGetFlags", kContext, [&](Call& call) -> CuResult {
    if (flags == nullptr) return kCuInvalidValue;
    *flags = call.context->flags;
    return kCuSuccess;
  });
}

VMEM_CUDA_EXPORT cuCtxGetId(CuContext context, unsigned long long* id) {
  if (id == nullptr) return entry("cuCtxGetId", kInitialized, [](Call&) { return kCuInvalidValue; });
  *id = context == nullptr ? current_context() : as_number(context);
  return context_entry("cuCtxGetId", context, [](Call&, Handle, int) { return kCuSuccess; });
}

VMEM_CUDA_EXPORT cuCtxGetApiVersion(CuContext context, unsigned* value) {
  if (value == nullptr) return entry("cuCtxGetApiVersion", kInitialized, [](Call&) { return kCuInvalidValue; });
  *value = static_cast<unsigned>(version());
  return context_entry("cuCtxGetApiVersion", context, [](Call&, Handle, int) { return kCuSuccess; });
}

VMEM_CUDA_EXPORT cuCtxSynchronize() {
  return entry("cuCtxSynchronize", kContext | kUnsafe,
               [](Call& call) { return call.driver->synchronize(*call.context); });
}

VMEM_CUDA_EXPORT cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return entry("cuCtxGetStreamPriorityRange", kContext, [&](Call&) -> CuResult {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
    return kCuSuccess;
  });
}

VMEM_CUDA_EXPORT cuCtxGetLimit(std::size_t* value, int limit) {
  return entry("cuCtxGetLimit", kContext, [&](Call&) -> CuResult {
    if (value == nullptr || limit < 0 || limit > 7) return kCuInvalidValue;
    *value = 1024;
    return kCuSuccess;
  });
}

VMEM_CUDA_EXPORT cuCtxSetLimit(int limit, std::size_t) {
  return entry("cuCtxSetLimit", kContext, [&](Call&) { return limit < 0 || limit > 7 ? kCuInvalidValue : kCuSuccess; });
}

// -- Peers -----------------------------------------------------------------------------------------------------------

VMEM_CUDA_EXPORT cuCtxEnablePeerAccess(CuContext peer, unsigned flags) {
  return entry("cuCtxEnablePeerAccess", kContext, [&](Call& call) -> CuResult {
    if (flags != 0) return kCuInvalidValue;
    const auto other = call.driver->context(as_number(peer));
    if (other == nullptr) return kCuInvalidContext;
    return result_of(call.driver->enable_peer(call.context->device, other->device));
  });
}

VMEM_CUDA_EXPORT cuCtxDisablePeerAccess(CuContext peer) {
  return entry("cuCtxDisablePeerAccess", kContext, [&](Call& call) -> CuResult {
    const auto other = call.driver->context(as_number(peer));
    if (other == nullptr) return kCuInvalidContext;
    return result_of(call.driver->disable_peer(call.context->device, other->device));
  });
}
