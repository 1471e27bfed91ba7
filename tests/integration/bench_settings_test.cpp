#include "tools/bench/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace vmem {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TopologyDevice device(std::string name, Tier tier, std::uint64_t limit, std::size_t granularity = 2_MiB) {
  TopologyDevice device;
  device.info.name = std::move(name);
  device.info.tier = tier;
  device.info.total_bytes = limit;
  device.info.granularity = granularity;
  device.limit_bytes = limit;
  return device;
}

Topology machine(std::uint64_t gpu_bytes, std::uint64_t host_bytes, std::size_t granularity = 2_MiB) {
  return Topology(
      {device("sim:0", Tier::kDevice, gpu_bytes, granularity), device("sim:1", Tier::kDevice, gpu_bytes, granularity),
       device("host:0", Tier::kHost, host_bytes, 4_KiB)},
      {}, {}, {}, {});
}

Result<BenchPlan> plan(const Topology& topology, const std::string& size,
                       const std::vector<std::string>& devices = {}) {
  BenchOptions options;
  options.size = size;
  const auto settings = parse_settings(options);
  if (!settings) return settings.error();
  return make_plan(topology, *settings, devices, 24_GiB);
}

TEST(BenchSettingsTest, TakesSevenSamplesAndThreeWhenQuick) {
  BenchOptions options;
  EXPECT_EQ(parse_settings(options)->samples, 7U);
  options.quick = true;
  EXPECT_EQ(parse_settings(options)->samples, 3U);
  options.samples = 9;
  EXPECT_EQ(parse_settings(options)->samples, 9U);
}

TEST(BenchSettingsTest, RunsAllPatternsUnlessSomeAreNamed) {
  BenchOptions options;
  EXPECT_EQ(parse_settings(options)->patterns.size(), bench_patterns().size());
  options.patterns = {"triad", "random"};
  EXPECT_TRUE(parse_settings(options)->has("triad"));
  EXPECT_FALSE(parse_settings(options)->has("stencil"));
}

TEST(BenchSettingsTest, NamesTheOptionThatIsWrong) {
  BenchOptions pattern;
  pattern.patterns = {"zigzag"};
  EXPECT_THAT(std::string(parse_settings(pattern).error().message()),
              AllOf(HasSubstr("zigzag"), HasSubstr("sequential")));
  BenchOptions size;
  size.size = "12 apples";
  EXPECT_THAT(std::string(parse_settings(size).error().message()), AllOf(HasSubstr("--size"), HasSubstr("12 apples")));
  BenchOptions samples;
  samples.samples = 0;
  EXPECT_THAT(std::string(parse_settings(samples).error().message()), HasSubstr("--samples"));
}

TEST(BenchPlanTest, LimitsGpusToAThirdOfTheBuffer) {
  const auto made = plan(machine(64_GiB, 64_GiB), "192MiB");
  ASSERT_TRUE(made) << made.error().to_string();
  EXPECT_EQ(made->buffer_bytes, 192_MiB);
  EXPECT_EQ(made->block_bytes, 2_MiB);
  EXPECT_EQ(made->limits.at("sim:0"), 64_MiB);
  EXPECT_EQ(made->limits.at("sim:1"), 64_MiB);
  // What is missing to half as much again as the buffer, or a third of the buffer.
  EXPECT_EQ(made->limits.at("host:0"), 160_MiB);
}

TEST(BenchPlanTest, KeepsToLowerLimitsOfTheTopology) {
  const auto made = plan(machine(16_MiB, 64_GiB), "192MiB");
  ASSERT_TRUE(made) << made.error().to_string();
  EXPECT_EQ(made->limits.at("sim:0"), 16_MiB);
  EXPECT_EQ(made->limits.at("host:0"), 256_MiB);
}

TEST(BenchPlanTest, RoundsTheBufferToWholeBlocks) {
  const auto made = plan(machine(64_GiB, 64_GiB), "100000001");
  ASSERT_TRUE(made) << made.error().to_string();
  EXPECT_EQ(made->buffer_bytes % made->block_bytes, 0U);
  EXPECT_GE(made->buffer_bytes, 100000001U);
}

TEST(BenchPlanTest, UsesLargeBlocksForLargeBuffers) {
  EXPECT_EQ(plan(machine(64_GiB, 64_GiB), "3GiB")->block_bytes, 32_MiB);
  EXPECT_EQ(plan(machine(64_GiB, 64_GiB), "40GiB")->block_bytes, 64_MiB);
}

TEST(BenchPlanTest, RefusesWhatIsTooSmallOrDoesNotFit) {
  EXPECT_THAT(std::string(plan(machine(64_GiB, 64_GiB), "1MiB").error().message()), HasSubstr("too small"));
  EXPECT_THAT(std::string(plan(machine(64_GiB, 64_GiB), "0").error().message()), HasSubstr("too small"));
  EXPECT_THAT(std::string(plan(machine(1_GiB, 1_GiB), "4GiB").error().message()), HasSubstr("more than they may give"));
  EXPECT_FALSE(plan(machine(1_GiB, 1_GiB), "18446744073709551615"));
}

TEST(BenchPlanTest, PicksTheDevicesThatWork) {
  const Topology topology = machine(64_GiB, 64_GiB);
  EXPECT_EQ(plan(topology, "192MiB")->workers, (std::vector<DeviceIndex>{0, 1, 2}));
  EXPECT_EQ(plan(topology, "192MiB", {"sim:1"})->workers, (std::vector<DeviceIndex>{1}));
  EXPECT_THAT(std::string(plan(topology, "192MiB", {"cuda:7"}).error().message()), HasSubstr("cuda:7"));
}

}  // namespace
}  // namespace vmem
