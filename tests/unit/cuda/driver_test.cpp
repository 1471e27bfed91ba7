// Drivers that can't be worked with: the backend is absent, and says why.
#include "backends/cuda/driver.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "backends/cuda/cuda_backend.hpp"

namespace vmem {
namespace {

std::string reason(const std::string& library) {
  CudaOptions options;
  options.driver_library = library;
  const auto backend = create_cuda_backend(BackendConfig(), options);
  EXPECT_FALSE(backend);
  EXPECT_EQ(backend.error().code(), StatusCode::kUnsupported) << backend.error().to_string();
  return backend.error().to_string();
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nhas no: " << part;
}

TEST(DriverTest, SaysThatThereIsNone) {
  expect_contains(reason("/nowhere/libcuda.so.1"), "no NVIDIA driver: /nowhere/libcuda.so.1");
  expect_contains(reason("libcuda-of-no-machine.so.1"), "no NVIDIA driver");
}

TEST(DriverTest, SaysThatALibraryIsNoDriver) {
  expect_contains(reason(VMEM_NO_DRIVER), "is no CUDA driver: it has no cuInit");
}

TEST(DriverTest, KnowsTheToolkitsStub) {
  const std::string text = reason(VMEM_STUB_DRIVER);
  expect_contains(text, "is the CUDA toolkit's stub, not a driver");
  expect_contains(text, "(34)");
}

TEST(DriverTest, AsksForANewerDriver) {
  expect_contains(reason(VMEM_OLD_DRIVER), "is for CUDA 11.4: vmem needs one for 11.7 or newer");
}

TEST(DriverTest, SaysThatNoGpuIsVisible) {
  ::setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
  expect_contains(reason(VMEM_EMPTY_DRIVER), "sees no NVIDIA GPU (CUDA_VISIBLE_DEVICES='-1')");
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  expect_contains(reason(VMEM_EMPTY_DRIVER), "the driver sees no NVIDIA GPU");
}

TEST(DriverTest, NamesTheErrorOfADriverThatDoesNotStart) {
  const std::string text = reason(VMEM_BROKEN_DRIVER);
  expect_contains(text, "does not start: CUDA_ERROR_UNKNOWN");
  expect_contains(text, "(999)");
}

TEST(DriverTest, NamesTheCallThatADriverLacks) {
  expect_contains(reason(VMEM_INCOMPLETE_DRIVER), "for CUDA 12.4 has no cuGetErrorString; update it");
}

TEST(DriverTest, TellsErrorsThatEndADeviceOrAllOfThem) {
  for (const CuResult result : {kCuIllegalAddress, kCuLaunchFailed, kCuDeinitialized, kCuEccUncorrectable, kCuAssert}) {
    EXPECT_EQ(failure_of(result), CudaFailure::kProcess) << result;
  }
  for (const CuResult result : {kCuNoDevice, kCuDeviceUnavailable}) {
    EXPECT_EQ(failure_of(result), CudaFailure::kDevice) << result;
  }
  for (const CuResult result : {kCuSuccess, kCuInvalidValue, kCuOutOfMemory, kCuNotReady, kCuNotFound}) {
    EXPECT_EQ(failure_of(result), CudaFailure::kNone) << result;
  }
}

}  // namespace
}  // namespace vmem
