#include "runtime/topology/topology_file.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace vmem {
namespace {

using std::chrono::nanoseconds;

TopologyFile parse(const std::string& text) {
  auto file = parse_topology_file(text, "t.json");
  EXPECT_TRUE(file) << file.error().to_string();
  return file ? *file : TopologyFile{};
}

TEST(TopologyFileTest, ReadsASimulatedDeviceWithAllItsKeys) {
  const auto file = parse(R"({"version": 1, "simulated_devices": [{
    "name": "red:0", "vendor": "amd", "model": "card", "uuid": "u-1", "capacity": "1GiB", "granularity": "64KiB",
    "wave_width": 64, "capabilities": ["kernels", "peer_copy"], "enforce_links": true, "bandwidth_in": 1e9,
    "bandwidth_out": "2GB/s", "bandwidth_peer": 3000000000, "latency": "1.5us", "pci": "0001:41:1f.7", "numa_node": 3,
    "alias_offset": 4096, "faults": [{"kind": "vanish", "call": "map", "after": 2, "count": 5}]}]})");
  ASSERT_EQ(file.simulated.size(), 1U);
  const SimulatedDevice& device = file.simulated[0];
  EXPECT_EQ(device.name, "red:0");
  EXPECT_EQ(device.vendor, "amd");
  EXPECT_EQ(device.model, "card");
  EXPECT_EQ(device.uuid, "u-1");
  EXPECT_EQ(device.total_bytes, 1_GiB);
  EXPECT_EQ(device.granularity, 64_KiB);
  EXPECT_EQ(device.wave_width, 64U);
  EXPECT_EQ(device.caps.bits(), DeviceCaps().with(DeviceCap::kKernels).with(DeviceCap::kPeerCopy).bits());
  EXPECT_TRUE(device.enforce_links);
  EXPECT_DOUBLE_EQ(device.bandwidth_in, 1e9);
  EXPECT_DOUBLE_EQ(device.bandwidth_out, 2e9);
  EXPECT_DOUBLE_EQ(device.bandwidth_peer, 3e9);
  EXPECT_EQ(device.latency, nanoseconds(1500));
  EXPECT_EQ(device.pci, (PciAddress{1, 0x41, 0x1f, 7}));
  EXPECT_EQ(device.numa_node, 3U);
  EXPECT_EQ(device.alias_offset, 4096U);
  ASSERT_EQ(device.faults.size(), 1U);
  EXPECT_EQ(device.faults[0].kind, Fault::Kind::kVanish);
  EXPECT_EQ(device.faults[0].call, "map");
  EXPECT_EQ(device.faults[0].after, 2U);
  EXPECT_EQ(device.faults[0].count, 5U);
}

TEST(TopologyFileTest, NamesSimulatedDevicesByTheirPlace) {
  const auto file = parse(R"({"version": 1, "simulated_devices": [{"capacity": "4MiB"}, {"capacity": 4194304}]})");
  ASSERT_EQ(file.simulated.size(), 2U);
  EXPECT_EQ(file.simulated[0].name, "sim:0");
  EXPECT_EQ(file.simulated[1].name, "sim:1");
  EXPECT_EQ(file.simulated[0].total_bytes, file.simulated[1].total_bytes);
}

TEST(TopologyFileTest, ReadsCorrectionsLinksAndRoutesWithTheirLines) {
  const auto file = parse(
      "{\"version\": 1, \"strict\": true,\n"
      "\"devices\": [\n"
      "  {\"device\": \"cuda:0\", \"hide\": true, \"capacity\": \"8GiB\", \"limit\": 4096, \"numa_node\": 1},\n"
      "  {\"device\": \"cuda:1\", \"split\": [{\"capacity\": \"1GiB\"}, {\"name\": \"b\", \"capacity\": \"2GiB\"}]}],\n"
      "\"links\": [{\"from\": \"a\", \"to\": \"b\", \"bandwidth\": \"25GB/s\"},\n"
      "          {\"from\": \"b\", \"to\": \"a\", \"latency\": 10, \"peer_access\": false, \"hide\": true}],\n"
      "\"routes\": [{\"devices\": [\"a\", \"h\", \"b\"]}]}");
  EXPECT_TRUE(file.strict);
  ASSERT_EQ(file.devices.size(), 2U);
  EXPECT_TRUE(file.devices[0].hide);
  EXPECT_EQ(file.devices[0].capacity_bytes, 8_GiB);
  EXPECT_EQ(file.devices[0].limit_bytes, 4096U);
  EXPECT_EQ(file.devices[0].numa_node, 1U);
  EXPECT_EQ(file.devices[0].line, 3U);
  ASSERT_EQ(file.devices[1].split.size(), 2U);
  EXPECT_EQ(file.devices[1].split[0].name, "0");
  EXPECT_EQ(file.devices[1].split[1].name, "b");
  EXPECT_EQ(file.devices[1].split[1].capacity_bytes, 2_GiB);
  ASSERT_EQ(file.links.size(), 2U);
  EXPECT_EQ(file.links[0].bytes_per_second, 25e9);
  EXPECT_FALSE(file.links[0].latency || file.links[0].peer_access || file.links[0].hide);
  EXPECT_EQ(file.links[1].latency, nanoseconds(10));
  EXPECT_EQ(file.links[1].peer_access, false);
  EXPECT_TRUE(file.links[1].hide);
  EXPECT_EQ(file.links[1].line, 6U);
  ASSERT_EQ(file.routes.size(), 1U);
  EXPECT_EQ(file.routes[0].devices, (std::vector<std::string>{"a", "h", "b"}));
  EXPECT_EQ(file.routes[0].line, 7U);
}

TEST(TopologyFileTest, KeepsTheTwoDirectionsOfALinkApart) {
  const auto file = parse(R"({"version": 1, "links": [{"from": "a", "to": "b", "bandwidth": "10GB/s"},
                                                      {"from": "b", "to": "a", "bandwidth": "25GB/s"}]})");
  ASSERT_EQ(file.links.size(), 2U);
  EXPECT_EQ(file.links[0].bytes_per_second, 10e9);
  EXPECT_EQ(file.links[1].bytes_per_second, 25e9);
}

TEST(TopologyFileTest, AcceptsAByteOrderMark) {
  EXPECT_TRUE(parse_topology_file("\xEF\xBB\xBF{\"version\": 1}", "t.json"));
  EXPECT_FALSE(parse_topology_file("\xEF\xBB{\"version\": 1}", "t.json"));
}

TEST(TopologyFileTest, ReadsTheExamples) {
  for (const char* name : {"two_vendors.json", "corrections.json", "split.json"}) {
    const auto file = read_topology_file(std::string(VMEM_TOPOLOGY_EXAMPLES) + "/" + name);
    EXPECT_TRUE(file) << file.error().to_string();
  }
}

TEST(TopologyFileTest, NamesAFileThatIsNotThere) {
  const auto file = read_topology_file("/no/such/topology.json");
  EXPECT_EQ(file.error().code(), StatusCode::kNotFound);
  EXPECT_NE(file.error().message().find("/no/such/topology.json"), std::string::npos);
}

TEST(TopologyFileTest, RefusesWhatIsNoRegularFile) {
  EXPECT_EQ(read_topology_file("/").error().code(), StatusCode::kIoError);
  EXPECT_EQ(read_topology_file("/dev/zero").error().code(), StatusCode::kIoError);
}

TEST(TopologyFileTest, RefusesAFileThatIsTooLong) {
  const std::string path =
      testing::TempDir() + "vmem_long_" + std::to_string(::testing::UnitTest::GetInstance()->random_seed()) + ".json";
  std::ofstream(path) << std::string(kMaxTopologyFileBytes + 1, ' ');
  EXPECT_EQ(read_topology_file(path).error().code(), StatusCode::kIoError);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace vmem
