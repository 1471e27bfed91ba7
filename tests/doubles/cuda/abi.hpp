// What a CUDA program uses of the driver's ABI beyond what vmem's backend declares.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/driver_abi.hpp"

namespace vmem {

using CuGraph = struct CuGraphObject*;
using CuGraphExec = struct CuGraphExecObject*;
using CuMemoryPool = struct CuMemoryPoolObject*;
using CuHostCallback = void (*)(void* argument);
using CuStreamCallback = void (*)(CuStream stream, CuResult result, void* argument);

// Codes that vmem itself does not tell apart.
inline constexpr int kCuPeerAccessUnsupported = 217;
inline constexpr int kCuPeerAccessNotEnabled = 705;
inline constexpr int kCuAlreadyMapped = 208;
inline constexpr int kCuStreamCaptureMerge = 902;
inline constexpr int kCuStreamCaptureUnmatched = 903;
inline constexpr int kCuStreamCaptureUnjoined = 904;
inline constexpr int kCuStreamCaptureIsolation = 905;
inline constexpr int kCuStreamCaptureWrongThread = 908;

struct CuLaunchConfig {
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  CuStream stream;
  void* attributes;
  unsigned num_attributes;
};

inline constexpr int kCuLocationHost = 2;
inline constexpr int kCuLocationHostNuma = 3;
inline constexpr int kCuLocationHostNumaCurrent = 4;
inline constexpr int kCuHandlePosixFd = 1;

}  // namespace vmem
