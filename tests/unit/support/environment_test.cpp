#include "runtime/support/environment.hpp"

#include <vmem/types.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace vmem {
namespace {

using testing::HasSubstr;

constexpr const char* kName = "VMEM_TEST_VARIABLE";

class EnvironmentTest : public testing::Test {
 protected:
  void TearDown() override {
    ::unsetenv(kName);
    ::unsetenv("VMEM_LOG");
  }
  static void set(const char* value) { ::setenv(kName, value, 1); }

  template <typename T>
  static void expect_config_error(const Result<T>& result, const std::string& value, const std::string& expected) {
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code(), StatusCode::kConfigError);
    const std::string message(result.error().message());
    EXPECT_THAT(message, HasSubstr(std::string(kName) + "='" + value + "'"));
    EXPECT_THAT(message, HasSubstr(expected));
  }
};

TEST_F(EnvironmentTest, UnsetAndEmptyAreAbsent) {
  EXPECT_EQ(read_environment(kName), std::nullopt);
  EXPECT_EQ(read_environment_bytes(kName).value(), std::nullopt);
  set("");
  EXPECT_EQ(read_environment(kName), std::nullopt);
  EXPECT_EQ(read_environment_count(kName, 0, 9).value(), std::nullopt);
  EXPECT_EQ(read_environment_flag(kName).value(), std::nullopt);
  EXPECT_EQ(read_environment_choice(kName, {"a"}).value(), std::nullopt);
  EXPECT_EQ(read_environment_log_level().value(), std::nullopt);
}

TEST_F(EnvironmentTest, ReadsByteCounts) {
  set("64MiB");
  EXPECT_EQ(read_environment_bytes(kName).value(), 64_MiB);
  set("64 elephants");
  expect_config_error(read_environment_bytes(kName), "64 elephants", "byte count");
  set("-1");
  expect_config_error(read_environment_bytes(kName), "-1", "byte count");
}

TEST_F(EnvironmentTest, ReadsCountsWithinTheirBounds) {
  set("3");
  EXPECT_EQ(read_environment_count(kName, 1, 3).value(), 3U);
  for (const char* wrong : {"0", "4", "-1", "3.14", "3x", " 3", "18446744073709551616"}) {
    set(wrong);
    expect_config_error(read_environment_count(kName, 1, 3), wrong, "from 1 to 3");
  }
}

TEST_F(EnvironmentTest, ReadsFlags) {
  for (const char* yes : {"1", "on", "true"}) {
    set(yes);
    EXPECT_EQ(read_environment_flag(kName).value(), true);
  }
  for (const char* no : {"0", "off", "false"}) {
    set(no);
    EXPECT_EQ(read_environment_flag(kName).value(), false);
  }
  set("maybe");
  expect_config_error(read_environment_flag(kName), "maybe", "one of 0, 1, off, on");
}

TEST_F(EnvironmentTest, ReadsChoicesByTheirPlace) {
  set("best");
  EXPECT_EQ(read_environment_choice(kName, {"first", "best"}).value(), 1U);
  set("Best");
  expect_config_error(read_environment_choice(kName, {"first", "best"}), "Best", "one of first, best");
}

TEST_F(EnvironmentTest, ReadsTheLogLevel) {
  ::setenv("VMEM_LOG", "debug", 1);
  EXPECT_EQ(read_environment_log_level().value(), LogLevel::kDebug);
  ::setenv("VMEM_LOG", "loud", 1);
  EXPECT_EQ(read_environment_log_level().error().code(), StatusCode::kConfigError);
}

}  // namespace
}  // namespace vmem
