// vmem's declarations of the driver's ABI against <cuda.h>. Where that is not installed there is nothing to compare.
#include "backends/cuda/driver_abi.hpp"
#include "backends/cuda/driver_entries.hpp"

#if __has_include(<cuda.h>)
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <tuple>
#include <type_traits>

namespace vmem {
namespace {

// Two types that are passed alike: of one size and one kind. Enumerators travel as integers.
template <typename Ours, typename Theirs>
constexpr bool kPassedAlike = sizeof(Ours) == sizeof(Theirs) && alignof(Ours) == alignof(Theirs) &&
                              (std::is_pointer_v<Ours>
                                   ? std::is_pointer_v<Theirs>
                                   : (std::is_integral_v<Ours> || std::is_enum_v<Ours>)&&(std::is_integral_v<Theirs> ||
                                                                                          std::is_enum_v<Theirs>));

// What pointers point to: the same size where it is complete, handles being pointers that only the driver follows.
template <typename T, typename = void>
constexpr std::size_t kPointeeBytes = 0;
template <typename T>
constexpr std::size_t kPointeeBytes<T, std::void_t<decltype(sizeof(std::remove_pointer_t<T>))>> =
    std::is_pointer_v<T> ? sizeof(std::remove_pointer_t<T>) : 0;

template <typename Ours, typename Theirs>
constexpr bool kSameParameter = kPassedAlike<Ours, Theirs>&& kPointeeBytes<Ours> == kPointeeBytes<Theirs>;

template <typename Ours, typename Theirs>
struct SameSignature : std::false_type {};
template <typename... Ours, typename... Theirs>
struct SameSignature<CuResult(Ours...), CUresult(Theirs...)> {
  static constexpr bool compare() {
    if constexpr (sizeof...(Ours) != sizeof...(Theirs)) {
      return false;
    } else {
      return (kSameParameter<Ours, Theirs> && ...);
    }
  }
  static constexpr bool value = compare();
};

static_assert(SameSignature<CuResult(int, char*), CUresult(int, char*)>::value);
static_assert(!SameSignature<CuResult(int), CUresult(int, int)>::value);
static_assert(!SameSignature<CuResult(int), CUresult(long)>::value);
static_assert(!SameSignature<CuResult(int*), CUresult(long*)>::value);

// cuda.h declares each exported symbol, some through a macro that renames the call.
#define VMEM_COMPARE(group, symbol, ...) \
  static_assert(SameSignature<CuResult(__VA_ARGS__), decltype(::symbol)>::value, #symbol);
VMEM_CUDA_ENTRIES(VMEM_COMPARE)
#undef VMEM_COMPARE

#define VMEM_EQUAL(ours, theirs) EXPECT_EQ(static_cast<long>(ours), static_cast<long>(theirs)) << #theirs

TEST(DriverAbiTest, HasTheHeadersErrors) {
  VMEM_EQUAL(kCuSuccess, CUDA_SUCCESS);
  VMEM_EQUAL(kCuInvalidValue, CUDA_ERROR_INVALID_VALUE);
  VMEM_EQUAL(kCuOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
  VMEM_EQUAL(kCuNotInitialized, CUDA_ERROR_NOT_INITIALIZED);
  VMEM_EQUAL(kCuDeinitialized, CUDA_ERROR_DEINITIALIZED);
  VMEM_EQUAL(kCuStubLibrary, CUDA_ERROR_STUB_LIBRARY);
  VMEM_EQUAL(kCuDeviceUnavailable, CUDA_ERROR_DEVICE_UNAVAILABLE);
  VMEM_EQUAL(kCuNoDevice, CUDA_ERROR_NO_DEVICE);
  VMEM_EQUAL(kCuInvalidDevice, CUDA_ERROR_INVALID_DEVICE);
  VMEM_EQUAL(kCuDeviceNotLicensed, CUDA_ERROR_DEVICE_NOT_LICENSED);
  VMEM_EQUAL(kCuInvalidImage, CUDA_ERROR_INVALID_IMAGE);
  VMEM_EQUAL(kCuInvalidContext, CUDA_ERROR_INVALID_CONTEXT);
  VMEM_EQUAL(kCuNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
  VMEM_EQUAL(kCuEccUncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE);
  VMEM_EQUAL(kCuNvlinkUncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE);
  VMEM_EQUAL(kCuUnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
#if CUDA_VERSION >= 12080
  VMEM_EQUAL(kCuContained, CUDA_ERROR_CONTAINED);
#endif
  VMEM_EQUAL(kCuOperatingSystem, CUDA_ERROR_OPERATING_SYSTEM);
  VMEM_EQUAL(kCuInvalidHandle, CUDA_ERROR_INVALID_HANDLE);
  VMEM_EQUAL(kCuNotFound, CUDA_ERROR_NOT_FOUND);
  VMEM_EQUAL(kCuNotReady, CUDA_ERROR_NOT_READY);
  VMEM_EQUAL(kCuIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
  VMEM_EQUAL(kCuLaunchOutOfResources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  VMEM_EQUAL(kCuLaunchTimeout, CUDA_ERROR_LAUNCH_TIMEOUT);
  VMEM_EQUAL(kCuPeerAccessAlreadyEnabled, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  VMEM_EQUAL(kCuContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  VMEM_EQUAL(kCuAssert, CUDA_ERROR_ASSERT);
  VMEM_EQUAL(kCuTooManyPeers, CUDA_ERROR_TOO_MANY_PEERS);
  VMEM_EQUAL(kCuHostMemoryAlreadyRegistered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  VMEM_EQUAL(kCuHostMemoryNotRegistered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  VMEM_EQUAL(kCuHardwareStackError, CUDA_ERROR_HARDWARE_STACK_ERROR);
  VMEM_EQUAL(kCuIllegalInstruction, CUDA_ERROR_ILLEGAL_INSTRUCTION);
  VMEM_EQUAL(kCuMisalignedAddress, CUDA_ERROR_MISALIGNED_ADDRESS);
  VMEM_EQUAL(kCuInvalidAddressSpace, CUDA_ERROR_INVALID_ADDRESS_SPACE);
  VMEM_EQUAL(kCuInvalidPc, CUDA_ERROR_INVALID_PC);
  VMEM_EQUAL(kCuLaunchFailed, CUDA_ERROR_LAUNCH_FAILED);
  VMEM_EQUAL(kCuNotPermitted, CUDA_ERROR_NOT_PERMITTED);
  VMEM_EQUAL(kCuNotSupported, CUDA_ERROR_NOT_SUPPORTED);
  VMEM_EQUAL(kCuSystemNotReady, CUDA_ERROR_SYSTEM_NOT_READY);
  VMEM_EQUAL(kCuSystemDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
  VMEM_EQUAL(kCuCompatNotSupportedOnDevice, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
  VMEM_EQUAL(kCuStreamCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  VMEM_EQUAL(kCuStreamCaptureInvalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  VMEM_EQUAL(kCuStreamCaptureImplicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  VMEM_EQUAL(kCuCapturedEvent, CUDA_ERROR_CAPTURED_EVENT);
  VMEM_EQUAL(kCuTimeout, CUDA_ERROR_TIMEOUT);
  VMEM_EQUAL(kCuUnknown, CUDA_ERROR_UNKNOWN);
}

TEST(DriverAbiTest, HasTheHeadersAttributes) {
  VMEM_EQUAL(kCuAttributeMaxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  VMEM_EQUAL(kCuAttributeWarpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  VMEM_EQUAL(kCuAttributeKernelExecTimeout, CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT);
  VMEM_EQUAL(kCuAttributeIntegrated, CU_DEVICE_ATTRIBUTE_INTEGRATED);
  VMEM_EQUAL(kCuAttributePciBusId, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
  VMEM_EQUAL(kCuAttributePciDeviceId, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
  VMEM_EQUAL(kCuAttributePciDomainId, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
  VMEM_EQUAL(kCuAttributeComputeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  VMEM_EQUAL(kCuAttributeComputeCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  VMEM_EQUAL(kCuAttributeHostRegisterSupported, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
  VMEM_EQUAL(kCuAttributeVirtualMemoryManagementSupported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
#if CUDA_VERSION >= 12000
  VMEM_EQUAL(kCuAttributeCanUse64BitStreamMemOps, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
#endif
#if CUDA_VERSION >= 12020
  VMEM_EQUAL(kCuAttributeHostNumaId, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
#endif
  VMEM_EQUAL(kCuPointerContext, CU_POINTER_ATTRIBUTE_CONTEXT);
  VMEM_EQUAL(kCuPointerMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
  VMEM_EQUAL(kCuPointerDeviceOrdinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
  VMEM_EQUAL(kCuPointerRangeStart, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
  VMEM_EQUAL(kCuPointerRangeSize, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
  VMEM_EQUAL(kCuPointerMapped, CU_POINTER_ATTRIBUTE_MAPPED);
}

TEST(DriverAbiTest, HasTheHeadersFlags) {
  VMEM_EQUAL(kCuMemoryHost, CU_MEMORYTYPE_HOST);
  VMEM_EQUAL(kCuMemoryDevice, CU_MEMORYTYPE_DEVICE);
  VMEM_EQUAL(kCuCaptureGlobal, CU_STREAM_CAPTURE_MODE_GLOBAL);
  VMEM_EQUAL(kCuCaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  VMEM_EQUAL(kCuCaptureRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
  VMEM_EQUAL(kCuCaptureNone, CU_STREAM_CAPTURE_STATUS_NONE);
  VMEM_EQUAL(kCuCaptureActive, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  VMEM_EQUAL(kCuCaptureWasInvalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  VMEM_EQUAL(kCuAllocationPinned, CU_MEM_ALLOCATION_TYPE_PINNED);
  VMEM_EQUAL(kCuHandleNone, CU_MEM_HANDLE_TYPE_NONE);
  VMEM_EQUAL(kCuLocationDevice, CU_MEM_LOCATION_TYPE_DEVICE);
  VMEM_EQUAL(kCuAccessReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  VMEM_EQUAL(kCuGranularityMinimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  VMEM_EQUAL(kCuStreamNonBlocking, CU_STREAM_NON_BLOCKING);
  VMEM_EQUAL(kCuEventDisableTiming, CU_EVENT_DISABLE_TIMING);
  VMEM_EQUAL(kCuHostRegisterPortable, CU_MEMHOSTREGISTER_PORTABLE);
  VMEM_EQUAL(kCuHostRegisterDeviceMap, CU_MEMHOSTREGISTER_DEVICEMAP);
  VMEM_EQUAL(kCuStreamWaitValueGreaterOrEqual, CU_STREAM_WAIT_VALUE_GEQ);
  EXPECT_EQ(reinterpret_cast<CUstream>(kCuStreamLegacy), CU_STREAM_LEGACY);
  EXPECT_EQ(reinterpret_cast<CUstream>(kCuStreamPerThread), CU_STREAM_PER_THREAD);
}
#undef VMEM_EQUAL

TEST(DriverAbiTest, HasTheHeadersLayouts) {
#define VMEM_SAME_PLACE(ours, our_member, theirs, their_member)          \
  EXPECT_EQ(offsetof(ours, our_member), offsetof(theirs, their_member)); \
  EXPECT_EQ(sizeof(ours::our_member), sizeof(theirs::their_member))
  EXPECT_EQ(sizeof(CuUuid), sizeof(CUuuid));
  EXPECT_EQ(sizeof(CuMemLocation), sizeof(CUmemLocation));
  VMEM_SAME_PLACE(CuMemLocation, type, CUmemLocation, type);
  VMEM_SAME_PLACE(CuMemLocation, id, CUmemLocation, id);
  EXPECT_EQ(sizeof(CuMemAccessDesc), sizeof(CUmemAccessDesc));
  VMEM_SAME_PLACE(CuMemAccessDesc, location, CUmemAccessDesc, location);
  VMEM_SAME_PLACE(CuMemAccessDesc, flags, CUmemAccessDesc, flags);
  EXPECT_EQ(sizeof(CuMemAllocationProp), sizeof(CUmemAllocationProp));
  VMEM_SAME_PLACE(CuMemAllocationProp, type, CUmemAllocationProp, type);
  VMEM_SAME_PLACE(CuMemAllocationProp, requested_handle_types, CUmemAllocationProp, requestedHandleTypes);
  VMEM_SAME_PLACE(CuMemAllocationProp, location, CUmemAllocationProp, location);
  VMEM_SAME_PLACE(CuMemAllocationProp, win32_handle_meta_data, CUmemAllocationProp, win32HandleMetaData);
  VMEM_SAME_PLACE(CuMemAllocationProp, flags.compression_type, CUmemAllocationProp, allocFlags.compressionType);
  VMEM_SAME_PLACE(CuMemAllocationProp, flags.gpu_direct_rdma_capable, CUmemAllocationProp,
                  allocFlags.gpuDirectRDMACapable);
  VMEM_SAME_PLACE(CuMemAllocationProp, flags.usage, CUmemAllocationProp, allocFlags.usage);
  EXPECT_TRUE((kPassedAlike<CuDevicePtr, CUdeviceptr>));
  EXPECT_TRUE((kPassedAlike<CuMemHandle, CUmemGenericAllocationHandle>));
  EXPECT_TRUE((kPassedAlike<CuMemoryType, CUmemorytype>));
#undef VMEM_SAME_PLACE
}

}  // namespace
}  // namespace vmem
#endif
