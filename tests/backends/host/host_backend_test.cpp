#include "backends/host/host_backend.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

namespace vmem {
namespace {

SimulatedDevice gpu() {
  SimulatedDevice device;
  device.total_bytes = 4_MiB;
  device.granularity = 64_KiB;
  return device;
}

std::vector<std::unique_ptr<Device>> discover(const BackendConfig& config) {
  auto backend = create_host_backend(config);
  EXPECT_TRUE(backend) << backend.error().to_string();
  auto devices = (*backend)->discover();
  EXPECT_TRUE(devices) << devices.error().to_string();
  return std::move(devices).value();
}

TEST(HostBackendTest, OffersTheMachinesNodesAndTheSimulatedDevices) {
  BackendConfig config;
  config.simulated = {gpu(), gpu()};
  config.simulated[1].name = "sim:card";
  config.simulated[1].vendor = "other";
  const auto devices = discover(config);
  ASSERT_GE(devices.size(), 3U);
  const DeviceInfo& host = devices[0]->info();
  EXPECT_EQ(host.name, "host:0");
  EXPECT_EQ(host.backend, "host");
  EXPECT_EQ(host.tier, Tier::kHost);
  EXPECT_EQ(host.address_space, "host");
  EXPECT_FALSE(host.simulated);
  EXPECT_FALSE(host.caps.has(DeviceCap::kPeerCopy));
  const DeviceInfo& first = devices[devices.size() - 2]->info();
  const DeviceInfo& second = devices.back()->info();
  EXPECT_EQ(first.name, "sim:0");
  EXPECT_EQ(second.name, "sim:card");
  EXPECT_TRUE(first.simulated);
  EXPECT_NE(first.uuid, second.uuid);
  EXPECT_NE(first.address_space, second.address_space) << "vendors never share one";
}

TEST(HostBackendTest, LetsOnlyOneVendorsDevicesBePeers) {
  BackendConfig config;
  config.simulated = {gpu(), gpu(), gpu(), gpu()};
  config.simulated[2].vendor = "other";
  config.simulated[3].caps = config.simulated[3].caps.without(DeviceCap::kPeerCopy);
  const auto devices = discover(config);
  const std::size_t first = devices.size() - 4;
  const Device& a = *devices[first];
  EXPECT_TRUE(a.can_access_peer(*devices[first + 1]));
  EXPECT_FALSE(a.can_access_peer(*devices[first + 2]));
  EXPECT_FALSE(a.can_access_peer(*devices[first + 3]));
  EXPECT_FALSE(devices[first + 3]->can_access_peer(a));
  EXPECT_FALSE(a.can_access_peer(*devices[0]));
  const auto elsewhere = discover(config);
  EXPECT_FALSE(a.can_access_peer(*elsewhere[first + 1])) << "of another backend object";
}

TEST(HostBackendTest, TakesNoMoreOfANodeThanItIsTold) {
  BackendConfig config;
  config.host_limit_bytes = 3_MiB;
  const auto devices = discover(config);
  for (const auto& device : devices) EXPECT_LE(device->info().total_bytes, 3_MiB);
  const auto address = devices[0]->allocate(4_MiB);
  ASSERT_FALSE(address);
  EXPECT_EQ(address.error().code(), StatusCode::kOutOfHostMemory);
}

TEST(HostBackendTest, TakesHalfOfWhatIsAvailableUnlessToldLess) {
  std::string root = std::filesystem::temp_directory_path() / "vmem-host-XXXXXX";
  ASSERT_NE(::mkdtemp(root.data()), nullptr);
  std::filesystem::create_directories(root + "/proc");
  std::ofstream(root + "/proc/meminfo") << "MemTotal: 16384 kB\nMemAvailable: 8192 kB\n";
  SystemCalls system;
  system.root = root;
  auto backend = create_host_backend(BackendConfig(), system);
  ASSERT_TRUE(backend);
  const auto devices = (*backend)->discover();
  ASSERT_TRUE(devices);
  EXPECT_EQ((*devices)[0]->info().total_bytes, 4_MiB);
  EXPECT_EQ((*devices)[0]->info().numa_node, std::nullopt);
  std::filesystem::remove_all(root);
}

TEST(HostBackendTest, RefusesSimulatedDevicesThatCannotBe) {
  const auto code = [](auto change) {
    BackendConfig config;
    config.simulated = {gpu()};
    change(config.simulated[0]);
    const auto backend = create_host_backend(config);
    if (!backend) {
      EXPECT_NE(backend.error().message().find("'sim:0'"), std::string_view::npos);
    }
    return backend.error().code();
  };
  using Gpu = SimulatedDevice;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(code([](Gpu&) {}), StatusCode::kOk);
  EXPECT_EQ(code([](Gpu& g) { g.total_bytes = 0; }), StatusCode::kConfigError);
  EXPECT_EQ(code([](Gpu& g) { g.granularity = 0; }), StatusCode::kConfigError);
  EXPECT_EQ(code([](Gpu& g) { g.granularity = 2048; }), StatusCode::kConfigError);
  EXPECT_EQ(code([](Gpu& g) { g.granularity = 12288; }), StatusCode::kConfigError);
  EXPECT_EQ(code([](Gpu& g) { g.granularity = 8_MiB; }), StatusCode::kConfigError);
  EXPECT_EQ(code([](Gpu& g) { g.wave_width = 48; }), StatusCode::kConfigError);
  EXPECT_EQ(code([](Gpu& g) { g.latency = std::chrono::nanoseconds(-1); }), StatusCode::kConfigError);
  for (const double rate : {0.0, -1.0, kNotANumber, kInfinity}) {
    EXPECT_EQ(code([=](Gpu& g) { g.enforce_links = true, g.bandwidth_in = rate; }), StatusCode::kConfigError) << rate;
  }
  BackendConfig twice;
  twice.simulated = {gpu(), gpu()};
  twice.simulated[0].name = "sim:1";
  EXPECT_EQ(create_host_backend(twice).error().code(), StatusCode::kConfigError);
  twice.simulated[0].name = "host:0";
  EXPECT_EQ(create_host_backend(twice).error().code(), StatusCode::kConfigError);
}

TEST(HostBackendTest, HandsItsDevicesOverOnce) {
  auto backend = create_host_backend(BackendConfig());
  ASSERT_TRUE(backend);
  EXPECT_TRUE((*backend)->discover());
  EXPECT_EQ((*backend)->discover().error().code(), StatusCode::kInvalidValue);
}

TEST(HostBackendTest, InjectsTheFaultsOfTheConfigurationFromTheStart) {
  BackendConfig config;
  config.simulated = {gpu()};
  Fault fault;
  fault.call = "allocate";
  fault.code = StatusCode::kOutOfDeviceMemory;
  config.simulated[0].faults = {fault};
  const auto devices = discover(config);
  EXPECT_EQ(devices.back()->allocate(1).error().code(), StatusCode::kOutOfDeviceMemory);
  EXPECT_TRUE(devices.back()->allocate(1));
}

}  // namespace
}  // namespace vmem
