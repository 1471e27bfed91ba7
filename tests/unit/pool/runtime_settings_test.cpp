#include "runtime/pool/runtime_settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/pool/scoped_environment.hpp"

namespace vmem {
namespace {

using ::testing::HasSubstr;

class RuntimeSettingsTest : public ::testing::Test {
 protected:
  RuntimeSettingsTest() {
    for (const char* name : {"VMEM_TOPOLOGY", "VMEM_BACKEND_DIR", "VMEM_SIMULATED_GPUS", "VMEM_HOST_LIMIT",
                             "VMEM_STAGING_LIMIT", "VMEM_COPY_TIMEOUT_MS", "VMEM_LOG"}) {
      environment_.unset(name);
    }
  }

  // The message of the kConfigError that these options give; empty where they are fine.
  std::string complaint() const {
    const auto settings = resolve_settings(options_);
    if (settings) return {};
    EXPECT_EQ(settings.error().code(), StatusCode::kConfigError);
    return std::string(settings.error().message());
  }

  ScopedEnvironment environment_;
  RuntimeOptions options_;
};

TEST_F(RuntimeSettingsTest, DefaultsSuitAWorkstation) {
  const auto settings = resolve_settings(options_);
  ASSERT_TRUE(settings) << settings.error().to_string();
  EXPECT_EQ(settings->topology_file, "");
  EXPECT_EQ(settings->backend_dir, "");
  EXPECT_EQ(settings->simulated_gpus, 2U);
  EXPECT_EQ(settings->host_limit_bytes, 0U);
  EXPECT_EQ(settings->staging_bytes, 256_MiB);
  EXPECT_EQ(settings->copy_timeout, std::chrono::seconds(30));
  EXPECT_EQ(settings->log_level, LogLevel::kWarn);
}

TEST_F(RuntimeSettingsTest, TheEnvironmentFillsWhatTheCallLeavesOpen) {
  environment_.set("VMEM_TOPOLOGY", "/some/topology.json");
  environment_.set("VMEM_BACKEND_DIR", "/");
  environment_.set("VMEM_SIMULATED_GPUS", "5");
  environment_.set("VMEM_HOST_LIMIT", "3GiB");
  environment_.set("VMEM_STAGING_LIMIT", "1MiB");
  environment_.set("VMEM_COPY_TIMEOUT_MS", "1500");
  environment_.set("VMEM_LOG", "debug");
  const auto settings = resolve_settings(options_);
  ASSERT_TRUE(settings) << settings.error().to_string();
  EXPECT_EQ(settings->topology_file, "/some/topology.json");
  EXPECT_EQ(settings->topology_file_origin, "environment variable VMEM_TOPOLOGY");
  EXPECT_EQ(settings->backend_dir, "/");
  EXPECT_EQ(settings->simulated_gpus, 5U);
  EXPECT_EQ(settings->host_limit_bytes, 3_GiB);
  EXPECT_EQ(settings->staging_bytes, 1_MiB);
  EXPECT_EQ(settings->copy_timeout, std::chrono::milliseconds(1500));
  EXPECT_EQ(settings->log_level, LogLevel::kDebug);
}

TEST_F(RuntimeSettingsTest, TheCallGoesBeforeTheEnvironment) {
  environment_.set("VMEM_TOPOLOGY", "/environment.json");
  environment_.set("VMEM_BACKEND_DIR", "/no/such/folder");
  environment_.set("VMEM_SIMULATED_GPUS", "not a number");
  environment_.set("VMEM_HOST_LIMIT", "3GiB");
  environment_.set("VMEM_STAGING_LIMIT", "1");
  environment_.set("VMEM_COPY_TIMEOUT_MS", "-1");
  environment_.set("VMEM_LOG", "chatty");
  options_.topology_file = "/call.json";
  options_.backend_dir = "/";
  options_.simulated_gpus = 0;
  options_.host_limit_bytes = 1_GiB;
  options_.staging_bytes = 8_MiB;
  options_.copy_timeout = std::chrono::milliseconds(7);
  options_.log_level = LogLevel::kOff;
  const auto settings = resolve_settings(options_);
  ASSERT_TRUE(settings) << settings.error().to_string();
  EXPECT_EQ(settings->topology_file, "/call.json");
  EXPECT_EQ(settings->simulated_gpus, 0U);
  EXPECT_EQ(settings->host_limit_bytes, 1_GiB);
  EXPECT_EQ(settings->staging_bytes, 8_MiB);
  EXPECT_EQ(settings->copy_timeout, std::chrono::milliseconds(7));
  EXPECT_EQ(settings->log_level, LogLevel::kOff);
}

struct WrongVariable {
  const char* name;
  const char* value;
};

class WrongVariableTest : public RuntimeSettingsTest, public ::testing::WithParamInterface<WrongVariable> {};

TEST_P(WrongVariableTest, IsAConfigErrorThatNamesIt) {
  environment_.set(GetParam().name, GetParam().value);
  const std::string text = complaint();
  EXPECT_THAT(text, HasSubstr(GetParam().name));
  EXPECT_THAT(text, HasSubstr("expected"));
}

INSTANTIATE_TEST_SUITE_P(
    EveryVariable, WrongVariableTest,
    ::testing::Values(WrongVariable{"VMEM_BACKEND_DIR", "/no/such/folder"},
                      WrongVariable{"VMEM_BACKEND_DIR", "/etc/passwd"}, WrongVariable{"VMEM_SIMULATED_GPUS", "65"},
                      WrongVariable{"VMEM_SIMULATED_GPUS", "-1"}, WrongVariable{"VMEM_SIMULATED_GPUS", "two"},
                      WrongVariable{"VMEM_HOST_LIMIT", "much"}, WrongVariable{"VMEM_HOST_LIMIT", "-1"},
                      WrongVariable{"VMEM_HOST_LIMIT", "99999999999999999999"},
                      WrongVariable{"VMEM_STAGING_LIMIT", "1KiB"}, WrongVariable{"VMEM_STAGING_LIMIT", "0"},
                      WrongVariable{"VMEM_COPY_TIMEOUT_MS", "0"}, WrongVariable{"VMEM_COPY_TIMEOUT_MS", "1e3"},
                      WrongVariable{"VMEM_COPY_TIMEOUT_MS", "99999999999"}, WrongVariable{"VMEM_LOG", "chatty"}));

TEST_F(RuntimeSettingsTest, WrongOptionsAreNamed) {
  options_.backend_dir = "/no/such/folder";
  EXPECT_THAT(complaint(), HasSubstr("option backend_dir='/no/such/folder'"));
  options_ = {};
  options_.simulated_gpus = 1000;
  EXPECT_THAT(complaint(), HasSubstr("option simulated_gpus=1000"));
  options_ = {};
  options_.staging_bytes = 5;
  EXPECT_THAT(complaint(), HasSubstr("option staging_bytes=5 B"));
  options_ = {};
  options_.copy_timeout = std::chrono::milliseconds(-5);
  EXPECT_THAT(complaint(), HasSubstr("option copy_timeout=-5 ms"));
  options_ = {};
  options_.copy_timeout = std::chrono::milliseconds::max();
  EXPECT_THAT(complaint(), HasSubstr("option copy_timeout"));
  options_ = {};
  options_.log_level = static_cast<LogLevel>(9);
  EXPECT_THAT(complaint(), HasSubstr("option log_level=9"));
}

TEST_F(RuntimeSettingsTest, DefaultSimulatedGpusAreOfTwoVendors) {
  const auto devices = default_simulated_gpus(3);
  ASSERT_EQ(devices.size(), 3U);
  EXPECT_EQ(devices[0].name, "sim:0");
  EXPECT_EQ(devices[1].name, "sim:1");
  EXPECT_NE(devices[0].vendor, devices[1].vendor);
  EXPECT_EQ(devices[0].vendor, devices[2].vendor);
  EXPECT_EQ(devices[0].total_bytes, 256_MiB);
  EXPECT_FALSE(devices[0].enforce_links);
}

}  // namespace
}  // namespace vmem
