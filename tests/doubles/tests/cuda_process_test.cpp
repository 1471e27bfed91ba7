// The CUDA double and its process: versions, libraries that are no driver, visible devices, forks, the end.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "tests/doubles/tests/cuda_library.hpp"

namespace vmem {
namespace {

// The driver is not started by these tests' fixture.
class CudaDoubleProcessTest : public ::testing::Test {
 protected:
  void SetUp() override { cuda_.reset(); }
  void TearDown() override {
    ::unsetenv("CUDA_VISIBLE_DEVICES");
    cuda_.reset();
  }
  int visible_devices(const char* variable) {
    cuda_.reset();
    EXPECT_EQ(cuda_.set("devices", "4"), 0);
    ::setenv("CUDA_VISIBLE_DEVICES", variable, 1);
    const CuResult result = cuda_.cuInit(0);
    int count = 0;
    if (result == kCuSuccess) {
      EXPECT_EQ(cuda_.cuDeviceGetCount(&count), kCuSuccess);
    }
    EXPECT_EQ(result, count == 0 ? kCuNoDevice : kCuSuccess);
    return count;
  }
  std::string uuid_of(CuDevice device) {
    CuUuid uuid{};
    EXPECT_EQ(cuda_.cuDeviceGetUuid_v2(&uuid, device), kCuSuccess);
    return std::string(uuid.bytes, sizeof uuid.bytes);
  }
  // Runs in a child; its answer is the exit status.
  template <typename Body>
  static int in_child(Body body) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(body());
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  CudaLibrary cuda_;
};

TEST_F(CudaDoubleProcessTest, NothingWorksBeforeItIsInitialised) {
  int count = 0;
  EXPECT_EQ(cuda_.cuDeviceGetCount(&count), kCuNotInitialized);
  int version = 0;
  EXPECT_EQ(cuda_.cuDriverGetVersion(&version), kCuSuccess);
  EXPECT_EQ(version, 13000);
  EXPECT_EQ(cuda_.cuInit(1), kCuInvalidValue);
  EXPECT_EQ(cuda_.cuInit(0), kCuSuccess);
  EXPECT_EQ(cuda_.cuDeviceGetCount(&count), kCuSuccess);
  EXPECT_EQ(count, 2);
  std::size_t free = 0, total = 0;
  EXPECT_EQ(cuda_.cuMemGetInfo_v2(&free, &total), kCuInvalidContext);
}

TEST_F(CudaDoubleProcessTest, IsWhatItIsSetToBe) {
  const char* name = nullptr;
  int version = 0, count = 0;
  ASSERT_EQ(cuda_.set("personality", "stub"), 0);
  EXPECT_EQ(cuda_.cuInit(0), kCuStubLibrary);
  EXPECT_EQ(cuda_.cuDriverGetVersion(&version), kCuStubLibrary);
  EXPECT_EQ(cuda_.cuDeviceGetCount(&count), kCuStubLibrary);
  EXPECT_EQ(cuda_.cuGetErrorName(kCuStubLibrary, &name), kCuStubLibrary);
  ASSERT_EQ(cuda_.set("personality", "no_device"), 0);
  EXPECT_EQ(cuda_.cuInit(0), kCuNoDevice);
  ASSERT_EQ(cuda_.set("personality", "broken_init"), 0);
  EXPECT_EQ(cuda_.cuInit(0), kCuUnknown);
  ASSERT_EQ(cuda_.set("version", "11040"), 0);
  EXPECT_EQ(cuda_.cuDriverGetVersion(&version), kCuSuccess);
  EXPECT_EQ(version, 11040);
  EXPECT_EQ(cuda_.set("version", "new"), -1);
  EXPECT_EQ(cuda_.set("colour", "red"), -1);
}

struct Exported {
  int version;
  const char* folder;
  bool parameters;   // 12.4
  bool identifiers;  // 12.0
  bool host_chunks;  // 12.2
};

class CudaDoubleVersionTest : public ::testing::TestWithParam<Exported> {};

TEST_P(CudaDoubleVersionTest, ExportsWhatThatVersionHas) {
  const auto& [expected, folder, parameters, identifiers, host_chunks] = GetParam();
  CudaLibrary cuda(std::string(VMEM_CUDA_DOUBLE_FOLDER) + folder + "/libcuda.so.1");
  int version = 0;
  ASSERT_EQ(cuda.cuDriverGetVersion(&version), kCuSuccess);
  EXPECT_EQ(version, expected);
  EXPECT_EQ(cuda.cuFuncGetParamInfo != nullptr, parameters);
  EXPECT_EQ(::dlsym(cuda.handle, "cuCtxGetId") != nullptr, identifiers);
  EXPECT_EQ(::dlsym(cuda.handle, "cuGetProcAddress_v2") != nullptr, identifiers);
  EXPECT_EQ(::dlsym(cuda.handle, "cuEventElapsedTime_v2") != nullptr, expected >= 12080);
  EXPECT_NE(cuda.cuStreamWaitValue32_v2, nullptr);
  EXPECT_NE(cuda.cuMemCreate, nullptr);
  void* address = nullptr;
  EXPECT_EQ(cuda.cuGetProcAddress("cuFuncGetParamInfo", &address, 13000, 0), parameters ? kCuSuccess : kCuNotFound);

  ASSERT_EQ(cuda.cuInit(0), kCuSuccess);
  CuMemAllocationProp properties{};
  properties.type = kCuAllocationPinned;
  properties.location = {static_cast<CuMemLocationType>(kCuLocationHostNuma), 0};
  CuMemHandle chunk = 0;
  EXPECT_EQ(cuda.cuMemCreate(&chunk, std::size_t{2} << 20U, &properties, 0),
            host_chunks ? kCuSuccess : kCuInvalidValue);
  int supported = 0;
  const CuResult known = cuda.cuDeviceGetAttribute(&supported, static_cast<CuDeviceAttribute>(141), 0);
  EXPECT_EQ(known, host_chunks ? kCuSuccess : kCuInvalidValue);
  EXPECT_EQ(supported, host_chunks ? 1 : 0);
}

INSTANTIATE_TEST_SUITE_P(
    Versions, CudaDoubleVersionTest,
    ::testing::Values(Exported{11070, "/11070", false, false, false}, Exported{12000, "/12000", false, true, false},
                      Exported{12020, "/12020", false, true, true}, Exported{12040, "/12040", true, true, true},
                      Exported{12080, "/12080", true, true, true}, Exported{13000, "", true, true, true}),
    [](const auto& each) { return "Cuda" + std::to_string(each.param.version); });

TEST_F(CudaDoubleProcessTest, LooksEntriesUpByNameVersionAndStream) {
  void* address = nullptr;
  const auto get = cuda_.cuGetProcAddress_v2;
  ASSERT_NE(get, nullptr);
  int status = -1;
  EXPECT_EQ(get("cuMemAlloc", &address, 12000, 0, &status), kCuSuccess);
  EXPECT_EQ(address, ::dlsym(cuda_.handle, "cuMemAlloc_v2"));
  EXPECT_EQ(status, 0);
  EXPECT_EQ(get("cuMemAlloc_v2", &address, 12000, 0, &status), kCuNotFound) << "names have no suffix here";
  EXPECT_EQ(address, nullptr);
  EXPECT_EQ(status, 1);
  EXPECT_EQ(get("cuFuncGetParamInfo", &address, 12000, 0, &status), kCuNotFound);
  EXPECT_EQ(status, 2) << "the caller is too old for it";
  EXPECT_EQ(get("", &address, 12000, 0, nullptr), kCuNotFound);
  EXPECT_EQ(get("cuMemcpyHtoDAsync", &address, 12000, 2, nullptr), kCuSuccess);
  EXPECT_EQ(address, ::dlsym(cuda_.handle, "cuMemcpyHtoDAsync_v2_ptsz"));
  EXPECT_EQ(get("cuMemAlloc", &address, 12000, 2, nullptr), kCuSuccess);
  EXPECT_EQ(get("cuGetProcAddress", &address, 11030, 0, nullptr), kCuSuccess);
  EXPECT_EQ(address, ::dlsym(cuda_.handle, "cuGetProcAddress"));
  EXPECT_EQ(get("cuGetProcAddress", &address, 13000, 0, nullptr), kCuSuccess);
  EXPECT_EQ(address, ::dlsym(cuda_.handle, "cuGetProcAddress_v2"));
}

TEST_F(CudaDoubleProcessTest, ReadsVisibleDevicesAsTheDriverDoes) {
  EXPECT_EQ(visible_devices("1,0"), 2);
  const std::string second = uuid_of(0), first = uuid_of(1);
  EXPECT_EQ(visible_devices("0,1,2,3"), 4);
  EXPECT_EQ(uuid_of(0), first);
  EXPECT_EQ(uuid_of(1), second);
  EXPECT_EQ(visible_devices(""), 0);
  EXPECT_EQ(visible_devices("-1"), 0);
  EXPECT_EQ(visible_devices("1,-1,0"), 1) << "up to the first that is none";
  EXPECT_EQ(visible_devices("0,9,1"), 1);
  EXPECT_EQ(visible_devices("0,1,0"), 2) << "up to the first that is named twice";
  EXPECT_EQ(visible_devices("none"), 0);
  EXPECT_EQ(visible_devices("MIG-7b1c2a"), 0);
  EXPECT_EQ(visible_devices("GPU-"), 0) << "fits several";
  char text[64] = "GPU-";
  for (int i = 0; i < 4; ++i)
    std::snprintf(text + 4 + 2 * i, 3, "%02x", static_cast<unsigned char>(second[static_cast<std::size_t>(i)]));
  EXPECT_EQ(visible_devices(text), 1);
  EXPECT_EQ(uuid_of(0), second);
}

TEST_F(CudaDoubleProcessTest, AChildOfAForkHasNoDriver) {
  ASSERT_EQ(cuda_.cuInit(0), kCuSuccess);
  EXPECT_EQ(in_child([&] {
              int count = 0;
              return cuda_.cuDeviceGetCount(&count) == kCuNotInitialized && cuda_.cuInit(0) == kCuNotInitialized ? 0
                                                                                                                 : 1;
            }),
            0);
  int count = 0;
  EXPECT_EQ(cuda_.cuDeviceGetCount(&count), kCuSuccess);
}

TEST_F(CudaDoubleProcessTest, AnExclusiveDeviceServesOneProcess) {
  const auto folder = std::filesystem::temp_directory_path() / ("vmem-double-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  ASSERT_EQ(cuda_.set("exclusive", folder.c_str()), 0);
  // A child that starts the driver itself, and holds device 0 until the pipe is closed.
  int held[2], done[2];
  ASSERT_EQ(::pipe(held), 0);
  ASSERT_EQ(::pipe(done), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(done[1]);
    CuContext context = nullptr;
    const bool ok = cuda_.cuInit(0) == kCuSuccess && cuda_.cuDevicePrimaryCtxRetain(&context, 0) == kCuSuccess;
    char byte = ok ? 1 : 0;
    if (::write(held[1], &byte, 1) != 1) ::_exit(1);
    static_cast<void>(::read(done[0], &byte, 1) == 0);
    ::_exit(0);
  }
  ::close(done[0]);
  char byte = 0;
  ASSERT_EQ(::read(held[0], &byte, 1), 1);
  EXPECT_EQ(byte, 1);
  ASSERT_EQ(cuda_.cuInit(0), kCuSuccess);
  CuContext context = nullptr;
  EXPECT_EQ(cuda_.cuDevicePrimaryCtxRetain(&context, 0), kCuDeviceUnavailable);
  EXPECT_EQ(cuda_.cuDevicePrimaryCtxRetain(&context, 1), kCuSuccess);
  ::close(done[1]);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(cuda_.cuDevicePrimaryCtxRetain(&context, 0), kCuSuccess);
  ::close(held[0]);
  ::close(held[1]);
  std::filesystem::remove_all(folder);
}

// Calls the driver when the exit of the process has gone past what the driver registered.
struct LateCaller {
  CuResult (*call)(int*) = nullptr;
  int expected = 0;
  ~LateCaller() {
    int count = 0;
    if (call != nullptr && call(&count) != static_cast<CuResult>(expected)) ::_exit(9);
  }
};
LateCaller g_late_caller;

class CudaDoubleExitTest : public CudaDoubleProcessTest {
 protected:
  void exit_with(const char* late_calls, CuResult expected) {
    ASSERT_EQ(cuda_.set("late_calls", late_calls), 0);
    cuda_.cuInit(0);
    CuContext context = nullptr;
    cuda_.cuDevicePrimaryCtxRetain(&context, 0);
    cuda_.cuCtxSetCurrent(context);
    // Work that never ends does not keep the process.
    CuDevicePtr data = 0;
    cuda_.cuMemAlloc_v2(&data, 64);
    cuda_.inject("cuMemsetD8Async", VMEM_DOUBLE_HANG, 0, 1, 0);
    cuda_.cuMemsetD8Async(data, 0, 64, nullptr);
    g_late_caller.call = cuda_.cuDeviceGetCount;
    g_late_caller.expected = expected;
    std::exit(0);
  }
};

TEST_F(CudaDoubleExitTest, LateCallsAreRefusedAllowedOrFatal) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(exit_with("refuse", kCuDeinitialized), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(exit_with("work", kCuSuccess), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(exit_with("abort", kCuSuccess), ::testing::KilledBySignal(SIGABRT), "after the exit");
}

TEST_F(CudaDoubleProcessTest, ContextsAreCountedStackedAndEnd) {
  ASSERT_EQ(cuda_.cuInit(0), kCuSuccess);
  CuContext primary = nullptr, again = nullptr, made = nullptr, current = nullptr;
  unsigned flags = 0;
  int active = -1;
  EXPECT_EQ(cuda_.cuDevicePrimaryCtxGetState(0, &flags, &active), kCuSuccess);
  EXPECT_EQ(active, 0);
  ASSERT_EQ(cuda_.cuDevicePrimaryCtxRetain(&primary, 0), kCuSuccess);
  ASSERT_EQ(cuda_.cuDevicePrimaryCtxRetain(&again, 0), kCuSuccess);
  EXPECT_EQ(primary, again);
  ASSERT_EQ(cuda_.cuCtxCreate_v2(&made, 0, 1), kCuSuccess);
  EXPECT_EQ(cuda_.cuCtxGetCurrent(&current), kCuSuccess);
  EXPECT_EQ(current, made);
  EXPECT_EQ(cuda_.cuCtxPushCurrent_v2(primary), kCuSuccess);
  CuDevice device = -1;
  EXPECT_EQ(cuda_.cuCtxGetDevice(&device), kCuSuccess);
  EXPECT_EQ(device, 0);
  std::thread([&] {
    CuContext none = primary;
    EXPECT_EQ(cuda_.cuCtxGetCurrent(&none), kCuSuccess);
    EXPECT_EQ(none, nullptr) << "every thread has its own";
    EXPECT_EQ(cuda_.cuCtxPopCurrent_v2(&none), kCuInvalidContext);
  }).join();
  EXPECT_EQ(cuda_.cuCtxPopCurrent_v2(&current), kCuSuccess);
  EXPECT_EQ(current, primary);
  CuDevicePtr data = 0;
  EXPECT_EQ(cuda_.cuMemAlloc_v2(&data, 4096), kCuSuccess);
  EXPECT_EQ(cuda_.cuCtxDestroy_v2(made), kCuSuccess);
  EXPECT_EQ(cuda_.count("allocations"), 0U) << "its memory goes with it";
  EXPECT_EQ(cuda_.cuCtxPushCurrent_v2(made), kCuContextIsDestroyed);
  EXPECT_EQ(cuda_.cuDevicePrimaryCtxRelease_v2(0), kCuSuccess);
  EXPECT_EQ(cuda_.cuCtxPushCurrent_v2(primary), kCuSuccess);
  EXPECT_EQ(cuda_.cuDevicePrimaryCtxRelease_v2(0), kCuSuccess);
  EXPECT_EQ(cuda_.cuDevicePrimaryCtxRelease_v2(0), kCuInvalidContext);
  EXPECT_EQ(cuda_.cuMemAlloc_v2(&data, 4096), kCuContextIsDestroyed);
  EXPECT_EQ(cuda_.count("contexts"), 0U);
}

}  // namespace
}  // namespace vmem
