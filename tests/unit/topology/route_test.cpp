#include <gtest/gtest.h>
#include <vmem/topology.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "tests/unit/topology/device_samples.hpp"

namespace vmem {
namespace {

using std::chrono::nanoseconds;

TopologyDevice place(DeviceInfo info) {
  TopologyDevice device;
  device.info = std::move(info);
  return device;
}

// GPUs 0 .. gpus-1, then host nodes, then one disk.
std::vector<TopologyDevice> places(unsigned gpus, unsigned hosts, bool disk = false) {
  std::vector<TopologyDevice> devices;
  for (unsigned i = 0; i < gpus; ++i) devices.push_back(place(sample_gpu("cuda:" + std::to_string(i), "nvidia", {})));
  for (unsigned i = 0; i < hosts; ++i) devices.push_back(place(sample_host(i)));
  if (disk) {
    devices.push_back(place(sample_host(99)));
    devices.back().info.name = "nvme:0";
    devices.back().info.tier = Tier::kStorage;
  }
  return devices;
}

Link make_link(DeviceIndex from, DeviceIndex to, double rate, int latency) {
  return Link{from, to, false, rate, nanoseconds(latency), LinkSource::kAssumed};
}

using Path = std::vector<DeviceIndex>;

// Every simple path of up to three links, by plain recursion.
void each_path(const Topology& topology, Path& path, DeviceIndex to, const std::function<void(const Path&)>& visit) {
  if (path.back() == to) return visit(path);
  if (path.size() == 4) return;
  for (const Link& link : topology.links()) {
    if (link.from != path.back() || std::find(path.begin(), path.end(), link.to) != path.end()) continue;
    const Tier tier = topology.devices()[link.to].info.tier;
    if (link.to != to && tier != Tier::kDevice && tier != Tier::kHost) continue;
    path.push_back(link.to);
    each_path(topology, path, to, visit);
    path.pop_back();
  }
}

double cost_of(const Topology& topology, const Path& path, std::size_t bytes) {
  double latency = 0;
  double rate = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i + 1 < path.size(); ++i) {
    const Link& link = *topology.link(path[i], path[i + 1]);
    latency += static_cast<double>(link.latency.count()) * 1e-9;
    rate = std::min(rate, link.bytes_per_second);
  }
  return latency + static_cast<double>(bytes) / rate;
}

TEST(RouteTest, AgreesWithBruteForceOnRandomMachines) {
  std::mt19937 random(7);
  const auto below = [&](unsigned bound) { return static_cast<unsigned>(random() % bound); };
  std::size_t compared = 0;
  std::size_t without = 0;
  for (int round = 0; round < 200; ++round) {
    auto devices = places(1 + below(4), 1 + below(2), below(2) == 0);
    std::vector<Link> links;
    for (DeviceIndex from = 0; from < devices.size(); ++from) {
      for (DeviceIndex to = 0; to < devices.size(); ++to) {
        if (from == to || below(3) == 0) continue;
        links.push_back(make_link(from, to, 1e9 * (1 + below(60)), static_cast<int>(below(20'000))));
      }
    }
    const Topology topology(devices, links, {}, {}, {});
    for (const std::size_t bytes : {std::size_t{1}, 64_KiB, 16_MiB, 1_TiB, std::numeric_limits<std::size_t>::max()}) {
      for (DeviceIndex from = 0; from < devices.size(); ++from) {
        for (DeviceIndex to = 0; to < devices.size(); ++to) {
          if (from == to) continue;
          double best = std::numeric_limits<double>::infinity();
          Path path{from};
          each_path(topology, path, to,
                    [&](const Path& found) { best = std::min(best, cost_of(topology, found, bytes)); });
          const auto route = topology.route(from, to, bytes);
          ++compared;
          if (std::isinf(best)) {
            ++without;
            ASSERT_EQ(route.error().code(), StatusCode::kNotFound);
            continue;
          }
          ASSERT_TRUE(route) << route.error().to_string();
          ASSERT_NEAR(Topology::cost_seconds(*route, bytes), best, best * 1e-9);
          ASSERT_NEAR(cost_of(topology, route->devices, bytes), best, best * 1e-9);
        }
      }
    }
  }
  EXPECT_GT(compared, 10'000U);
  EXPECT_GT(without, 0U);
}

TEST(RouteTest, ChoosesByLatencyWhenSmallAndByBandwidthWhenLarge) {
  const Topology topology(places(2, 1),
                          {make_link(0, 1, 1e9, 1'000), make_link(0, 2, 50e9, 5'000), make_link(2, 1, 50e9, 5'000)}, {},
                          {}, {});
  EXPECT_EQ(topology.route(0, 1, 64)->devices, (Path{0, 1}));
  EXPECT_EQ(topology.route(0, 1, 1_GiB)->devices, (Path{0, 2, 1}));
}

TEST(RouteTest, PrefersFewerLinksThenLowerIndicesOnTies) {
  std::vector<Link> links = {make_link(0, 1, 1e9, 0)};
  for (const DeviceIndex host : {DeviceIndex{3}, DeviceIndex{2}}) {
    links.push_back(make_link(0, host, 1e9, 0));
    links.push_back(make_link(host, 1, 1e9, 0));
  }
  EXPECT_EQ(Topology(places(2, 2), links, {}, {}, {}).route(0, 1, 1_MiB)->devices, (Path{0, 1}));
  links.erase(links.begin());
  EXPECT_EQ(Topology(places(2, 2), links, {}, {}, {}).route(0, 1, 1_MiB)->devices, (Path{0, 2, 1}));
}

TEST(RouteTest, PassesThroughHostMemoryWhereThereIsNoPeerPath) {
  const Topology topology(places(2, 1), {make_link(0, 2, 20e9, 100), make_link(2, 1, 10e9, 200)}, {}, {}, {});
  const auto route = topology.route(0, 1, 1_GiB);
  ASSERT_TRUE(route);
  EXPECT_EQ(route->devices, (Path{0, 2, 1}));
  EXPECT_DOUBLE_EQ(route->bytes_per_second, 10e9);
  EXPECT_EQ(route->latency, nanoseconds(300));
  EXPECT_EQ(topology.route(1, 0, 1).error().code(), StatusCode::kNotFound);
}

TEST(RouteTest, NeverRelaysThroughStorage) {
  const Topology topology(places(2, 0, true), {make_link(0, 2, 20e9, 100), make_link(2, 1, 10e9, 200)}, {}, {}, {});
  EXPECT_EQ(topology.route(0, 1, 1).error().code(), StatusCode::kNotFound);
  EXPECT_TRUE(topology.route(0, 2, 1));
}

TEST(RouteTest, GivesAForcedRouteEvenIfItIsSlower) {
  Route forced;
  forced.devices = {0, 2, 1};
  forced.bytes_per_second = 1e6;
  forced.forced = true;
  const Topology topology(places(2, 1), {make_link(0, 1, 50e9, 0)}, {forced}, {}, {});
  EXPECT_TRUE(topology.route(0, 1, 1_GiB)->forced);
  EXPECT_EQ(topology.route(1, 0, 1).error().code(), StatusCode::kNotFound);
}

TEST(RouteTest, StaysWithinADeviceAtNoCost) {
  const Topology topology(places(1, 0), {}, {}, {}, {});
  const auto route = topology.route(0, 0, 1_TiB);
  ASSERT_TRUE(route);
  EXPECT_EQ(route->devices, (Path{0}));
  EXPECT_EQ(Topology::cost_seconds(*route, 1_TiB), 0);
}

TEST(RouteTest, NamesWhatIsUnknown) {
  const Topology topology(places(1, 1), {}, {}, {}, {});
  EXPECT_EQ(topology.route(0, 2, 1).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(topology.route(7, 0, 1).error().code(), StatusCode::kInvalidValue);
  const auto found = topology.find("rocm:0");
  EXPECT_EQ(found.error().code(), StatusCode::kNotFound);
  EXPECT_NE(found.error().message().find("cuda:0, host:0"), std::string::npos);
  EXPECT_EQ(topology.link(0, 9), nullptr);
  EXPECT_EQ(Topology().find("x").error().code(), StatusCode::kNotFound);
}

TEST(RouteDeathTest, TwoLinksBetweenTheSameDevicesBreakTheContract) {
  EXPECT_DEATH(Topology(places(2, 0), {make_link(0, 1, 1, 1), make_link(0, 1, 2, 2)}, {}, {}, {}), "");
}

}  // namespace
}  // namespace vmem
