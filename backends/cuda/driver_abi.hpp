// The part of the CUDA driver's ABI that vmem uses, in declarations of its own: it builds without an SDK and holds for
// CUDA 11.7 to 13. tests/unit/cuda/driver_abi_test.cpp compares all of it with <cuda.h> where that is installed.
//
// Structs and values are named after the driver's (CUmemLocation: CuMemLocation). driver_entries.hpp lists the calls.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vmem {

using CuDevice = int;
using CuDevicePtr = std::uint64_t;
using CuMemHandle = std::uint64_t;

// Handles are pointers to what only the driver knows.
using CuContext = struct CuContextObject*;
using CuStream = struct CuStreamObject*;
using CuEvent = struct CuEventObject*;
using CuModule = struct CuModuleObject*;
using CuFunction = struct CuFunctionObject*;

enum CuResult : int {
  kCuSuccess = 0,
  kCuInvalidValue = 1,
  kCuOutOfMemory = 2,
  kCuNotInitialized = 3,
  kCuDeinitialized = 4,
  kCuStubLibrary = 34,
  kCuDeviceUnavailable = 46,
  kCuNoDevice = 100,
  kCuInvalidDevice = 101,
  kCuDeviceNotLicensed = 102,
  kCuInvalidImage = 200,
  kCuInvalidContext = 201,
  kCuNoBinaryForGpu = 209,
  kCuEccUncorrectable = 214,
  kCuNvlinkUncorrectable = 220,
  kCuUnsupportedPtxVersion = 222,
  kCuContained = 226,
  kCuOperatingSystem = 304,
  kCuInvalidHandle = 400,
  kCuNotFound = 500,
  kCuNotReady = 600,
  kCuIllegalAddress = 700,
  kCuLaunchOutOfResources = 701,
  kCuLaunchTimeout = 702,
  kCuPeerAccessAlreadyEnabled = 704,
  kCuContextIsDestroyed = 709,
  kCuAssert = 710,
  kCuTooManyPeers = 711,
  kCuHostMemoryAlreadyRegistered = 712,
  kCuHostMemoryNotRegistered = 713,
  kCuHardwareStackError = 714,
  kCuIllegalInstruction = 715,
  kCuMisalignedAddress = 716,
  kCuInvalidAddressSpace = 717,
  kCuInvalidPc = 718,
  kCuLaunchFailed = 719,
  kCuNotPermitted = 800,
  kCuNotSupported = 801,
  kCuSystemNotReady = 802,
  kCuSystemDriverMismatch = 803,
  kCuCompatNotSupportedOnDevice = 804,
  kCuStreamCaptureUnsupported = 900,
  kCuStreamCaptureInvalidated = 901,
  kCuStreamCaptureImplicit = 906,
  kCuCapturedEvent = 907,
  kCuTimeout = 909,
  kCuUnknown = 999,
};

enum CuDeviceAttribute : int {
  kCuAttributeMaxThreadsPerBlock = 1,
  kCuAttributeWarpSize = 10,
  kCuAttributeKernelExecTimeout = 17,
  kCuAttributeIntegrated = 18,
  kCuAttributePciBusId = 33,
  kCuAttributePciDeviceId = 34,
  kCuAttributePciDomainId = 50,
  kCuAttributeComputeCapabilityMajor = 75,
  kCuAttributeComputeCapabilityMinor = 76,
  kCuAttributeHostRegisterSupported = 99,
  kCuAttributeVirtualMemoryManagementSupported = 102,
  kCuAttributeCanUse64BitStreamMemOps = 122,
  kCuAttributeHostNumaId = 134,
};

enum CuPointerAttribute : int {
  kCuPointerContext = 1,
  kCuPointerMemoryType = 2,
  kCuPointerDeviceOrdinal = 9,
  kCuPointerRangeStart = 11,
  kCuPointerRangeSize = 12,
  kCuPointerMapped = 13,
};

enum CuMemoryType : unsigned { kCuMemoryHost = 1, kCuMemoryDevice = 2 };

enum CuStreamCaptureMode : int { kCuCaptureGlobal = 0, kCuCaptureThreadLocal = 1, kCuCaptureRelaxed = 2 };
enum CuStreamCaptureStatus : int { kCuCaptureNone = 0, kCuCaptureActive = 1, kCuCaptureWasInvalidated = 2 };

enum CuMemAllocationType : int { kCuAllocationPinned = 1 };
enum CuMemHandleType : int { kCuHandleNone = 0 };
enum CuMemLocationType : int { kCuLocationDevice = 1 };
enum CuMemAccessFlags : int { kCuAccessReadWrite = 3 };
enum CuMemGranularity : int { kCuGranularityMinimum = 0 };

inline constexpr unsigned kCuStreamNonBlocking = 1;
inline constexpr unsigned kCuEventDisableTiming = 2;
inline constexpr unsigned kCuHostRegisterPortable = 1;
inline constexpr unsigned kCuHostRegisterDeviceMap = 2;
inline constexpr unsigned kCuStreamWaitValueGreaterOrEqual = 0;

// The default streams, as handles. Null is the legacy one too, unless a program is compiled for per-thread streams; the
// entries that vmem calls are those that take null as the legacy one.
inline constexpr std::uintptr_t kCuStreamLegacy = 1;
inline constexpr std::uintptr_t kCuStreamPerThread = 2;

struct CuUuid {
  char bytes[16];
};

struct CuMemLocation {
  CuMemLocationType type;
  int id;  // a device's ordinal
};

struct CuMemAllocationProp {
  CuMemAllocationType type;
  CuMemHandleType requested_handle_types;
  CuMemLocation location;
  void* win32_handle_meta_data;
  struct {
    unsigned char compression_type;
    unsigned char gpu_direct_rdma_capable;
    unsigned short usage;
    unsigned char reserved[4];
  } flags;
};

struct CuMemAccessDesc {
  CuMemLocation location;
  CuMemAccessFlags flags;
};

}  // namespace vmem
