// The double's entries against <cuda.h>, old and new forms of it. Where that is not installed there is nothing to
// compare.
#include "tests/doubles/cuda/abi.hpp"

#if __has_include(<cuda.h>)
// Declares the forms of older versions, too, under their symbols.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

namespace vmem {
namespace {

// Passed in the same way: pointers as pointers, numbers and enumerators by their size.
template <typename Ours, typename Theirs>
constexpr bool kSame = sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>;

template <typename Ours, typename Theirs>
struct SameSignature : std::false_type {};
template <typename... Ours, typename... Theirs>
struct SameSignature<CuResult(Ours...), CUresult(Theirs...)> {
  static constexpr bool compare() {
    if constexpr (sizeof...(Ours) == sizeof...(Theirs)) {
      return (kSame<Ours, Theirs> && ...);
    } else {
      return false;
    }
  }
  static constexpr bool value = compare();
};

#define VMEM_ENTRY(name, symbol, version, ...) \
  static_assert(SameSignature<CuResult(__VA_ARGS__), decltype(::symbol)>::value, #symbol);
#define VMEM_THREAD_ENTRY VMEM_ENTRY
#define VMEM_ALIAS(name, symbol, version)
#include "tests/doubles/cuda/entries.inc"
#undef VMEM_ENTRY
#undef VMEM_THREAD_ENTRY
#undef VMEM_ALIAS

TEST(CudaDoubleAbiTest, HasTheHeadersLayoutsAndValues) {
  EXPECT_EQ(sizeof(CuLaunchConfig), sizeof(CUlaunchConfig));
  EXPECT_EQ(offsetof(CuLaunchConfig, shared_bytes), offsetof(CUlaunchConfig, sharedMemBytes));
  EXPECT_EQ(offsetof(CuLaunchConfig, stream), offsetof(CUlaunchConfig, hStream));
#define VMEM_EQUAL(ours, theirs) EXPECT_EQ(static_cast<long>(ours), static_cast<long>(theirs)) << #theirs
  VMEM_EQUAL(kCuPeerAccessUnsupported, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  VMEM_EQUAL(kCuPeerAccessNotEnabled, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  VMEM_EQUAL(kCuAlreadyMapped, CUDA_ERROR_ALREADY_MAPPED);
  VMEM_EQUAL(kCuStreamCaptureMerge, CUDA_ERROR_STREAM_CAPTURE_MERGE);
  VMEM_EQUAL(kCuStreamCaptureUnmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  VMEM_EQUAL(kCuStreamCaptureUnjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  VMEM_EQUAL(kCuStreamCaptureIsolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  VMEM_EQUAL(kCuStreamCaptureWrongThread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  VMEM_EQUAL(kCuLocationHostNuma, CU_MEM_LOCATION_TYPE_HOST_NUMA);
  VMEM_EQUAL(kCuLocationHost, CU_MEM_LOCATION_TYPE_HOST);
  VMEM_EQUAL(kCuLocationHostNumaCurrent, CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT);
  VMEM_EQUAL(kCuHandlePosixFd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  VMEM_EQUAL(141, CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
  VMEM_EQUAL(103, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
  VMEM_EQUAL(91, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
  VMEM_EQUAL(122, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
  VMEM_EQUAL(2, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED);
#undef VMEM_EQUAL
}

}  // namespace
}  // namespace vmem
#endif
