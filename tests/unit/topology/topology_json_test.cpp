#include <gtest/gtest.h>
#include <vmem/topology.hpp>

#include <nlohmann/json.hpp>
#include <vector>

#include "tests/unit/topology/device_samples.hpp"

namespace vmem {
namespace {

Topology machine() {
  std::vector<TopologyDevice> devices(3);
  devices[0].info = sample_gpu("cuda:0", "nvidia", {0, 0x41, 0, 0});
  devices[0].limit_bytes = 8_GiB;
  devices[0].card = "0000:41:00.0";
  devices[0].link_width = 4;
  devices[1].info = sample_simulated("sim:0", "simulated");
  devices[2].info = sample_host(0);
  const auto link = [](DeviceIndex from, DeviceIndex to) {
    return Link{from, to, false, 25e9, std::chrono::nanoseconds(700), LinkSource::kMeasured};
  };
  return Topology(devices, {link(0, 2), link(2, 0), link(1, 2)}, {}, {{"", "note"}}, {{"rocm", "no driver"}});
}

TEST(TopologyJsonTest, TellsEverything) {
  const auto json = nlohmann::json::parse(machine().to_json({{3_GiB, 16_GiB}}));
  EXPECT_EQ(json["schema_version"], 1);
  ASSERT_EQ(json["devices"].size(), 3U);
  const auto& gpu = json["devices"][0];
  EXPECT_EQ(gpu["name"], "cuda:0");
  EXPECT_EQ(gpu["pci"], "0000:41:00.0");
  EXPECT_EQ(gpu["total_bytes"], 16_GiB);
  EXPECT_EQ(gpu["limit_bytes"], 8_GiB);
  EXPECT_EQ(gpu["free_bytes"], 3_GiB);
  EXPECT_EQ(gpu["pcie"]["width"], 4);
  EXPECT_TRUE(gpu["pcie"]["gts"].is_null());
  EXPECT_TRUE(gpu["numa_node"].is_null());
  EXPECT_EQ(gpu["capabilities"].size(), 4U);
  EXPECT_TRUE(json["devices"][1]["free_bytes"].is_null());
  EXPECT_EQ(json["devices"][1]["simulated"], true);
  EXPECT_EQ(json["devices"][2]["tier"], "host");
  ASSERT_EQ(json["links"].size(), 3U);
  EXPECT_EQ(json["links"][0]["from"], "cuda:0");
  EXPECT_EQ(json["links"][0]["latency_ns"], 700);
  EXPECT_EQ(json["links"][0]["source"], "measured");
  // cuda-host, host-cuda, sim-host, sim-host-cuda.
  ASSERT_EQ(json["routes"].size(), 4U);
  EXPECT_EQ(json["routes"][1]["devices"], (std::vector<std::string>{"sim:0", "host:0", "cuda:0"}));
  EXPECT_EQ(json["absent_backends"][0]["reason"], "no driver");
  EXPECT_EQ(json["notes"][0]["text"], "note");
  EXPECT_TRUE(json["notes"][0]["device"].is_null());
}

TEST(TopologyJsonTest, IsTheSameTextEveryTime) {
  EXPECT_EQ(machine().to_json(), machine().to_json());
  EXPECT_EQ(nlohmann::ordered_json::parse(machine().to_json()).begin().key(), "schema_version");
}

TEST(TopologyJsonTest, StandsNamesThatAreNoUtf8) {
  std::vector<TopologyDevice> devices(1);
  devices[0].info = sample_host(0);
  devices[0].info.model = "bad \xff name";
  const Topology topology(devices, {}, {}, {}, {});
  EXPECT_TRUE(nlohmann::json::accept(topology.to_json()));
}

TEST(TopologyJsonTest, AnEmptyMachineIsValid) {
  const auto json = nlohmann::json::parse(Topology().to_json());
  EXPECT_TRUE(json["devices"].is_array());
  EXPECT_TRUE(json["routes"].is_array());
}

}  // namespace
}  // namespace vmem
