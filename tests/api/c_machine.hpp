// What the tests of the C API share: a runtime on two simulated GPUs, and matchers for statuses.
#pragma once

#include <gtest/gtest.h>
#include <vmem/vmem.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#define ASSERT_OK(call) ASSERT_EQ((call), vmemSuccess) << vmemGetLastErrorMessage()
#define EXPECT_OK(call) EXPECT_EQ((call), vmemSuccess) << vmemGetLastErrorMessage()

// The call fails with that status, and the message holds the text.
#define EXPECT_FAILS(status, text, call)                                            \
  do {                                                                              \
    EXPECT_EQ((call), (status)) << vmemGetLastErrorMessage();                       \
    EXPECT_NE(std::string(vmemGetLastErrorMessage()).find(text), std::string::npos) \
        << "message: " << vmemGetLastErrorMessage();                                \
  } while (false)

// A pool over sim:0, sim:1 (256 MiB each) and host memory, in blocks of 2 MiB.
class CMachine : public ::testing::Test {
 protected:
  static constexpr std::size_t kMiB = std::size_t{1} << 20U;

  void SetUp() override {
    for (const char* name : {"VMEM_TOPOLOGY", "VMEM_SIMULATED_GPUS", "VMEM_HOST_LIMIT", "VMEM_STAGING_LIMIT",
                             "VMEM_COPY_TIMEOUT_MS", "VMEM_LOG"}) {
      ::unsetenv(name);
    }
    ASSERT_OK(vmemRuntimeCreate(&runtime_, nullptr));
    ASSERT_OK(vmemFindDevice(runtime_, "sim:0", &gpu_));
    ASSERT_OK(vmemFindDevice(runtime_, "sim:1", &other_gpu_));
    ASSERT_OK(vmemFindDevice(runtime_, "host:0", &host_));
    vmemPoolOptions_t options = VMEM_POOL_OPTIONS_INIT;
    options.block_bytes = 2 * kMiB;
    ASSERT_OK(vmemPoolCreate(&pool_, runtime_, &options));
  }

  void TearDown() override {
    EXPECT_OK(vmemPoolDestroy(pool_));
    EXPECT_OK(vmemRuntimeDestroy(runtime_));
  }

  vmemAddress_t allocate(std::size_t bytes) {
    vmemAddress_t address = 0;
    EXPECT_OK(vmemMalloc(pool_, &address, bytes));
    return address;
  }

  // What the pool holds in a range.
  std::vector<unsigned char> read(vmemAddress_t address, std::size_t bytes) {
    std::vector<unsigned char> out(bytes);
    EXPECT_OK(vmemMemcpy(pool_, VMEM_HOST_ADDRESS(out.data()), address, bytes));
    return out;
  }

  void write(vmemAddress_t address, const std::vector<unsigned char>& bytes) {
    EXPECT_OK(vmemMemcpy(pool_, address, VMEM_HOST_ADDRESS(bytes.data()), bytes.size()));
  }

  static std::vector<unsigned char> pattern(std::size_t bytes, unsigned seed) {
    std::vector<unsigned char> out(bytes);
    for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<unsigned char>((i + seed) * 131 + (i >> 12U) * 7);
    return out;
  }

  vmemRuntime_t runtime_ = nullptr;
  vmemPool_t pool_ = nullptr;
  vmemDevice_t gpu_ = nullptr;
  vmemDevice_t other_gpu_ = nullptr;
  vmemDevice_t host_ = nullptr;
};
