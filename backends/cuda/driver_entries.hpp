// Every call of the driver that vmem makes, by its exported symbol: VMEM_CUDA_ENTRIES(X) expands to
// X(group, symbol, parameter types...) for each; all of them return CuResult.
//
// A missing entry of kRequired makes the backend absent. A missing one of another group takes away what needs it.
// Symbols without a suffix `_ptsz` or `_ptds` take a null stream as the legacy default stream.
#pragma once

#include "backends/cuda/driver_abi.hpp"

namespace vmem {

enum class CudaEntryGroup {
  kRequired,       // in every driver from 11.7 on
  kVirtualMemory,  // chunks and windows; the devices' attribute 102 decides as well
  kStreamSignals,  // the forms of 11.7
  kParameters,     // sizes of kernel parameters, 12.4
};

#define VMEM_CUDA_ENTRIES(X)                                                                                      \
  X(kRequired, cuInit, unsigned)                                                                                  \
  X(kRequired, cuDriverGetVersion, int*)                                                                          \
  X(kRequired, cuGetErrorName, CuResult, const char**)                                                            \
  X(kRequired, cuGetErrorString, CuResult, const char**)                                                          \
  X(kRequired, cuDeviceGetCount, int*)                                                                            \
  X(kRequired, cuDeviceGet, CuDevice*, int)                                                                       \
  X(kRequired, cuDeviceGetName, char*, int, CuDevice)                                                             \
  X(kRequired, cuDeviceGetUuid_v2, CuUuid*, CuDevice)                                                             \
  X(kRequired, cuDeviceTotalMem_v2, std::size_t*, CuDevice)                                                       \
  X(kRequired, cuDeviceGetAttribute, int*, CuDeviceAttribute, CuDevice)                                           \
  X(kRequired, cuDeviceCanAccessPeer, int*, CuDevice, CuDevice)                                                   \
  X(kRequired, cuDevicePrimaryCtxRetain, CuContext*, CuDevice)                                                    \
  X(kRequired, cuDevicePrimaryCtxRelease_v2, CuDevice)                                                            \
  X(kRequired, cuCtxPushCurrent_v2, CuContext)                                                                    \
  X(kRequired, cuCtxPopCurrent_v2, CuContext*)                                                                    \
  X(kRequired, cuCtxGetCurrent, CuContext*)                                                                       \
  X(kRequired, cuCtxEnablePeerAccess, CuContext, unsigned)                                                        \
  X(kRequired, cuMemGetInfo_v2, std::size_t*, std::size_t*)                                                       \
  X(kRequired, cuMemAlloc_v2, CuDevicePtr*, std::size_t)                                                          \
  X(kRequired, cuMemFree_v2, CuDevicePtr)                                                                         \
  X(kRequired, cuMemHostRegister_v2, void*, std::size_t, unsigned)                                                \
  X(kRequired, cuMemHostUnregister, void*)                                                                        \
  X(kRequired, cuMemHostGetDevicePointer_v2, CuDevicePtr*, void*, unsigned)                                       \
  X(kRequired, cuPointerGetAttributes, unsigned, CuPointerAttribute*, void**, CuDevicePtr)                        \
  X(kRequired, cuMemcpyHtoDAsync_v2, CuDevicePtr, const void*, std::size_t, CuStream)                             \
  X(kRequired, cuMemcpyDtoHAsync_v2, void*, CuDevicePtr, std::size_t, CuStream)                                   \
  X(kRequired, cuMemcpyDtoDAsync_v2, CuDevicePtr, CuDevicePtr, std::size_t, CuStream)                             \
  X(kRequired, cuMemcpyPeerAsync, CuDevicePtr, CuContext, CuDevicePtr, CuContext, std::size_t, CuStream)          \
  X(kRequired, cuMemsetD8Async, CuDevicePtr, unsigned char, std::size_t, CuStream)                                \
  X(kRequired, cuStreamCreate, CuStream*, unsigned)                                                               \
  X(kRequired, cuStreamDestroy_v2, CuStream)                                                                      \
  X(kRequired, cuStreamQuery, CuStream)                                                                           \
  X(kRequired, cuStreamGetCtx, CuStream, CuContext*)                                                              \
  X(kRequired, cuStreamWaitEvent, CuStream, CuEvent, unsigned)                                                    \
  X(kRequired, cuStreamIsCapturing, CuStream, CuStreamCaptureStatus*)                                             \
  X(kRequired, cuThreadExchangeStreamCaptureMode, CuStreamCaptureMode*)                                           \
  X(kRequired, cuEventCreate, CuEvent*, unsigned)                                                                 \
  X(kRequired, cuEventDestroy_v2, CuEvent)                                                                        \
  X(kRequired, cuEventRecord, CuEvent, CuStream)                                                                  \
  X(kRequired, cuEventQuery, CuEvent)                                                                             \
  X(kRequired, cuModuleLoadData, CuModule*, const void*)                                                          \
  X(kRequired, cuModuleUnload, CuModule)                                                                          \
  X(kRequired, cuModuleGetFunction, CuFunction*, CuModule, const char*)                                           \
  X(kRequired, cuLaunchKernel, CuFunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,  \
    CuStream, void**, void**)                                                                                     \
  X(kVirtualMemory, cuMemGetAllocationGranularity, std::size_t*, const CuMemAllocationProp*, CuMemGranularity)    \
  X(kVirtualMemory, cuMemCreate, CuMemHandle*, std::size_t, const CuMemAllocationProp*, unsigned long long)       \
  X(kVirtualMemory, cuMemRelease, CuMemHandle)                                                                    \
  X(kVirtualMemory, cuMemAddressReserve, CuDevicePtr*, std::size_t, std::size_t, CuDevicePtr, unsigned long long) \
  X(kVirtualMemory, cuMemAddressFree, CuDevicePtr, std::size_t)                                                   \
  X(kVirtualMemory, cuMemMap, CuDevicePtr, std::size_t, std::size_t, CuMemHandle, unsigned long long)             \
  X(kVirtualMemory, cuMemUnmap, CuDevicePtr, std::size_t)                                                         \
  X(kVirtualMemory, cuMemSetAccess, CuDevicePtr, std::size_t, const CuMemAccessDesc*, std::size_t)                \
  X(kStreamSignals, cuStreamWriteValue32_v2, CuStream, CuDevicePtr, std::uint32_t, unsigned)                      \
  X(kStreamSignals, cuStreamWaitValue32_v2, CuStream, CuDevicePtr, std::uint32_t, unsigned)                       \
  X(kParameters, cuFuncGetParamInfo, CuFunction, std::size_t, std::size_t*, std::size_t*)

}  // namespace vmem
