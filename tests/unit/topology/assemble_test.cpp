#include "runtime/topology/assemble.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/topology/link_estimate.hpp"
#include "tests/unit/topology/device_samples.hpp"
#include "tests/unit/topology/scratch_folder.hpp"

namespace vmem {
namespace {

using std::chrono::nanoseconds;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr PciAddress kPci0{0, 0x02, 0, 0};
constexpr PciAddress kPci1{0, 0x03, 0, 0};
constexpr PciAddress kPci2{0, 0x81, 0, 0};

// Two NVIDIA cards, an AMD one, two host nodes; hwloc's view is the fixture of two nodes.
class AssembleTest : public testing::Test {
 protected:
  AssembleTest()
      : devices{sample_host(0), sample_host(1), sample_gpu("cuda:0", "nvidia", kPci0),
                sample_gpu("cuda:1", "nvidia", kPci1), sample_gpu("rocm:0", "amd", kPci2)} {}

  Result<AssembledTopology> assemble(const std::string& json = "{\"version\": 1}") {
    auto parsed = parse_topology_file(json, "t.json");
    EXPECT_TRUE(parsed) << parsed.error().to_string();
    if (!parsed) return parsed.error();
    file = *parsed;
    AssembleInput input;
    input.machine = machine ? &*machine : nullptr;
    input.devices = devices;
    input.file = &file;
    input.simulated = simulated;
    input.can_access_peer = can_access_peer;
    return assemble_topology(input);
  }
  AssembledTopology good(const std::string& json = "{\"version\": 1}") {
    auto assembled = assemble(json);
    EXPECT_TRUE(assembled) << assembled.error().to_string();
    return assembled ? std::move(assembled).value() : AssembledTopology{};
  }
  std::string bad(const std::string& json) {
    const auto assembled = assemble(json);
    EXPECT_FALSE(assembled);
    EXPECT_EQ(assembled.error().code(), StatusCode::kConfigError);
    return std::string(assembled.error().message());
  }
  void load_fixture(const char* name, const std::string& sysfs_root = "") {
    MachineSource source;
    source.hwloc_xml = std::string(VMEM_TOPOLOGY_TEST_DATA) + "/" + name;
    source.sysfs_root = sysfs_root;
    auto loaded = discover_machine(source);
    ASSERT_TRUE(loaded) << loaded.error().to_string();
    machine = std::move(loaded).value();
  }

  std::vector<DeviceInfo> devices;
  std::optional<Machine> machine;
  TopologyFile file;
  std::vector<SimulatedDevice> simulated;
  std::function<bool(std::size_t, std::size_t)> can_access_peer;
};

std::vector<std::string> names(const Topology& topology) {
  std::vector<std::string> list;
  for (const TopologyDevice& device : topology.devices()) list.push_back(device.info.name);
  return list;
}

const TopologyDevice& device(const Topology& topology, const char* name) {
  return topology.devices()[topology.find(name).value()];
}

const Link* link(const Topology& topology, const char* from, const char* to) {
  return topology.link(topology.find(from).value(), topology.find(to).value());
}

std::string notes(const Topology& topology) {
  std::string text;
  for (const TopologyNote& note : topology.notes()) text += note.device + ": " + note.text + "\n";
  return text;
}

TEST_F(AssembleTest, PutsRealGpusBeforeSimulatedOnesBeforeHosts) {
  devices.insert(devices.begin(), sample_simulated("sim:0", "simulated"));
  const auto assembled = good();
  EXPECT_THAT(names(assembled.topology), ElementsAre("cuda:0", "cuda:1", "rocm:0", "sim:0", "host:0", "host:1"));
  EXPECT_THAT(assembled.backing, ElementsAre(3, 4, 5, 0, 1, 2));
}

TEST_F(AssembleTest, LinksEveryGpuWithEveryHostNodeBothWays) {
  const auto assembled = good();
  for (const char* gpu : {"cuda:0", "cuda:1", "rocm:0"}) {
    for (const char* host : {"host:0", "host:1"}) {
      EXPECT_NE(link(assembled.topology, gpu, host), nullptr);
      EXPECT_NE(link(assembled.topology, host, gpu), nullptr);
    }
  }
  EXPECT_NE(link(assembled.topology, "host:0", "host:1"), nullptr);
  EXPECT_EQ(link(assembled.topology, "host:0", "host:0"), nullptr);
}

TEST_F(AssembleTest, LinksPeersOfOneAddressSpaceOnly) {
  const auto assembled = good();
  ASSERT_NE(link(assembled.topology, "cuda:0", "cuda:1"), nullptr);
  EXPECT_TRUE(link(assembled.topology, "cuda:0", "cuda:1")->peer);
  EXPECT_EQ(link(assembled.topology, "cuda:0", "rocm:0"), nullptr);
  EXPECT_THAT(notes(assembled.topology), HasSubstr("share no address space"));
}

TEST_F(AssembleTest, NotesWhereThereIsNoPeerPath) {
  devices[3].caps = devices[3].caps.without(DeviceCap::kPeerCopy);
  const auto assembled = good();
  EXPECT_EQ(link(assembled.topology, "cuda:0", "cuda:1"), nullptr);
  EXPECT_THAT(notes(assembled.topology), HasSubstr("cuda:0: no peer path between it and 'cuda:1'"));
}

TEST_F(AssembleTest, AsksTheDriverForEachDirection) {
  can_access_peer = [](std::size_t from, std::size_t to) { return from == 2 && to == 3; };
  const auto assembled = good();
  EXPECT_NE(link(assembled.topology, "cuda:0", "cuda:1"), nullptr);
  EXPECT_EQ(link(assembled.topology, "cuda:1", "cuda:0"), nullptr);
  EXPECT_THAT(notes(assembled.topology), HasSubstr("cuda:1: no peer path from it to 'cuda:0'"));
}

TEST_F(AssembleTest, TakesLocalityFromHwloc) {
  load_fixture("two_nodes.xml");
  const auto assembled = good();
  EXPECT_EQ(device(assembled.topology, "cuda:0").info.numa_node, 0U);
  EXPECT_EQ(device(assembled.topology, "rocm:0").info.numa_node, 1U);
  EXPECT_EQ(link(assembled.topology, "cuda:0", "host:0")->source, LinkSource::kAdvertised);
  EXPECT_GT(link(assembled.topology, "cuda:0", "host:0")->bytes_per_second,
            link(assembled.topology, "cuda:0", "host:1")->bytes_per_second);
  EXPECT_GT(link(assembled.topology, "host:1", "rocm:0")->bytes_per_second,
            link(assembled.topology, "host:0", "rocm:0")->bytes_per_second);
}

TEST_F(AssembleTest, ListsGpusWithUnknownLocalityWhereHwlocHidesThem) {
  for (const char* fixture : {"no_io.xml", "no_numa.xml", "hidden_node.xml"}) {
    load_fixture(fixture);
    const auto assembled = good();
    EXPECT_EQ(device(assembled.topology, "rocm:0").info.numa_node, std::nullopt) << fixture;
    EXPECT_THAT(notes(assembled.topology), HasSubstr("rocm:0: which NUMA node it is near to is unknown")) << fixture;
    EXPECT_EQ(link(assembled.topology, "rocm:0", "host:0")->bytes_per_second,
              link(assembled.topology, "rocm:0", "host:1")->bytes_per_second);
  }
}

TEST_F(AssembleTest, DoesNotBelieveANodeThatIsNotThere) {
  devices[2].numa_node = 4294967295U;
  const auto assembled = good();
  EXPECT_EQ(device(assembled.topology, "cuda:0").info.numa_node, std::nullopt);
  EXPECT_THAT(notes(assembled.topology), HasSubstr("cuda:0: its driver names NUMA node 4294967295"));
}

TEST_F(AssembleTest, NotesANarrowSlotAndCountsItsLanes) {
  const ScratchFolder sysfs;
  for (const auto& [pci, width] : {std::pair("0000:02:00.0", "4"), std::pair("0000:81:00.0", "16")}) {
    const std::string folder = std::string("bus/pci/devices/") + pci;
    sysfs.write(folder + "/current_link_width", width);
    sysfs.write(folder + "/max_link_width", "16");
    sysfs.write(folder + "/current_link_speed", "2.5 GT/s PCIe");
    sysfs.write(folder + "/max_link_speed", "32.0 GT/s PCIe");
  }
  load_fixture("two_nodes.xml", sysfs.path());
  const auto assembled = good();
  EXPECT_EQ(device(assembled.topology, "cuda:0").link_width, 4U);
  EXPECT_EQ(device(assembled.topology, "cuda:0").link_width_max, 16U);
  EXPECT_EQ(device(assembled.topology, "cuda:0").link_gts, 2.5);
  EXPECT_THAT(notes(assembled.topology), HasSubstr("cuda:0: narrow slot: its PCIe link has 4 lanes, expected 16"));
  EXPECT_THAT(notes(assembled.topology), testing::Not(HasSubstr("rocm:0: narrow")));
  const double wide = link(assembled.topology, "rocm:0", "host:1")->bytes_per_second;
  EXPECT_NEAR(wide, 55.5e9, 0.5e9);
  EXPECT_NEAR(link(assembled.topology, "cuda:0", "host:0")->bytes_per_second, wide / 4, 1);
}

TEST_F(AssembleTest, LeavesRoomOnACardThatDrivesADisplay) {
  devices[2].drives_display = true;
  const auto assembled = good();
  EXPECT_EQ(device(assembled.topology, "cuda:0").limit_bytes, 15_GiB);
  EXPECT_EQ(device(assembled.topology, "cuda:1").limit_bytes, 16_GiB);
}

TEST_F(AssembleTest, CorrectsByNameUuidAndPciAddress) {
  const auto assembled = good(R"({"version": 1, "devices": [
    {"device": "cuda:0", "capacity": "8GiB", "limit": "4GiB"},
    {"device": "uuid-cuda:1", "limit": "1GiB"},
    {"device": "0000:81:00.0", "numa_node": 1}]})");
  EXPECT_EQ(device(assembled.topology, "cuda:0").info.total_bytes, 8_GiB);
  EXPECT_EQ(device(assembled.topology, "cuda:0").limit_bytes, 4_GiB);
  EXPECT_EQ(device(assembled.topology, "cuda:1").limit_bytes, 1_GiB);
  EXPECT_EQ(device(assembled.topology, "rocm:0").info.numa_node, 1U);
}

TEST_F(AssembleTest, NeverLimitsToMoreThanThereIs) {
  const auto assembled = good(R"({"version": 1, "devices": [{"device": "cuda:0", "limit": "20GiB"}]})");
  EXPECT_EQ(device(assembled.topology, "cuda:0").limit_bytes, 16_GiB);
  EXPECT_THAT(notes(assembled.topology), HasSubstr("limits it to 20.0 GiB"));
}

TEST_F(AssembleTest, HidesDevicesWithTheirLinks) {
  const auto assembled = good(R"({"version": 1, "devices": [{"device": "cuda:1", "hide": true},
                                                            {"device": "host:1", "hide": true}]})");
  EXPECT_THAT(names(assembled.topology), ElementsAre("cuda:0", "rocm:0", "host:0"));
  EXPECT_THAT(assembled.backing, ElementsAre(2, 4, 0));
  EXPECT_EQ(assembled.topology.links().size(), 4U);
}

TEST_F(AssembleTest, SplitsACardIntoDevicesWithoutPeerAccess) {
  const auto assembled = good(R"({"version": 1, "devices": [{"device": "cuda:0", "split": [
    {"name": "train", "capacity": "12GiB"}, {"capacity": "4GiB"}]}]})");
  const Topology& topology = assembled.topology;
  EXPECT_THAT(names(topology), ElementsAre("cuda:0/train", "cuda:0/1", "cuda:1", "rocm:0", "host:0", "host:1"));
  EXPECT_THAT(assembled.backing, ElementsAre(2, 2, 3, 4, 0, 1));
  EXPECT_EQ(device(topology, "cuda:0/train").info.total_bytes, 12_GiB);
  EXPECT_EQ(device(topology, "cuda:0/1").limit_bytes, 4_GiB);
  EXPECT_EQ(device(topology, "cuda:0/1").info.partition, "1");
  EXPECT_EQ(device(topology, "cuda:0/1").card, device(topology, "cuda:0/train").card);
  EXPECT_EQ(link(topology, "cuda:0/train", "cuda:0/1"), nullptr);
  EXPECT_EQ(link(topology, "cuda:0/train", "cuda:1"), nullptr);
  EXPECT_EQ(link(topology, "cuda:1", "cuda:0/train"), nullptr);
  EXPECT_FALSE(device(topology, "cuda:0/train").info.caps.has(DeviceCap::kPeerCopy));
  EXPECT_TRUE(device(topology, "cuda:1").info.caps.has(DeviceCap::kPeerCopy));
  const auto route = topology.route(0, 1, 1_MiB);
  ASSERT_TRUE(route);
  EXPECT_EQ(route->devices.size(), 3U);
}

TEST_F(AssembleTest, RefusesPartsThatAreLargerThanTheCard) {
  EXPECT_THAT(bad("{\"version\": 1,\n\"devices\": [{\"device\": \"cuda:0\", \"split\": [{\"capacity\": \"12GiB\"}, "
                  "{\"capacity\": \"4097MiB\"}]}]}"),
              testing::AllOf(HasSubstr("'t.json', line 2"), HasSubstr("larger together"), HasSubstr("16.0 GiB")));
  EXPECT_THAT(bad(R"({"version": 1, "devices": [{"device": "cuda:0", "split": [{"capacity": 4096}]}]})"),
              HasSubstr("granularity"));
  EXPECT_THAT(bad(R"({"version": 1, "devices": [{"device": "host:0", "split": [{"capacity": "1GiB"}]}]})"),
              HasSubstr("expected a GPU"));
}

TEST_F(AssembleTest, CardsAreDevicesWithOnePciAddress) {
  devices.push_back(sample_gpu("rocm:1", "amd", kPci0));
  const auto assembled = good();
  EXPECT_EQ(device(assembled.topology, "rocm:1").card, device(assembled.topology, "cuda:0").card);
  EXPECT_NE(device(assembled.topology, "rocm:1").card, device(assembled.topology, "cuda:1").card);
}

TEST_F(AssembleTest, KeepsAsymmetricLinksPerDirection) {
  const auto assembled = good(R"({"version": 1, "links": [
    {"from": "cuda:0", "to": "host:0", "bandwidth": "10GB/s", "latency": "3us"},
    {"from": "host:0", "to": "cuda:0", "bandwidth": "25GB/s"}]})");
  const Link* out = link(assembled.topology, "cuda:0", "host:0");
  const Link* in = link(assembled.topology, "host:0", "cuda:0");
  EXPECT_DOUBLE_EQ(out->bytes_per_second, 10e9);
  EXPECT_EQ(out->latency, nanoseconds(3000));
  EXPECT_EQ(out->source, LinkSource::kFile);
  EXPECT_DOUBLE_EQ(in->bytes_per_second, 25e9);
  EXPECT_EQ(link(assembled.topology, "cuda:0", "host:1")->source, LinkSource::kAssumed);
}

TEST_F(AssembleTest, TakesPeerAccessAwayInOneDirection) {
  const auto assembled = good(R"({"version": 1, "links": [{"from": "cuda:0", "to": "cuda:1", "peer_access": false}]})");
  EXPECT_EQ(link(assembled.topology, "cuda:0", "cuda:1"), nullptr);
  EXPECT_NE(link(assembled.topology, "cuda:1", "cuda:0"), nullptr);
}

TEST_F(AssembleTest, GivesPeerAccessThatTheDriverDoesNotReport) {
  can_access_peer = [](std::size_t, std::size_t) { return false; };
  const auto assembled = good(
      R"({"version": 1, "links": [{"from": "cuda:0", "to": "cuda:1", "peer_access": true, "bandwidth": "50GB/s"}]})");
  ASSERT_NE(link(assembled.topology, "cuda:0", "cuda:1"), nullptr);
  EXPECT_DOUBLE_EQ(link(assembled.topology, "cuda:0", "cuda:1")->bytes_per_second, 50e9);
  EXPECT_EQ(link(assembled.topology, "cuda:1", "cuda:0"), nullptr);
}

TEST_F(AssembleTest, ForcesRoutesInOneDirection) {
  const auto assembled = good(R"({"version": 1, "routes": [{"devices": ["cuda:0", "host:1", "host:0", "cuda:1"]}]})");
  const auto forth = assembled.topology.route(0, 1, 1);
  ASSERT_TRUE(forth);
  EXPECT_TRUE(forth->forced);
  EXPECT_THAT(forth->devices, ElementsAre(0, 4, 3, 1));
  EXPECT_GT(forth->bytes_per_second, 0);
  const auto back = assembled.topology.route(1, 0, 1);
  ASSERT_TRUE(back);
  EXPECT_FALSE(back->forced);
  EXPECT_THAT(back->devices, ElementsAre(1, 0));
}

TEST_F(AssembleTest, RefusesRoutesOverLinksThatAreNotThere) {
  EXPECT_THAT(bad(R"({"version": 1, "routes": [{"devices": ["cuda:0", "rocm:0"]}]})"),
              HasSubstr("needs a link from 'cuda:0' to 'rocm:0'"));
  devices.push_back(sample_host(9));
  devices.back().name = "nvme:0";
  devices.back().tier = Tier::kStorage;
  EXPECT_THAT(bad(R"({"version": 1, "routes": [{"devices": ["host:0", "nvme:0", "host:1"]}]})"),
              HasSubstr("passes 'nvme:0'"));
}

struct Unknown {
  const char* name;
  const char* json;
  const char* says;
};

class AssembleUnknown : public AssembleTest, public testing::WithParamInterface<Unknown> {};

TEST_P(AssembleUnknown, IsNotedAndIgnoredOrUnderStrictRefused) {
  const std::string lenient = std::string("{\"version\": 1,\n") + GetParam().json + "}";
  const auto plain = good();
  const auto assembled = good(lenient);
  EXPECT_THAT(notes(assembled.topology), testing::AllOf(HasSubstr("line 2"), HasSubstr(GetParam().says)));
  EXPECT_EQ(names(assembled.topology), names(plain.topology));
  EXPECT_EQ(assembled.topology.links().size(), plain.topology.links().size());
  const std::string strict = std::string("{\"version\": 1, \"strict\": true,\n") + GetParam().json + "}";
  EXPECT_THAT(bad(strict), testing::AllOf(HasSubstr("line 2"), HasSubstr(GetParam().says)));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, AssembleUnknown,
    testing::Values(
        Unknown{"PciId", R"("devices": [{"device": "0000:99:00.0", "limit": 1}])", "0000:99:00.0"},
        Unknown{"Name", R"("devices": [{"device": "cuda:9", "hide": true}])", "cuda:9"},
        Unknown{"Node", R"("devices": [{"device": "cuda:0", "numa_node": 7}])", "NUMA node 7"},
        Unknown{"LinkEnd", R"("links": [{"from": "cuda:0", "to": "cuda:9", "latency": 1}])", "cuda:9"},
        Unknown{"LinkStart", R"("links": [{"from": "x", "to": "cuda:0", "latency": 1}])", "'x'"},
        Unknown{"RouteDevice", R"("routes": [{"devices": ["cuda:0", "x", "rocm:0"]}])", "'x'"},
        Unknown{"NoSuchLink", R"("links": [{"from": "cuda:0", "to": "rocm:0", "bandwidth": 1e9}])", "no direct link"},
        Unknown{"PeersOfTwoVendors", R"("links": [{"from": "cuda:0", "to": "rocm:0", "peer_access": true}])",
                "peer access from 'cuda:0' to 'rocm:0'"},
        Unknown{"PeerOfAHost", R"("links": [{"from": "cuda:0", "to": "host:0", "peer_access": true}])", "peer access"},
        Unknown{"HostsPeerTakenAway", R"("links": [{"from": "cuda:0", "to": "host:0", "peer_access": false}])",
                "peer access"}),
    [](const auto& unknown) { return unknown.param.name; });

TEST_F(AssembleTest, RefusesContradictionsThatShowOnlyWithTheDevices) {
  EXPECT_THAT(bad("{\"version\": 1, \"links\": [{\"from\": \"cuda:0\", \"to\": \"host:0\", \"latency\": 1},\n"
                  "{\"from\": \"0000:02:00.0\", \"to\": \"host:0\", \"latency\": 1}]}"),
              testing::AllOf(HasSubstr("line 2"), HasSubstr("second link"), HasSubstr("line 1")));
  EXPECT_THAT(bad(R"({"version": 1, "links": [{"from": "cuda:0", "to": "uuid-cuda:0", "latency": 1}]})"),
              HasSubstr("expected two devices"));
  EXPECT_THAT(bad("{\"version\": 1, \"devices\": [{\"device\": \"cuda:0\"},\n{\"device\": \"0000:02:00.0\"}]}"),
              testing::AllOf(HasSubstr("line 2"), HasSubstr("second entry")));
  EXPECT_THAT(bad(R"({"version": 1, "routes": [{"devices": ["cuda:0", "host:0", "uuid-cuda:0"]}]})"),
              HasSubstr("twice"));
  EXPECT_THAT(bad("{\"version\": 1, \"devices\": [{\"device\": \"cuda:0\", \"split\": [{\"capacity\": \"1GiB\"}, "
                  "{\"capacity\": \"1GiB\"}]}], \"links\": [{\"from\": \"uuid-cuda:0\", \"to\": \"host:0\", "
                  "\"latency\": 1}]}"),
              HasSubstr("cuda:0/0, cuda:0/1"));
  devices.push_back(sample_simulated("cuda:0", "simulated"));
  EXPECT_THAT(bad("{\"version\": 1}"), HasSubstr("two devices are named 'cuda:0'"));
}

TEST_F(AssembleTest, GivesSimulatedDevicesTheirSpecifiedLinks) {
  SimulatedDevice specified;
  specified.enforce_links = true;
  specified.bandwidth_in = 10e9;
  specified.bandwidth_out = 12e9;
  specified.bandwidth_peer = 30e9;
  specified.latency = nanoseconds(9000);
  for (const char* name : {"sim:0", "sim:1"}) {
    specified.name = name;
    simulated.push_back(specified);
    devices.push_back(sample_simulated(name, "simulated"));
  }
  simulated[1].bandwidth_peer = 20e9;
  const auto assembled = good();
  const Link* in = link(assembled.topology, "host:1", "sim:0");
  EXPECT_DOUBLE_EQ(in->bytes_per_second, 10e9);
  EXPECT_EQ(in->latency, nanoseconds(9000));
  EXPECT_EQ(in->source, LinkSource::kFile);
  EXPECT_DOUBLE_EQ(link(assembled.topology, "sim:0", "host:0")->bytes_per_second, 12e9);
  EXPECT_DOUBLE_EQ(link(assembled.topology, "sim:0", "sim:1")->bytes_per_second, 20e9);
  simulated[0].enforce_links = false;
  EXPECT_EQ(link(good().topology, "host:1", "sim:0")->source, LinkSource::kAssumed);
}

TEST_F(AssembleTest, TakesPeerRatesFromHwloc) {
  machine.emplace();
  machine->peer_rates.push_back({kPci0, kPci1, 40e9});
  const auto assembled = good();
  EXPECT_DOUBLE_EQ(link(assembled.topology, "cuda:0", "cuda:1")->bytes_per_second, 40e9);
  EXPECT_EQ(link(assembled.topology, "cuda:0", "cuda:1")->source, LinkSource::kAdvertised);
  EXPECT_EQ(link(assembled.topology, "cuda:1", "cuda:0")->source, LinkSource::kAssumed);
}

TEST_F(AssembleTest, StandsAMachineWithoutDevices) {
  devices.clear();
  EXPECT_TRUE(good().topology.devices().empty());
  devices = {sample_host(0)};
  EXPECT_TRUE(good().topology.links().empty());
}

// A recorded machine of two vendors, where it lies beside the checkout.
TEST_F(AssembleTest, JoinsARecordedMixedMachine) {
  MachineSource source;
  source.hwloc_xml = std::string(VMEM_RECORDED_MACHINES) + "/32em64t-2n8c2t-pci-wholeio.xml";
  const auto recorded = discover_machine(source);
  if (!recorded) return;
  machine = *recorded;
  devices = {sample_gpu("cuda:0", "nvidia", {0, 3, 0, 0}), sample_gpu("cuda:1", "nvidia", {0, 0x83, 0, 0}),
             sample_gpu("rocm:0", "amd", {0, 0x84, 0, 1}), sample_host(0), sample_host(1)};
  const auto assembled = good();
  EXPECT_EQ(device(assembled.topology, "cuda:0").info.numa_node, 0U);
  EXPECT_EQ(device(assembled.topology, "cuda:1").info.numa_node, 1U);
  EXPECT_EQ(device(assembled.topology, "rocm:0").info.numa_node, 1U);
  const auto route = assembled.topology.route(1, 2, 1_GiB);
  ASSERT_TRUE(route);
  EXPECT_THAT(route->devices, ElementsAre(1, 4, 2));
}

TEST(LinkEstimateTest, CountsLanesInUseAtTheHighestSpeed) {
  PciLink pci;
  EXPECT_EQ(pcie_bytes_per_second(pci), std::nullopt);
  pci.width = 16;
  pci.width_max = 16;
  pci.gts = 2.5;
  EXPECT_NEAR(*pcie_bytes_per_second(pci), 3.52e9, 1e6);
  pci.gts_max = 32;
  EXPECT_NEAR(*pcie_bytes_per_second(pci), 55.45e9, 0.1e9);
  pci.width = 8;
  EXPECT_NEAR(*pcie_bytes_per_second(pci), 27.7e9, 0.1e9);
}

}  // namespace
}  // namespace vmem
