#include "runtime/pool/device_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/unit/pool/host_backend.hpp"
#include "tests/unit/pool/plain_device.hpp"

namespace vmem {
namespace {

using ::testing::HasSubstr;

std::string verdict(const std::function<void(DeviceInfo&)>& change) {
  DeviceInfo info = plain_device_info("plain:0", "plain");
  change(info);
  PlainDevice device(info);
  return std::string(check_device(device, "plain").message());
}

TEST(DeviceCheckTest, APlainDeviceIsFine) {
  EXPECT_EQ(verdict([](DeviceInfo&) {}), "");
}

TEST(DeviceCheckTest, WrongFiguresAreNamed) {
  EXPECT_THAT(verdict([](DeviceInfo& info) { info.name.clear(); }), HasSubstr("no name"));
  EXPECT_THAT(verdict([](DeviceInfo& info) { info.backend = "other"; }), HasSubstr("'other', not 'plain'"));
  EXPECT_THAT(verdict([](DeviceInfo& info) { info.total_bytes = 0; }), HasSubstr("no memory"));
  EXPECT_THAT(verdict([](DeviceInfo& info) { info.granularity = 12345; }), HasSubstr("granularity of 12345"));
  EXPECT_THAT(verdict([](DeviceInfo& info) { info.granularity = 512; }), HasSubstr("granularity of 512"));
  EXPECT_THAT(verdict([](DeviceInfo& info) {
                info.caps = info.caps.with(DeviceCap::kKernels);
                info.wave_width = 48;
              }),
              HasSubstr("wave width of 48"));
  EXPECT_THAT(verdict([](DeviceInfo& info) {
                info.caps = info.caps.with(DeviceCap::kPeerCopy);
                info.address_space.clear();
              }),
              HasSubstr("no address space"));
}

TEST(DeviceCheckTest, AnAnnouncedGroupThatIsNotThereIsNamed) {
  EXPECT_THAT(verdict([](DeviceInfo& info) { info.caps = info.caps.with(DeviceCap::kVirtualMemory); }),
              HasSubstr("announces virtual memory, but answers that it is unsupported"));
  EXPECT_THAT(verdict([](DeviceInfo& info) {
                info.caps = info.caps.with(DeviceCap::kKernels);
                info.wave_width = 32;
              }),
              HasSubstr("announces kernels"));
}

class WithWindows : public PlainDevice {
 public:
  using PlainDevice::PlainDevice;
  Result<void*> reserve_window(std::size_t bytes) override { return allocate(bytes); }
  Status release_window(void* window, std::size_t) override { return deallocate(window); }
};

TEST(DeviceCheckTest, AGroupThatIsThereMustBeAnnounced) {
  WithWindows device(plain_device_info("plain:0", "plain"));
  EXPECT_THAT(std::string(check_device(device, "plain").message()), HasSubstr("does not announce virtual memory"));
}

TEST(DeviceCheckTest, TheHostBackendsDevicesPass) {
  BackendConfig config;
  config.simulated.emplace_back().total_bytes = 16_MiB;
  const auto backend = load_host_backend(config);
  auto devices = backend->discover();
  ASSERT_TRUE(devices);
  for (const auto& device : *devices) {
    const Status status = check_device(*device, "host");
    EXPECT_TRUE(status) << device->info().name << ": " << status.to_string();
  }
}

}  // namespace
}  // namespace vmem
