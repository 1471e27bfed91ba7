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

// Two GPUs (0 and 1) and a host node (2), each GPU in a slot of its own.
std::vector<Link> two_slots(double slot, double peer) {
  std::vector<Link> links;
  for (const DeviceIndex gpu : {DeviceIndex{0}, DeviceIndex{1}}) {
    links.push_back(make_link(gpu, 2, slot, 1'000));
    links.push_back(make_link(2, gpu, slot, 1'000));
    if (peer > 0) links.push_back(make_link(gpu, 1 - gpu, peer, 1'000));
  }
  return links;
}

TEST(RouteTest, SharesOfSeveralRoutesEndAtOnce) {
  const Topology topology(places(2, 1), two_slots(50e9, 400e9), {}, {}, {});
  const auto in = topology.routes(2, 0, 1_GiB);
  ASSERT_TRUE(in);
  ASSERT_EQ(in->size(), 2U);
  EXPECT_EQ((*in)[0].devices, (Path{2, 0}));
  EXPECT_EQ((*in)[1].devices, (Path{2, 1, 0}));
  double shares = 0;
  std::vector<double> ends;
  for (const Route& route : *in) {
    shares += route.share;
    ends.push_back(static_cast<double>(route.latency.count()) * 1e-9 + route.share * 0x1p30 / route.bytes_per_second);
  }
  EXPECT_NEAR(shares, 1, 1e-9);
  EXPECT_NEAR(ends[0], ends[1], 1e-9);
  const auto across = topology.routes(0, 1, 1_GiB);
  ASSERT_TRUE(across);
  ASSERT_EQ(across->size(), 2U);
  EXPECT_EQ((*across)[0].devices, (Path{0, 1}));
  EXPECT_EQ((*across)[1].devices, (Path{0, 2, 1}));
  EXPECT_NEAR((*across)[1].share, 50.0 / 450, 0.01);
}

TEST(RouteTest, OneRouteIsEnoughWhereOthersPassThroughTheSameSlotOrBringLittle) {
  // A peer link as slow as the slots passes through them.
  EXPECT_EQ(Topology(places(2, 1), two_slots(50e9, 50e9), {}, {}, {}).routes(2, 0, 1_GiB)->size(), 1U);
  EXPECT_EQ(Topology(places(2, 1), two_slots(50e9, 0), {}, {}, {}).routes(2, 0, 1_GiB)->size(), 1U);
  // Few bytes: the second route would hardly have begun.
  EXPECT_EQ(Topology(places(2, 1), two_slots(50e9, 400e9), {}, {}, {}).routes(2, 0, 4_KiB)->size(), 1U);
  // Two NUMA nodes, one slot.
  const std::vector<Link> nodes = {make_link(1, 0, 50e9, 0), make_link(2, 0, 50e9, 0), make_link(1, 2, 90e9, 0)};
  EXPECT_EQ(Topology(places(1, 2), nodes, {}, {}, {}).routes(1, 0, 1_GiB)->size(), 1U);
  // Parts of one card.
  auto parts = places(2, 1);
  parts[0].card = parts[1].card = "0000:41:00.0";
  EXPECT_EQ(Topology(parts, two_slots(50e9, 400e9), {}, {}, {}).routes(2, 0, 1_GiB)->size(), 1U);
}

TEST(RouteTest, AForcedRouteIsAlone) {
  Route forced;
  forced.devices = {2, 1, 0};
  forced.bytes_per_second = 1e6;
  forced.forced = true;
  const Topology topology(places(2, 1), two_slots(50e9, 400e9), {forced}, {}, {});
  const auto routes = topology.routes(2, 0, 1_GiB);
  ASSERT_TRUE(routes);
  ASSERT_EQ(routes->size(), 1U);
  EXPECT_TRUE(routes->front().forced);
}

// Three slots beside the best: eight GPUs that all see each other.
TEST(RouteTest, ManyPeersCarryTogether) {
  std::vector<Link> links;
  for (DeviceIndex gpu = 0; gpu < 8; ++gpu) {
    links.push_back(make_link(8, gpu, 50e9, 1'000));
    for (DeviceIndex other = 0; other < 8; ++other) {
      if (other != gpu) links.push_back(make_link(gpu, other, 400e9, 1'000));
    }
  }
  const auto routes = Topology(places(8, 1), links, {}, {}, {}).routes(8, 0, 4_GiB);
  ASSERT_TRUE(routes);
  EXPECT_EQ(routes->size(), 8U);
  for (const Route& route : *routes) EXPECT_NEAR(route.share, 1.0 / 8, 0.01);
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
