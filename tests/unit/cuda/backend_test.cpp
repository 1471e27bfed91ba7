// How the backend finds devices, what they say of themselves, peers, and where its kernels come from.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/cuda/double_machine.hpp"

namespace vmem {
namespace {

using namespace std::chrono_literals;

class CudaBackendTest : public DoubleMachine {
 protected:
  ~CudaBackendTest() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  const std::string& folder() {
    if (folder_.empty()) {
      folder_ = (std::filesystem::temp_directory_path() / "vmem-cuda-XXXXXX").string();
      EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
    }
    return folder_;
  }
  bool reaches(std::size_t from, std::size_t to) { return device(from).can_access_peer(device(to)); }

 private:
  std::string folder_;
};

TEST_F(CudaBackendTest, DescribesItsDevices) {
  open({{"DEVICES", "3"}});
  ASSERT_EQ(devices_.size(), 3U);
  EXPECT_EQ(backend_->name(), "cuda");
  EXPECT_EQ(backend_->driver_version().substr(0, 9), "CUDA 13.0");
  for (std::size_t i = 0; i < 3; ++i) {
    const DeviceInfo& info = device(i).info();
    EXPECT_EQ(info.name, "cuda:" + std::to_string(i));
    EXPECT_EQ(info.backend, "cuda");
    EXPECT_EQ(info.vendor, "nvidia");
    EXPECT_EQ(info.uuid.size(), 40U) << info.uuid;
    EXPECT_EQ(info.uuid.substr(0, 4), "GPU-");
    EXPECT_EQ(info.address_space, device().info().address_space);
    EXPECT_TRUE(info.pci);
    EXPECT_EQ(info.total_bytes, 64_MiB);
    EXPECT_EQ(info.granularity, 2_MiB);
    EXPECT_EQ(info.wave_width, 32U);
    EXPECT_FALSE(info.simulated);
    if (i > 0) {
      EXPECT_NE(info.uuid, device().info().uuid);
      EXPECT_FALSE(*info.pci == *device().info().pci);
    }
  }
  EXPECT_EQ(backend_->discover().error().code(), StatusCode::kInvalidValue) << "they are handed out once";
}

TEST_F(CudaBackendTest, CountsWhatTheSystemWouldGiveUpAsFreeWhereMemoryIsShared) {
  open({{"INTEGRATED", "1"}});
  cuda.occupy(0, 32_MiB);
  EXPECT_EQ(device().memory_info()->free_bytes, 64_MiB) << "this machine has more available than that";
  EXPECT_LE(device().memory_info()->free_bytes, device().memory_info()->total_bytes);
}

TEST_F(CudaBackendTest, CopiesStraightBetweenPeersThatWork) {
  open();
  EXPECT_TRUE(reaches(0, 1));
  EXPECT_TRUE(reaches(1, 0));
  EXPECT_FALSE(reaches(0, 0));
  EXPECT_EQ(log(), "");
  void* const here = allocate(4096);
  void* const there = allocate(4096, 1);
  ASSERT_TRUE(ok(outcome(device().fill(here, 5, 4096, Stream()))));
  ASSERT_TRUE(ok(outcome(device().copy_to_peer(device(1), there, here, 4096, Stream()))));
  EXPECT_EQ(cuda.count("peer_copies"), 1U);
  EXPECT_EQ(cuda.count("staged_copies"), 0U);
}

TEST_F(CudaBackendTest, LetsPeersFollowPointersIntoWindows) {
  open();
  const std::size_t bytes = device().info().granularity;
  auto window = device().reserve_window(bytes);
  auto chunk = device().create_chunk(bytes);
  ASSERT_TRUE(ok(window) && ok(chunk) && ok(device().map(*window, *chunk)));
  // A kernel of the peer writes there.
  const std::uint64_t count = 64;
  const std::uint32_t value = 0x21;
  ASSERT_TRUE(ok(outcome(device(1).launch({"vmem_fill_bytes",
                                           {1, 1, 1},
                                           {1, 1, 1},
                                           0,
                                           {{&*window, sizeof(void*)}, {&count, sizeof count}, {&value, sizeof value}}},
                                          Stream()))));
  std::vector<std::uint8_t> host(64);
  ASSERT_TRUE(ok(outcome(device().copy_to_host(host.data(), *window, host.size(), Stream()))));
  EXPECT_EQ(host, std::vector<std::uint8_t>(64, 0x21));
  EXPECT_TRUE(ok(device().unmap(*window, bytes)));
}

TEST_F(CudaBackendTest, BouncesOnlyTheDirectionsThatLieOrCrash) {
  open({{"DEVICES", "3"}, {"PEER", "0>1:lies,1>2:crashes,2>0:absent"}});
  EXPECT_FALSE(reaches(0, 1));
  EXPECT_FALSE(reaches(1, 2));
  EXPECT_FALSE(reaches(2, 0));
  EXPECT_TRUE(reaches(1, 0));
  EXPECT_TRUE(reaches(2, 1));
  EXPECT_TRUE(reaches(0, 2));
  EXPECT_NE(log().find("from 'cuda:0' to 'cuda:1' is announced by the driver and does not work (wrong)"),
            std::string::npos)
      << log();
  EXPECT_NE(log().find("from 'cuda:1' to 'cuda:2' is announced by the driver and does not work (crashed)"),
            std::string::npos)
      << log();
  void* const here = allocate(4096);
  void* const there = allocate(4096, 1);
  EXPECT_EQ(device().copy_to_peer(device(1), there, here, 64, Stream()).error().code(), StatusCode::kUnsupported);
}

TEST_F(CudaBackendTest, StartsInTimeWhereALinkHangs) {
  options.probe_timeout = 4s;
  open({{"PEER", "0>1:hangs"}});
  EXPECT_FALSE(reaches(0, 1));
  EXPECT_TRUE(reaches(1, 0));
  EXPECT_NE(log().find("(hung)"), std::string::npos) << log();
}

TEST_F(CudaBackendTest, BouncesWhatCannotBeTried) {
  options.probe_program = "/nowhere/vmem-probe-peers";
  open();
  EXPECT_FALSE(reaches(0, 1));
  EXPECT_NE(log().find("could not be tried"), std::string::npos) << log();
}

TEST_F(CudaBackendTest, TriesALinkOnceForEachDriver) {
  options.cache_directory = folder();
  open({{"PEER", "0>1:lies"}});
  EXPECT_FALSE(reaches(0, 1));
  options.probe_program = "/nowhere/vmem-probe-peers";
  open({{"PEER", "0>1:lies"}});
  EXPECT_FALSE(reaches(0, 1));
  EXPECT_TRUE(reaches(1, 0)) << "known from the first start";
  EXPECT_NE(log().find("does not work (wrong)"), std::string::npos) << log();
  open({{"PEER", "0>1:lies"}, {"VERSION", "12080"}});
  EXPECT_FALSE(reaches(1, 0)) << "another driver's answer does not count";
}

TEST_F(CudaBackendTest, HasNoKernelsWithoutACompiler) {
  options.compiler = nullptr;
  options.nvrtc_library = "/nowhere/libnvrtc.so";
  open();
  EXPECT_FALSE(device().info().caps.has(DeviceCap::kKernels));
  EXPECT_EQ(device().info().wave_width, 0U);
  EXPECT_NE(log().find("no kernels"), std::string::npos) << log();
  EXPECT_EQ(device().launch({"vmem_triad", {}, {}, 0, {}}, Stream()).error().code(), StatusCode::kUnsupported);
}

TEST_F(CudaBackendTest, CompilesItsKernelsAtStartWhereNoneAreEmbedded) {
  options.compiler = nullptr;
  options.nvrtc_library = VMEM_NVRTC_DOUBLE;
  open();
  EXPECT_TRUE(device().info().caps.has(DeviceCap::kKernels));
  void* const address = allocate(4096);
  const std::uint64_t count = 4096;
  const std::uint32_t value = 0x21;
  EXPECT_TRUE(ok(outcome(device().launch({"vmem_fill_bytes",
                                          {1, 1, 1},
                                          {1, 1, 1},
                                          0,
                                          {{&address, sizeof address}, {&count, sizeof count}, {&value, sizeof value}}},
                                         Stream()))));
}

TEST_F(CudaBackendTest, FallsBackToTheCompilerWhereTheDriverRefusesEmbeddedKernels) {
  options.use_embedded_kernels = true;
  open({{"FAULTS", "cuModuleLoadData:fail:0:222"}});
  EXPECT_TRUE(device().info().caps.has(DeviceCap::kKernels));
}

TEST_F(CudaBackendTest, ReadsItsOptionsFromTheEnvironment) {
  ::setenv("VMEM_CUDA_LIBRARY", "/some/libcuda.so.1", 1);
  ::setenv("VMEM_PEER_PROBE_TIMEOUT_MS", "2500", 1);
  ::setenv("XDG_CACHE_HOME", "/some/cache", 1);
  const auto read = read_cuda_options();
  ASSERT_TRUE(ok(read));
  EXPECT_EQ(read->driver_library, "/some/libcuda.so.1");
  EXPECT_EQ(read->probe_timeout, 2500ms);
  EXPECT_EQ(read->cache_directory, "/some/cache/vmem");
  ::setenv("VMEM_PEER_PROBE_TIMEOUT_MS", "soon", 1);
  const Status wrong = read_cuda_options().error();
  EXPECT_EQ(wrong.code(), StatusCode::kConfigError);
  EXPECT_NE(wrong.to_string().find("VMEM_PEER_PROBE_TIMEOUT_MS='soon'"), std::string::npos) << wrong.to_string();
  for (const char* const name : {"VMEM_CUDA_LIBRARY", "VMEM_PEER_PROBE_TIMEOUT_MS", "XDG_CACHE_HOME"}) ::unsetenv(name);
}

}  // namespace
}  // namespace vmem
