// The CUDA double as a program finds it: opened by its path, entries by name.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <vmem/kernel.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "backends/cuda/driver_entries.hpp"
#include "tests/doubles/cuda/abi.hpp"
#include "tests/doubles/driver/control.h"

namespace vmem {

// What a CUDA program calls besides what vmem's backend does.
#define VMEM_CUDA_TEST_ENTRIES(X)                                                             \
  X(_, cuGetProcAddress, const char*, void**, int, std::uint64_t)                             \
  X(_, cuDeviceGetPCIBusId, char*, int, CuDevice)                                             \
  X(_, cuDeviceGetByPCIBusId, CuDevice*, const char*)                                         \
  X(_, cuDeviceGetP2PAttribute, int*, int, CuDevice, CuDevice)                                \
  X(_, cuDevicePrimaryCtxReset_v2, CuDevice)                                                  \
  X(_, cuDevicePrimaryCtxGetState, CuDevice, unsigned*, int*)                                 \
  X(_, cuCtxCreate_v2, CuContext*, unsigned, CuDevice)                                        \
  X(_, cuCtxDestroy_v2, CuContext)                                                            \
  X(_, cuCtxSetCurrent, CuContext)                                                            \
  X(_, cuCtxGetDevice, CuDevice*)                                                             \
  X(_, cuCtxSynchronize)                                                                      \
  X(_, cuCtxDisablePeerAccess, CuContext)                                                     \
  X(_, cuMemHostAlloc, void**, std::size_t, unsigned)                                         \
  X(_, cuMemFreeHost, void*)                                                                  \
  X(_, cuMemGetAccess, unsigned long long*, const CuMemLocation*, CuDevicePtr)                \
  X(_, cuMemRetainAllocationHandle, CuMemHandle*, void*)                                      \
  X(_, cuMemExportToShareableHandle, void*, CuMemHandle, CuMemHandleType, unsigned long long) \
  X(_, cuMemImportFromShareableHandle, CuMemHandle*, void*, CuMemHandleType)                  \
  X(_, cuIpcGetMemHandle, void*, CuDevicePtr)                                                 \
  X(_, cuPointerGetAttribute, void*, CuPointerAttribute, CuDevicePtr)                         \
  X(_, cuMemcpyHtoD_v2, CuDevicePtr, const void*, std::size_t)                                \
  X(_, cuMemcpyDtoH_v2, void*, CuDevicePtr, std::size_t)                                      \
  X(_, cuMemcpyDtoD_v2, CuDevicePtr, CuDevicePtr, std::size_t)                                \
  X(_, cuMemcpyAsync, CuDevicePtr, CuDevicePtr, std::size_t, CuStream)                        \
  X(_, cuMemcpyPeer, CuDevicePtr, CuContext, CuDevicePtr, CuContext, std::size_t)             \
  X(_, cuMemsetD32Async, CuDevicePtr, unsigned, std::size_t, CuStream)                        \
  X(_, cuMemsetD8Async_ptsz, CuDevicePtr, unsigned char, std::size_t, CuStream)               \
  X(_, cuLaunchHostFunc, CuStream, CuHostCallback, void*)                                     \
  X(_, cuStreamSynchronize, CuStream)                                                         \
  X(_, cuEventSynchronize, CuEvent)                                                           \
  X(_, cuEventElapsedTime, float*, CuEvent, CuEvent)                                          \
  X(_, cuStreamBeginCapture_v2, CuStream, CuStreamCaptureMode)                                \
  X(_, cuStreamEndCapture, CuStream, CuGraph*)                                                \
  X(_, cuGraphInstantiateWithFlags, CuGraphExec*, CuGraph, unsigned long long)                \
  X(_, cuGraphLaunch, CuGraphExec, CuStream)                                                  \
  X(_, cuGraphDestroy, CuGraph)                                                               \
  X(_, cuGraphExecDestroy, CuGraphExec)

struct CudaLibrary {
#define VMEM_CUDA_TEST_MEMBER(group, symbol, ...) CuResult (*symbol)(__VA_ARGS__) = nullptr;
  VMEM_CUDA_ENTRIES(VMEM_CUDA_TEST_MEMBER)
  VMEM_CUDA_TEST_ENTRIES(VMEM_CUDA_TEST_MEMBER)
#undef VMEM_CUDA_TEST_MEMBER
  decltype(&vmem_double_reset) reset = nullptr;
  decltype(&vmem_double_set) set = nullptr;
  decltype(&vmem_double_inject) inject = nullptr;
  decltype(&vmem_double_clear_faults) clear_faults = nullptr;
  decltype(&vmem_double_release_hung) release_hung = nullptr;
  decltype(&vmem_double_num_hung) num_hung = nullptr;
  decltype(&vmem_double_lose_device) lose_device = nullptr;
  decltype(&vmem_double_fail_all) fail_all = nullptr;
  decltype(&vmem_double_occupy) occupy = nullptr;
  decltype(&vmem_double_calls) calls = nullptr;
  decltype(&vmem_double_count) count = nullptr;
  decltype(&vmem_double_add_kernel) add_kernel = nullptr;
  void* handle = nullptr;

  // Entries that the version does not export stay null.
  explicit CudaLibrary(const std::string& path = VMEM_CUDA_DOUBLE) {
    handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      ADD_FAILURE() << ::dlerror();
      return;
    }
    const auto take = [&](const char* symbol, auto& member) {
      member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(::dlsym(handle, symbol));
    };
#define VMEM_CUDA_TEST_TAKE(group, symbol, ...) take(#symbol, symbol);
    VMEM_CUDA_ENTRIES(VMEM_CUDA_TEST_TAKE)
    VMEM_CUDA_TEST_ENTRIES(VMEM_CUDA_TEST_TAKE)
#undef VMEM_CUDA_TEST_TAKE
    take("vmem_double_reset", reset);
    take("vmem_double_set", set);
    take("vmem_double_inject", inject);
    take("vmem_double_clear_faults", clear_faults);
    take("vmem_double_release_hung", release_hung);
    take("vmem_double_num_hung", num_hung);
    take("vmem_double_lose_device", lose_device);
    take("vmem_double_fail_all", fail_all);
    take("vmem_double_occupy", occupy);
    take("vmem_double_calls", calls);
    take("vmem_double_count", count);
    take("vmem_double_add_kernel", add_kernel);
  }
};

// A program on the double: the driver is started anew for each test, device 0's primary context is current.
class CudaDoubleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    cuda.reset();
    settings();
    ASSERT_EQ(cuda.cuInit(0), kCuSuccess);
    int count = 0;
    ASSERT_EQ(cuda.cuDeviceGetCount(&count), kCuSuccess);
    for (int device = 0; device < count; ++device) {
      CuContext context = nullptr;
      ASSERT_EQ(cuda.cuDevicePrimaryCtxRetain(&context, device), kCuSuccess);
      contexts.push_back(context);
    }
    ASSERT_EQ(cuda.cuCtxSetCurrent(contexts[0]), kCuSuccess);
  }
  void TearDown() override { cuda.reset(); }
  // What is set before the driver starts.
  virtual void settings() {}

  CuDevicePtr allocate(std::size_t bytes) {
    CuDevicePtr address = 0;
    EXPECT_EQ(cuda.cuMemAlloc_v2(&address, bytes), kCuSuccess);
    return address;
  }
  void upload(CuDevicePtr to, const std::vector<std::uint8_t>& bytes) {
    EXPECT_EQ(cuda.cuMemcpyHtoD_v2(to, bytes.data(), bytes.size()), kCuSuccess);
  }
  std::vector<std::uint8_t> download(CuDevicePtr from, std::size_t bytes) {
    std::vector<std::uint8_t> content(bytes);
    EXPECT_EQ(cuda.cuMemcpyDtoH_v2(content.data(), from, bytes), kCuSuccess);
    return content;
  }
  CuStream stream(unsigned flags = kCuStreamNonBlocking) {
    CuStream made = nullptr;
    EXPECT_EQ(cuda.cuStreamCreate(&made, flags), kCuSuccess);
    return made;
  }
  CuEvent event(unsigned flags = kCuEventDisableTiming) {
    CuEvent made = nullptr;
    EXPECT_EQ(cuda.cuEventCreate(&made, flags), kCuSuccess);
    return made;
  }
  // A kernel of the double by its name, from a module whose image is `image`.
  CuFunction function(const char* name, const char* image =
                                            "\x7f"
                                            "ELF") {
    CuModule module = nullptr;
    EXPECT_EQ(cuda.cuModuleLoadData(&module, image), kCuSuccess);
    CuFunction found = nullptr;
    EXPECT_EQ(cuda.cuModuleGetFunction(&found, module, name), kCuSuccess);
    return found;
  }
  template <typename... T>
  CuResult launch(CuFunction kernel, CuStream on, T... values) {
    void* parameters[] = {&values..., nullptr};
    return cuda.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, on, parameters, nullptr);
  }

  // A chunk of `location`, with its handle.
  CuMemHandle chunk(std::size_t bytes, int location_type, int id) {
    CuMemAllocationProp properties{};
    properties.type = kCuAllocationPinned;
    properties.location = {static_cast<CuMemLocationType>(location_type), id};
    CuMemHandle handle = 0;
    EXPECT_EQ(cuda.cuMemCreate(&handle, bytes, &properties, 0), kCuSuccess);
    return handle;
  }
  CuResult grant(CuDevicePtr address, std::size_t bytes, int location_type, int id, int flags = 3) {
    const CuMemAccessDesc access{{static_cast<CuMemLocationType>(location_type), id},
                                 static_cast<CuMemAccessFlags>(flags)};
    return cuda.cuMemSetAccess(address, bytes, &access, 1);
  }

  static std::vector<std::uint8_t> pattern(std::size_t bytes, unsigned seed) {
    std::vector<std::uint8_t> content(bytes);
    for (std::size_t i = 0; i < bytes; ++i) content[i] = static_cast<std::uint8_t>((i * 131 + (i >> 8U) + seed) % 251);
    return content;
  }

  CudaLibrary cuda;
  std::vector<CuContext> contexts;
};

}  // namespace vmem
