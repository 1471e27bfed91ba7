#include "runtime/topology/measure.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "tests/unit/topology/device_samples.hpp"

namespace vmem {
namespace {

using std::chrono::nanoseconds;

Topology machine(LinkSource first = LinkSource::kAssumed) {
  std::vector<TopologyDevice> devices(2);
  devices[0].info = sample_gpu("cuda:0", "nvidia", {});
  devices[1].info = sample_host(0);
  Route forced;
  forced.devices = {0, 1};
  forced.bytes_per_second = 1e9;
  forced.latency = nanoseconds(1);
  forced.forced = true;
  return Topology(
      devices,
      {Link{0, 1, false, 1e9, nanoseconds(1), first}, Link{1, 0, false, 1e9, nanoseconds(1), LinkSource::kAssumed}},
      {forced}, {{"cuda:0", "narrow"}}, {{"rocm", "no driver"}});
}

// A link of a known latency and rate; the first copies of a size are slow, as on a card that wakes.
class KnownLink {
 public:
  KnownLink(double latency, double rate) : latency_(latency), rate_(rate) {}

  Result<double> copy(DeviceIndex from, DeviceIndex to, std::size_t bytes) {
    const int count = ++counts_[{from, to}];
    const double seconds = latency_ + static_cast<double>(bytes) / rate_;
    return count <= 3 ? seconds * 10 : seconds;
  }
  LinkCopy callable() {
    return [this](DeviceIndex from, DeviceIndex to, std::size_t bytes) { return copy(from, to, bytes); };
  }

 private:
  double latency_;
  double rate_;
  std::map<std::pair<DeviceIndex, DeviceIndex>, int> counts_;
};

TEST(MeasureTest, FindsTheRateAndTheLatencyOnceTheLinkIsAwake) {
  KnownLink link(7e-6, 55e9);
  const auto measured = measure_links(machine(), link.callable());
  ASSERT_EQ(measured.links.size(), 2U);
  EXPECT_TRUE(measured.notes.empty());
  for (const Link& found : measured.links) {
    EXPECT_EQ(found.source, LinkSource::kMeasured);
    EXPECT_NEAR(found.bytes_per_second, 55e9, 0.1e9);
    EXPECT_NEAR(static_cast<double>(found.latency.count()), 7000, 150);
  }
}

TEST(MeasureTest, TakesMediansOfOutliers) {
  int count = 0;
  const auto measured = measure_links(machine(), [&](DeviceIndex, DeviceIndex, std::size_t bytes) -> Result<double> {
    const double seconds = 1e-6 + static_cast<double>(bytes) / 10e9;
    return ++count % 4 == 0 ? seconds * 50 : seconds;
  });
  ASSERT_EQ(measured.links.size(), 2U);
  EXPECT_NEAR(measured.links[0].bytes_per_second, 10e9, 0.01e9);
}

TEST(MeasureTest, LeavesLinksOfTheFileAlone) {
  KnownLink link(7e-6, 55e9);
  const Topology topology = machine(LinkSource::kFile);
  const auto measured = measure_links(topology, link.callable());
  ASSERT_EQ(measured.links.size(), 1U);
  EXPECT_EQ(measured.links[0].from, 1U);
  // Even figures from elsewhere don't replace the file's.
  LinkMeasurements forged = measured;
  forged.links.push_back(Link{0, 1, false, 9e9, nanoseconds(9), LinkSource::kMeasured});
  const Topology merged = with_measurements(topology, forged);
  EXPECT_DOUBLE_EQ(merged.link(0, 1)->bytes_per_second, 1e9);
  EXPECT_EQ(merged.link(0, 1)->source, LinkSource::kFile);
  EXPECT_EQ(merged.link(1, 0)->source, LinkSource::kMeasured);
}

TEST(MeasureTest, KeepsEverythingElseAndMovesForcedRoutesAlong) {
  KnownLink link(7e-6, 55e9);
  const Topology topology = machine();
  const Topology merged = with_measurements(topology, measure_links(topology, link.callable()));
  EXPECT_EQ(merged.devices().size(), 2U);
  EXPECT_EQ(merged.notes().size(), 1U);
  EXPECT_EQ(merged.absent_backends().size(), 1U);
  const auto route = merged.route(0, 1, 1);
  ASSERT_TRUE(route);
  EXPECT_TRUE(route->forced);
  EXPECT_NEAR(route->bytes_per_second, 55e9, 0.1e9);
  EXPECT_NEAR(static_cast<double>(route->latency.count()), 7000, 150);
}

class MeasureFailure : public testing::TestWithParam<double> {};

TEST_P(MeasureFailure, KeepsTheEstimateAndSaysSo) {
  const Topology topology = machine();
  const auto measured = measure_links(topology, [&](DeviceIndex from, DeviceIndex, std::size_t) -> Result<double> {
    if (from == 1) return 0.001;
    if (GetParam() == 7) return Status(StatusCode::kDeviceFailed, "gone");
    return GetParam();
  });
  ASSERT_EQ(measured.links.size(), 1U);
  ASSERT_EQ(measured.notes.size(), 1U);
  EXPECT_EQ(measured.notes[0].device, "cuda:0");
  const Topology merged = with_measurements(topology, measured);
  EXPECT_EQ(merged.link(0, 1)->source, LinkSource::kAssumed);
  EXPECT_EQ(merged.notes().size(), 2U);
}

INSTANTIATE_TEST_SUITE_P(Kinds, MeasureFailure,
                         testing::Values(7.0, 0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                                         std::numeric_limits<double>::infinity()));

TEST(MeasureTest, SurvivesACopyWhoseTimeDoesNotDependOnItsSize) {
  const auto measured =
      measure_links(machine(), [](DeviceIndex, DeviceIndex, std::size_t) -> Result<double> { return 0.001; });
  ASSERT_EQ(measured.links.size(), 2U);
  EXPECT_NEAR(measured.links[0].bytes_per_second, 64 * 1048576 / 0.001, 1);
  EXPECT_EQ(measured.links[0].latency, nanoseconds(0));
}

}  // namespace
}  // namespace vmem
