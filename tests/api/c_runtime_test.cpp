#include <cstring>
#include <mutex>
#include <set>

#include "tests/api/c_machine.hpp"

namespace {

class CRuntimeTest : public CMachine {};

TEST_F(CRuntimeTest, DevicesAreFoundByIndexAndByName) {
  int count = 0;
  ASSERT_OK(vmemGetDeviceCount(runtime_, &count));
  ASSERT_GE(count, 3);
  std::set<std::string> names;
  for (int i = 0; i < count; ++i) {
    vmemDevice_t device = nullptr;
    ASSERT_OK(vmemGetDevice(runtime_, i, &device));
    vmemDeviceInfo_t info = VMEM_DEVICE_INFO_INIT;
    ASSERT_OK(vmemGetDeviceInfo(device, &info));
    EXPECT_EQ(info.index, i);
    EXPECT_GT(info.total_bytes, 0U);
    EXPECT_LE(info.limit_bytes, info.total_bytes);
    vmemDevice_t same = nullptr;
    ASSERT_OK(vmemFindDevice(runtime_, info.name, &same));
    EXPECT_EQ(same, device);
    names.insert(info.name);
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(count));
}

TEST_F(CRuntimeTest, ADevicesInfoIsFilled) {
  vmemDeviceInfo_t info = VMEM_DEVICE_INFO_INIT;
  ASSERT_OK(vmemGetDeviceInfo(gpu_, &info));
  EXPECT_STREQ(info.name, "sim:0");
  EXPECT_STREQ(info.backend, "host");
  EXPECT_STRNE(info.uuid, "");
  EXPECT_EQ(info.tier, vmemTierDevice);
  EXPECT_EQ(info.simulated, 1);
  EXPECT_EQ(info.total_bytes, 256 * kMiB);
  EXPECT_EQ(info.wave_width, 32U);
  EXPECT_NE(info.caps, 0U);
  ASSERT_OK(vmemGetDeviceInfo(host_, &info));
  EXPECT_EQ(info.tier, vmemTierHost);
  EXPECT_EQ(info.simulated, 0);
}

TEST_F(CRuntimeTest, MemoryInfoTakesEitherFigure) {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  ASSERT_OK(vmemMemGetInfo(gpu_, &free_bytes, &total_bytes));
  EXPECT_LE(free_bytes, total_bytes);
  EXPECT_EQ(total_bytes, 256 * kMiB);
  EXPECT_OK(vmemMemGetInfo(gpu_, &free_bytes, nullptr));
  EXPECT_OK(vmemMemGetInfo(gpu_, nullptr, &total_bytes));
  EXPECT_FAILS(vmemErrorInvalidValue, "NULL", vmemMemGetInfo(gpu_, nullptr, nullptr));
  EXPECT_FAILS(vmemErrorInvalidValue, "'device' is NULL", vmemMemGetInfo(nullptr, &free_bytes, nullptr));
}

TEST_F(CRuntimeTest, UnknownDevicesAreRefused) {
  vmemDevice_t device = gpu_;
  EXPECT_FAILS(vmemErrorNotFound, "sim:0", vmemFindDevice(runtime_, "cuda:77", &device));
  EXPECT_EQ(device, nullptr);
  device = gpu_;
  EXPECT_FAILS(vmemErrorInvalidValue, "device 99", vmemGetDevice(runtime_, 99, &device));
  EXPECT_EQ(device, nullptr);
  EXPECT_FAILS(vmemErrorInvalidValue, "device -1", vmemGetDevice(runtime_, -1, &device));
}

TEST_F(CRuntimeTest, AbsentBackendsHaveNames) {
  const char* name = "x";
  const char* reason = "x";
  // Past the last there is nothing; this build's own backends are all there.
  EXPECT_FAILS(vmemErrorNotFound, "none has index 1000", vmemGetAbsentBackend(runtime_, 1000, &name, &reason));
  EXPECT_EQ(name, nullptr);
  EXPECT_EQ(reason, nullptr);
  for (size_t i = 0; vmemGetAbsentBackend(runtime_, i, &name, &reason) == vmemSuccess; ++i) {
    EXPECT_STRNE(name, "host");
    EXPECT_STRNE(reason, "");
  }
}

TEST_F(CRuntimeTest, StreamsBelongToTheirDevice) {
  vmemStream_t stream = nullptr;
  ASSERT_OK(vmemStreamCreate(gpu_, &stream));
  EXPECT_OK(vmemStreamSynchronize(gpu_, stream));
  EXPECT_EQ(vmemStreamSynchronize(other_gpu_, stream), vmemErrorInvalidValue);
  EXPECT_EQ(vmemStreamDestroy(other_gpu_, stream), vmemErrorInvalidValue);
  EXPECT_OK(vmemStreamDestroy(gpu_, stream));
  EXPECT_EQ(vmemStreamDestroy(gpu_, stream), vmemErrorInvalidValue);
}

TEST_F(CRuntimeTest, ARuntimeWithPoolsStays) {
  EXPECT_FAILS(vmemErrorBusy, "1 pools", vmemRuntimeDestroy(runtime_));
  int count = 0;
  EXPECT_OK(vmemGetDeviceCount(runtime_, &count));
}

struct Lines {
  std::mutex mutex;
  std::vector<std::string> lines;
};

void keep_line(vmemLogLevel_t level, const char* message, void* user) {
  auto& lines = *static_cast<Lines*>(user);
  const std::lock_guard lock(lines.mutex);
  lines.lines.push_back(std::to_string(level) + ' ' + message);
}

TEST_F(CRuntimeTest, TheLogGoesToTheCallback) {
  Lines lines;
  vmemRuntimeOptions_t options = VMEM_RUNTIME_OPTIONS_INIT;
  options.log_level = vmemLogDebug;
  options.log = keep_line;
  options.log_user = &lines;
  vmemRuntime_t runtime = nullptr;
  ASSERT_OK(vmemRuntimeCreate(&runtime, &options));
  ASSERT_OK(vmemRuntimeDestroy(runtime));
  EXPECT_FALSE(lines.lines.empty());
}

TEST_F(CRuntimeTest, OptionsReachTheRuntime) {
  vmemRuntimeOptions_t options = VMEM_RUNTIME_OPTIONS_INIT;
  options.simulated_gpus = 3;
  vmemRuntime_t runtime = nullptr;
  ASSERT_OK(vmemRuntimeCreate(&runtime, &options));
  vmemDevice_t device = nullptr;
  EXPECT_OK(vmemFindDevice(runtime, "sim:2", &device));
  ASSERT_OK(vmemRuntimeDestroy(runtime));
}

TEST_F(CRuntimeTest, WrongOptionsAreConfigErrors) {
  vmemRuntime_t runtime = nullptr;
  const auto refused = [&](const char* text, auto change) {
    vmemRuntimeOptions_t options = VMEM_RUNTIME_OPTIONS_INIT;
    change(options);
    runtime = reinterpret_cast<vmemRuntime_t>(&options);
    const vmemStatus_t status = vmemRuntimeCreate(&runtime, &options);
    EXPECT_NE(std::string(vmemGetLastErrorMessage()).find(text), std::string::npos) << vmemGetLastErrorMessage();
    EXPECT_EQ(runtime, nullptr);
    return status;
  };
  EXPECT_EQ(refused("simulated_gpus", [](auto& o) { o.simulated_gpus = -2; }), vmemErrorConfig);
  EXPECT_EQ(refused("simulated_gpus", [](auto& o) { o.simulated_gpus = 1 << 20; }), vmemErrorConfig);
  EXPECT_EQ(refused("staging_bytes", [](auto& o) { o.staging_bytes = 1; }), vmemErrorConfig);
  EXPECT_EQ(refused("copy_timeout", [](auto& o) { o.copy_timeout_ms = UINT64_MAX; }), vmemErrorConfig);
  EXPECT_EQ(refused("no/such/file", [](auto& o) { o.topology_file = "/no/such/file"; }), vmemErrorConfig);
  EXPECT_EQ(refused("backend_dir", [](auto& o) { o.backend_dir = "/no/such/dir"; }), vmemErrorConfig);
  EXPECT_EQ(refused("log_level",
                    [](auto& o) {
                      const int wrong = 17;
                      std::memcpy(&o.log_level, &wrong, sizeof(wrong));
                    }),
            vmemErrorInvalidValue);
}

TEST_F(CRuntimeTest, WrongEnvironmentIsAConfigError) {
  ASSERT_EQ(::setenv("VMEM_SIMULATED_GPUS", "several", 1), 0);
  vmemRuntime_t runtime = nullptr;
  EXPECT_FAILS(vmemErrorConfig, "VMEM_SIMULATED_GPUS='several'", vmemRuntimeCreate(&runtime, nullptr));
  // A pool that opens its own runtime says the same.
  vmemPool_t pool = nullptr;
  EXPECT_FAILS(vmemErrorConfig, "VMEM_SIMULATED_GPUS='several'", vmemPoolCreate(&pool, nullptr, nullptr));
  EXPECT_EQ(pool, nullptr);
  ::unsetenv("VMEM_SIMULATED_GPUS");
}

// -- Structs of other headers ----------------------------------------------------------------------------------------

TEST_F(CRuntimeTest, AnOldProgramsShorterOptionsGetDefaults) {
  vmemRuntimeOptions_t options;
  std::memset(&options, 0xEE, sizeof(options));  // what lies behind the old struct is not vmem's to read
  options.struct_size = offsetof(vmemRuntimeOptions_t, simulated_gpus);
  options.topology_file = nullptr;
  options.backend_dir = nullptr;
  vmemRuntime_t runtime = nullptr;
  ASSERT_OK(vmemRuntimeCreate(&runtime, &options));
  EXPECT_OK(vmemRuntimeDestroy(runtime));
}

struct NewerOptions {
  vmemRuntimeOptions_t known;
  uint64_t later;
};

TEST_F(CRuntimeTest, ANewProgramsLongerOptionsMustBeZero) {
  NewerOptions options = {VMEM_RUNTIME_OPTIONS_INIT, 0};
  options.known.struct_size = sizeof(options);
  vmemRuntime_t runtime = nullptr;
  ASSERT_OK(vmemRuntimeCreate(&runtime, &options.known));
  EXPECT_OK(vmemRuntimeDestroy(runtime));
  options.later = 1;
  EXPECT_FAILS(vmemErrorUnsupported, "vmemRuntimeOptions_t", vmemRuntimeCreate(&runtime, &options.known));
}

TEST_F(CRuntimeTest, AStructSizeThatCanNotBeOneIsRefused) {
  vmemRuntimeOptions_t options = VMEM_RUNTIME_OPTIONS_INIT;
  vmemRuntime_t runtime = nullptr;
  for (const size_t size : {size_t{0}, size_t{7}, size_t{5000}, SIZE_MAX}) {
    options.struct_size = size;
    EXPECT_FAILS(vmemErrorInvalidValue, "struct_size", vmemRuntimeCreate(&runtime, &options));
    vmemDeviceInfo_t info = VMEM_DEVICE_INFO_INIT;
    info.struct_size = size;
    EXPECT_FAILS(vmemErrorInvalidValue, "struct_size", vmemGetDeviceInfo(gpu_, &info));
  }
}

TEST_F(CRuntimeTest, InfoStructsOfAnySizeAreFilledAsFarAsTheyGo) {
  vmemDeviceInfo_t small;
  std::memset(&small, 0xEE, sizeof(small));
  small.struct_size = offsetof(vmemDeviceInfo_t, backend);
  ASSERT_OK(vmemGetDeviceInfo(gpu_, &small));
  EXPECT_STREQ(small.name, "sim:0");
  EXPECT_EQ(static_cast<unsigned char>(small.backend[0]), 0xEE);
  struct {
    vmemDeviceInfo_t known;
    uint64_t later;
  } large;
  std::memset(&large, 0xEE, sizeof(large));
  large.known.struct_size = sizeof(large);
  ASSERT_OK(vmemGetDeviceInfo(gpu_, &large.known));
  EXPECT_STREQ(large.known.name, "sim:0");
  EXPECT_EQ(large.known.struct_size, sizeof(large));
  EXPECT_EQ(large.later, 0U);
}

}  // namespace
