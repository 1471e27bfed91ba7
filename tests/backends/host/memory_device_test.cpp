// What only this backend does: its memory is the machine's, its links take time, wrong use of memory is caught.
#include "backends/host/memory_device.hpp"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <thread>

#include "backends/host/host_backend.hpp"

namespace vmem {
namespace {

using namespace std::chrono_literals;

SimulatedDevice gpu() {
  SimulatedDevice device;
  device.total_bytes = 64_MiB;
  device.granularity = 64_KiB;
  return device;
}

class MemoryDeviceTest : public ::testing::Test {
 protected:
  void start(const std::vector<SimulatedDevice>& simulated, const SystemCalls& system = SystemCalls()) {
    BackendConfig config;
    config.simulated = simulated;
    config.host_limit_bytes = 256_MiB;
    config.log = [this](LogLevel level, std::string_view message) {
      if (level <= LogLevel::kWarn) warnings_.emplace_back(message);
    };
    auto backend = create_host_backend(config, system);
    ASSERT_TRUE(backend) << backend.error().to_string();
    auto devices = (*backend)->discover();
    ASSERT_TRUE(devices) << devices.error().to_string();
    devices_ = std::move(devices).value();
    first_ = devices_.size() - simulated.size();
  }
  Device& host() { return *devices_[0]; }
  Device& sim(std::size_t index = 0) { return *devices_[first_ + index]; }

  std::vector<std::string> warnings_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::size_t first_ = 0;
};

std::size_t resident_shared_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("RssShmem:", 0) == 0) return std::stoull(line.substr(9)) * 1024;
  }
  return 0;
}

TEST_F(MemoryDeviceTest, TakesPagesOnlyWhenTheyAreTouchedAndGivesThemBack) {
  auto file = MemoryFile::create("vmem-test");
  ASSERT_TRUE(file);
  const auto first = (*file)->allocate(16_MiB);
  const auto second = (*file)->allocate(1_MiB);
  ASSERT_TRUE(first && second);
  EXPECT_EQ((*file)->committed_bytes(), 0U);
  void* const memory =
      ::mmap(nullptr, 16_MiB, PROT_READ | PROT_WRITE, MAP_SHARED, (*file)->fd(), static_cast<off_t>(*first));
  ASSERT_NE(memory, MAP_FAILED);
  static_cast<volatile char*>(memory)[5_MiB] = 1;
  EXPECT_GT((*file)->committed_bytes(), 0U);
  EXPECT_LE((*file)->committed_bytes(), 2_MiB);
  ::munmap(memory, 16_MiB);
  (*file)->release(*first, 16_MiB);
  EXPECT_EQ((*file)->committed_bytes(), 0U);
  EXPECT_EQ(*(*file)->allocate(16_MiB), *first) << "offsets are used again";
}

TEST_F(MemoryDeviceTest, ReturnsADestroyedChunksMemoryToTheSystem) {
  start({gpu()});
  const std::size_t before = resident_shared_bytes();
  auto window = sim().reserve_window(32_MiB);
  auto chunk = sim().create_chunk(32_MiB);
  ASSERT_TRUE(window && chunk);
  ASSERT_TRUE(sim().map(*window, *chunk));
  ASSERT_TRUE(sim().fill(*window, 1, 32_MiB, Stream()));
  EXPECT_GE(resident_shared_bytes(), before + 31_MiB);
  ASSERT_TRUE(sim().unmap(*window, 32_MiB));
  ASSERT_TRUE(sim().destroy_chunk(*chunk));
  EXPECT_LE(resident_shared_bytes(), before + 1_MiB);
  ASSERT_TRUE(sim().release_window(*window, 32_MiB));
}

TEST_F(MemoryDeviceTest, LetsTheCpuFollowAHostDevicesPointers) {
  start({});
  auto address = host().allocate(1_MiB);
  ASSERT_TRUE(address);
  auto* const bytes = static_cast<unsigned char*>(*address);
  bytes[12345] = 0x5A;
  unsigned char read = 0;
  ASSERT_TRUE(host().copy_to_host(&read, bytes + 12345, 1, Stream()));
  EXPECT_EQ(read, 0x5A);
  ASSERT_TRUE(host().deallocate(*address));
}

TEST_F(MemoryDeviceTest, AllocatesWithOneWarningWhereHugePagesAreNotToBeHad) {
  SystemCalls system;
  system.madvise = [](void*, std::size_t, int advice) {
    if (advice != MADV_HUGEPAGE) return 0;
    errno = EINVAL;
    return -1;
  };
  start({}, system);
  for (int i = 0; i < 3; ++i) {
    auto address = host().allocate(4_MiB);
    ASSERT_TRUE(address);
    ASSERT_TRUE(host().deallocate(*address));
  }
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find("huge pages"), std::string::npos);
}

TEST_F(MemoryDeviceTest, SaysThatHostMemoryCannotBePinnedAtTheLimit) {
  for (const int error : {ENOMEM, EPERM, EAGAIN}) {
    static int mlock_error;
    mlock_error = error;
    SystemCalls system;
    system.mlock = [](const void*, std::size_t) {
      errno = mlock_error;
      return -1;
    };
    start({gpu()}, system);
    std::vector<char> memory(1_MiB);
    EXPECT_EQ(sim().register_host(memory.data(), memory.size()).error().code(), StatusCode::kOutOfHostMemory);
    // Pageable copies still work, and a later registration finds nothing left over.
    auto address = sim().allocate(1_MiB);
    ASSERT_TRUE(address);
    EXPECT_TRUE(sim().copy_from_host(*address, memory.data(), memory.size(), Stream()));
    EXPECT_TRUE(sim().deallocate(*address));
    EXPECT_EQ(sim().register_host(memory.data(), memory.size()).error().code(), StatusCode::kOutOfHostMemory);
  }
}

// Lowers RLIMIT_MEMLOCK of the process and takes the calling thread's right to pass it.
class LockedMemoryLimit {
 public:
  explicit LockedMemoryLimit(rlim_t bytes) {
    EXPECT_EQ(::getrlimit(RLIMIT_MEMLOCK, &before_), 0);
    rlimit lowered = before_;
    lowered.rlim_cur = bytes;
    EXPECT_EQ(::setrlimit(RLIMIT_MEMLOCK, &lowered), 0);
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2] = {};
    EXPECT_EQ(::syscall(SYS_capget, &header, data), 0);
    data[0].effective &= ~(1U << CAP_IPC_LOCK);
    EXPECT_EQ(::syscall(SYS_capset, &header, data), 0);
  }
  ~LockedMemoryLimit() { ::setrlimit(RLIMIT_MEMLOCK, &before_); }
  LockedMemoryLimit(const LockedMemoryLimit&) = delete;
  LockedMemoryLimit& operator=(const LockedMemoryLimit&) = delete;

 private:
  rlimit before_{};
};

TEST_F(MemoryDeviceTest, ObeysTheSystemsOwnLimitOnLockedMemory) {
  SystemCalls system;
  // The kernel's call itself: under sanitizers the library's mlock does nothing.
  system.mlock = [](const void* address, std::size_t bytes) {
    return static_cast<int>(::syscall(SYS_mlock, address, bytes));
  };
  system.munlock = [](const void* address, std::size_t bytes) {
    return static_cast<int>(::syscall(SYS_munlock, address, bytes));
  };
  start({gpu()}, system);
  std::thread([this] {  // the thread's rights end with it
    const LockedMemoryLimit limit(64_KiB);
    std::vector<char> memory(4_MiB);
    const auto large = sim().register_host(memory.data(), memory.size());
    ASSERT_FALSE(large);
    EXPECT_EQ(large.error().code(), StatusCode::kOutOfHostMemory) << large.error().to_string();
    EXPECT_NE(large.error().message().find("RLIMIT_MEMLOCK"), std::string_view::npos);
    EXPECT_TRUE(sim().register_host(memory.data(), 8_KiB));
    EXPECT_TRUE(sim().unregister_host(memory.data()));
  })
      .join();
}

TEST_F(MemoryDeviceTest, KeepsPagesLockedWhileAnotherDeviceHasThemRegistered) {
  static std::size_t locked;
  locked = 0;
  SystemCalls system;
  system.mlock = [](const void*, std::size_t bytes) { return locked += bytes, 0; };
  system.munlock = [](const void*, std::size_t bytes) { return locked -= bytes, 0; };
  start({gpu(), gpu()}, system);
  auto memory = host().allocate(1_MiB);
  ASSERT_TRUE(memory);
  ASSERT_TRUE(sim(0).register_host(*memory, 1_MiB));
  ASSERT_TRUE(sim(1).register_host(*memory, 64_KiB));
  ASSERT_TRUE(sim(0).unregister_host(*memory));
  EXPECT_EQ(locked, 1_MiB + 64_KiB - (1_MiB - 64_KiB)) << "the rest is unlocked, the shared part is not";
  ASSERT_TRUE(sim(1).unregister_host(*memory));
  ASSERT_TRUE(host().deallocate(*memory));
}

TEST_F(MemoryDeviceTest, TellsAForkNotToInheritPinnedPagesOfThePool) {
  static int num_kept_from_children, num_given_back;
  num_kept_from_children = num_given_back = 0;
  SystemCalls system;
  system.madvise = [](void*, std::size_t, int advice) {
    num_kept_from_children += advice == MADV_DONTFORK ? 1 : 0;
    num_given_back += advice == MADV_DOFORK ? 1 : 0;
    return 0;
  };
  start({gpu()}, system);
  std::vector<char> application(1_MiB);
  ASSERT_TRUE(host().register_host(application.data(), application.size()));
  EXPECT_EQ(num_kept_from_children, 0) << "the application decides over its own memory";
  ASSERT_TRUE(host().unregister_host(application.data()));
  auto memory = host().allocate(1_MiB);
  ASSERT_TRUE(memory);
  ASSERT_TRUE(host().register_host(*memory, 1_MiB));
  EXPECT_EQ(num_kept_from_children, 1);
  EXPECT_EQ(num_given_back, 0);
  ASSERT_TRUE(host().unregister_host(*memory));
  EXPECT_EQ(num_given_back, 1);
  ASSERT_TRUE(host().deallocate(*memory));
}

TEST_F(MemoryDeviceTest, GivesRegisteredMemoryASecondAddressWhereAsked) {
  SimulatedDevice device = gpu();
  // A distance below the range's size can't be kept; one that wraps around, to lower addresses, can.
  const std::uint64_t far = std::uint64_t{0} - 1_TiB;
  for (const std::uint64_t distance : {std::uint64_t{0x1000}, far}) {
    device.alias_offset = distance;
    start({device});
    auto memory = host().allocate(1_MiB);
    ASSERT_TRUE(memory);
    auto* const bytes = static_cast<unsigned char*>(*memory);
    auto alias = sim().register_host(bytes + 100, 1000);
    ASSERT_TRUE(alias) << alias.error().to_string();
    auto* const other = static_cast<unsigned char*>(*alias);
    EXPECT_NE(other, bytes + 100);
    if (distance == far) {
      EXPECT_EQ(other, bytes + 100 - 1_TiB);
    }
    bytes[150] = 0x11;
    EXPECT_EQ(other[50], 0x11) << "the same page";
    // The alias is the device's, so kernels and copies within it may use it.
    ASSERT_TRUE(sim().fill(other, 0x77, 1000, Stream()));
    EXPECT_EQ(bytes[100], 0x77);
    EXPECT_EQ(bytes[1099], 0x77);
    EXPECT_EQ(bytes[1100], 0);
    ASSERT_TRUE(sim().unregister_host(bytes + 100));
    EXPECT_EQ(sim().fill(other, 0, 1, Stream()).error().code(), StatusCode::kInvalidValue);
    std::vector<char> application(1_MiB);
    EXPECT_EQ(sim().register_host(application.data(), 4096).error().code(), StatusCode::kUnsupported);
    ASSERT_TRUE(host().deallocate(*memory));
  }
}

TEST_F(MemoryDeviceTest, ReportsWorkOnMemoryThatWasUnmappedBeforeItRan) {
  start({gpu()});
  auto window = sim().reserve_window(128_KiB);
  auto chunk = sim().create_chunk(64_KiB);
  auto stream = sim().create_stream();
  auto gate = sim().allocate(64_KiB);
  ASSERT_TRUE(window && chunk && stream && gate);
  ASSERT_TRUE(sim().map(*window, *chunk));
  ASSERT_TRUE(sim().fill(*gate, 0, 64_KiB, Stream()));
  auto* const word = static_cast<std::uint32_t*>(*gate);
  for (const bool mapped_anew : {false, true}) {
    ASSERT_TRUE(sim().wait_signal(*stream, word, 1));
    auto late = sim().fill(*window, 9, 64_KiB, *stream);
    ASSERT_TRUE(late);
    ASSERT_TRUE(sim().unmap(*window, 64_KiB));
    if (mapped_anew) {
      ASSERT_TRUE(sim().map(*window, *chunk));
    }
    ASSERT_TRUE(sim().fill(word, 1, 4, Stream()));
    EXPECT_EQ(late->wait().code(), StatusCode::kInvalidValue);
    ASSERT_TRUE(sim().fill(word, 0, 4, Stream()));
    if (!mapped_anew) {
      ASSERT_TRUE(sim().map(*window, *chunk));
    }
  }
  ASSERT_TRUE(sim().destroy_stream(*stream));
}

TEST_F(MemoryDeviceTest, RefusesDevicePointersAsHostMemory) {
  start({gpu(), gpu()});
  auto here = sim(0).allocate(64_KiB);
  auto there = sim(1).allocate(64_KiB);
  ASSERT_TRUE(here && there);
  EXPECT_EQ(sim(0).copy_from_host(*here, *there, 64, Stream()).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(sim(0).copy_to_host(*there, *here, 64, Stream()).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(sim(0).register_host(*there, 4096).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(sim(0).copy_within(*here, *there, 64, Stream()).error().code(), StatusCode::kInvalidValue);
}

TEST_F(MemoryDeviceTest, TakesAtLeastTheTimeOfItsLink) {
  SimulatedDevice device = gpu();
  device.enforce_links = true;
  device.bandwidth_in = 1e9;
  device.bandwidth_out = 2e9;
  device.latency = 1ms;
  start({device});
  auto address = sim().allocate(16_MiB);
  auto first = sim().create_stream();
  auto second = sim().create_stream();
  ASSERT_TRUE(address && first && second);
  std::vector<char> memory(16_MiB);
  const auto elapsed = [](auto body) {
    const auto start = std::chrono::steady_clock::now();
    body();
    return std::chrono::steady_clock::now() - start;
  };
  // Two streams share the way in; together they take the time of all the bytes. A lower bound holds on any machine.
  EXPECT_GE(elapsed([&] {
              auto a = sim().copy_from_host(*address, memory.data(), 8_MiB, *first);
              auto b = sim().copy_from_host(static_cast<char*>(*address) + 8_MiB, memory.data(), 8_MiB, *second);
              EXPECT_TRUE(a && b && a->wait() && b->wait());
            }),
            16ms);
  EXPECT_GE(elapsed([&] { EXPECT_TRUE(sim().copy_to_host(memory.data(), *address, 16_MiB, Stream())); }), 8ms);
  ASSERT_TRUE(sim().destroy_stream(*first));
  ASSERT_TRUE(sim().destroy_stream(*second));
}

TEST_F(MemoryDeviceTest, ShowsTheOldBytesUntilTheLinkHasDeliveredTheNewOnes) {
  SimulatedDevice device = gpu();
  device.enforce_links = true;
  device.latency = 1h;
  start({device});
  auto address = sim().allocate(64_KiB);
  auto stream = sim().create_stream();
  ASSERT_TRUE(address && stream);
  auto* const bytes = static_cast<unsigned char*>(*address);
  ASSERT_TRUE(sim().fill(bytes, 0x11, 4096, Stream()));
  const std::vector<unsigned char> fresh(4096, 0x99);
  auto copy = sim().copy_from_host(bytes, fresh.data(), fresh.size(), *stream);
  ASSERT_TRUE(copy);
  auto window = host().allocate(4096);
  ASSERT_TRUE(window);
  auto seen = sim().register_host(*window, 4096);
  ASSERT_TRUE(seen);
  ASSERT_TRUE(sim().copy_within(*seen, bytes, 4096, Stream()));  // uses no link
  EXPECT_EQ(*static_cast<unsigned char*>(*window), 0x11);
  EXPECT_FALSE(copy->is_done());
  // Nobody waits for the hour: a device that is lost ends what is on its way.
  Fault fault;
  fault.kind = Fault::Kind::kVanish;
  ASSERT_TRUE(sim().inject(fault));
  EXPECT_EQ(sim().health().code(), StatusCode::kDeviceFailed);
  EXPECT_EQ(copy->wait().code(), StatusCode::kDeviceFailed);
}

}  // namespace
}  // namespace vmem
