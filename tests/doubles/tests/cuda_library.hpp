// The CUDA double as a program finds it: opened by its path, entries by name.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <vmem/kernel.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/doubles/cuda/abi.hpp"
#include "tests/doubles/driver/control.h"

namespace vmem {

struct CudaLibrary {
#define VMEM_ENTRY(name, symbol, version, ...) CuResult (*symbol)(__VA_ARGS__) = nullptr;
#define VMEM_THREAD_ENTRY(name, symbol, version, ...) CuResult (*symbol)(__VA_ARGS__) = nullptr;
#define VMEM_ALIAS(name, symbol, version)
#include "tests/doubles/cuda/entries.inc"
#undef VMEM_ENTRY
#undef VMEM_THREAD_ENTRY
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
#define VMEM_ENTRY(name, symbol, version, ...) take(#symbol, symbol);
#define VMEM_THREAD_ENTRY(name, symbol, version, ...) take(#symbol, symbol);
#include "tests/doubles/cuda/entries.inc"
#undef VMEM_ENTRY
#undef VMEM_THREAD_ENTRY
#undef VMEM_ALIAS
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
    cuda_.reset();
    settings();
    ASSERT_EQ(cuda_.cuInit(0), kCuSuccess);
    int count = 0;
    ASSERT_EQ(cuda_.cuDeviceGetCount(&count), kCuSuccess);
    for (int device = 0; device < count; ++device) {
      CuContext context = nullptr;
      ASSERT_EQ(cuda_.cuDevicePrimaryCtxRetain(&context, device), kCuSuccess);
      contexts_.push_back(context);
    }
    ASSERT_EQ(cuda_.cuCtxSetCurrent(contexts_[0]), kCuSuccess);
  }
  void TearDown() override { cuda_.reset(); }
  // What is set before the driver starts.
  virtual void settings() {}

  CuDevicePtr allocate(std::size_t bytes) {
    CuDevicePtr address = 0;
    EXPECT_EQ(cuda_.cuMemAlloc_v2(&address, bytes), kCuSuccess);
    return address;
  }
  void upload(CuDevicePtr to, const std::vector<std::uint8_t>& bytes) {
    EXPECT_EQ(cuda_.cuMemcpyHtoD_v2(to, bytes.data(), bytes.size()), kCuSuccess);
  }
  std::vector<std::uint8_t> download(CuDevicePtr from, std::size_t bytes) {
    std::vector<std::uint8_t> content(bytes);
    EXPECT_EQ(cuda_.cuMemcpyDtoH_v2(content.data(), from, bytes), kCuSuccess);
    return content;
  }
  CuStream stream(unsigned flags = kCuStreamNonBlocking) {
    CuStream made = nullptr;
    EXPECT_EQ(cuda_.cuStreamCreate(&made, flags), kCuSuccess);
    return made;
  }
  CuEvent event(unsigned flags = kCuEventDisableTiming) {
    CuEvent made = nullptr;
    EXPECT_EQ(cuda_.cuEventCreate(&made, flags), kCuSuccess);
    return made;
  }
  // A kernel of the double by its name, from a module whose image is `image`.
  CuFunction function(const char* name, const char* image =
                                            "\x7f"
                                            "ELF") {
    CuModule module = nullptr;
    EXPECT_EQ(cuda_.cuModuleLoadData(&module, image), kCuSuccess);
    CuFunction found = nullptr;
    EXPECT_EQ(cuda_.cuModuleGetFunction(&found, module, name), kCuSuccess);
    return found;
  }
  template <typename... T>
  CuResult launch(CuFunction kernel, CuStream on, T... values) {
    void* parameters[] = {&values..., nullptr};
    return cuda_.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, on, parameters, nullptr);
  }

  // A chunk of `location`, with its handle.
  CuMemHandle chunk(std::size_t bytes, int location_type, int id) {
    CuMemAllocationProp properties{};
    properties.type = kCuAllocationPinned;
    properties.location = {static_cast<CuMemLocationType>(location_type), id};
    CuMemHandle handle = 0;
    EXPECT_EQ(cuda_.cuMemCreate(&handle, bytes, &properties, 0), kCuSuccess);
    return handle;
  }
  CuResult grant(CuDevicePtr address, std::size_t bytes, int location_type, int id, int flags = 3) {
    const CuMemAccessDesc access{{static_cast<CuMemLocationType>(location_type), id},
                                 static_cast<CuMemAccessFlags>(flags)};
    return cuda_.cuMemSetAccess(address, bytes, &access, 1);
  }

  static std::vector<std::uint8_t> pattern(std::size_t bytes, unsigned seed) {
    std::vector<std::uint8_t> content(bytes);
    for (std::size_t i = 0; i < bytes; ++i) content[i] = static_cast<std::uint8_t>((i * 131 + (i >> 8U) + seed) % 251);
    return content;
  }

  CudaLibrary cuda_;
  std::vector<CuContext> contexts_;
};

}  // namespace vmem
