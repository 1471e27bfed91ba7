#include "runtime/topology/machine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "runtime/topology/pci_address.hpp"
#include "tests/unit/topology/scratch_folder.hpp"

namespace vmem {
namespace {

constexpr PciAddress kFirst{0, 0x02, 0, 0};
constexpr PciAddress kSecond{0, 0x81, 0, 0};

Machine load(const std::string& path, const std::string& sysfs_root = "") {
  MachineSource source;
  source.hwloc_xml = path;
  source.sysfs_root = sysfs_root;
  auto machine = discover_machine(source);
  EXPECT_TRUE(machine) << machine.error().to_string();
  return machine ? *machine : Machine{};
}

std::string fixture(const char* name) { return std::string(VMEM_TOPOLOGY_TEST_DATA) + "/" + name; }

TEST(MachineTest, FindsNodesBridgesAndDevices) {
  const Machine machine = load(fixture("two_nodes.xml"));
  ASSERT_EQ(machine.numa_nodes.size(), 3U);
  EXPECT_EQ(machine.numa_nodes[0].memory_bytes, std::uint64_t{8} << 30U);
  EXPECT_TRUE(machine.numa_nodes[0].has_cpus);
  EXPECT_TRUE(machine.numa_nodes[1].has_cpus);
  EXPECT_EQ(machine.numa_nodes[2].os_index, 2U);
  EXPECT_FALSE(machine.numa_nodes[2].has_cpus);
  EXPECT_EQ(machine.bridges.size(), 3U);
  EXPECT_EQ(machine.pci_devices.size(), 3U);
  const PciDevice first = machine.pci_device(kFirst);
  EXPECT_EQ(first.vendor_id, 0x10de);
  EXPECT_EQ(first.device_id, 0x2684);
  EXPECT_EQ(first.class_id, 0x0300);
  EXPECT_EQ(first.bridge, (PciAddress{0, 1, 0, 0}));
  EXPECT_NEAR(first.bytes_per_second.value_or(0), 15.75e9, 0.01e9);
}

TEST(MachineTest, TakesTheNodeWithCpusAsTheNearest) {
  const Machine machine = load(fixture("two_nodes.xml"));
  EXPECT_EQ(machine.pci_device(kFirst).numa_node, 0U);
  EXPECT_EQ(machine.pci_device(kSecond).numa_node, 1U);
}

TEST(MachineTest, LeavesLocalityUnknownBetweenTwoNodes) {
  EXPECT_EQ(load(fixture("unknown_locality.xml")).pci_device(kFirst).numa_node, std::nullopt);
}

TEST(MachineTest, LeavesLocalityUnknownWhereTheNodeIsHidden) {
  const Machine machine = load(fixture("hidden_node.xml"));
  EXPECT_EQ(machine.pci_device(kFirst).numa_node, 0U);
  EXPECT_EQ(machine.pci_device(kSecond).vendor_id, 0x1002);
  EXPECT_EQ(machine.pci_device(kSecond).numa_node, std::nullopt);
}

TEST(MachineTest, StandsCpusWithoutANumaNode) {
  const Machine machine = load(fixture("no_numa.xml"));
  EXPECT_LE(machine.numa_nodes.size(), 1U);
  EXPECT_TRUE(machine.pci_devices.empty());
}

TEST(MachineTest, SaysThatThereAreNoPciDevices) {
  const Machine machine = load(fixture("no_io.xml"));
  EXPECT_TRUE(machine.pci_devices.empty());
  EXPECT_FALSE(machine.warnings.empty());
  EXPECT_EQ(machine.pci_device(kFirst).numa_node, std::nullopt);
}

TEST(MachineTest, CompletesFromSysfsWhereHwlocShowsNoDevices) {
  const ScratchFolder sysfs;
  const std::string device = "bus/pci/devices/0000:02:00.0/";
  sysfs.write(device + "numa_node", "0\n");
  sysfs.write(device + "current_link_width", "4\n");
  sysfs.write(device + "max_link_width", "16\n");
  sysfs.write(device + "current_link_speed", "2.5 GT/s PCIe\n");
  sysfs.write(device + "max_link_speed", "32.0 GT/s PCIe\n");
  const PciDevice found = load(fixture("no_io.xml"), sysfs.path()).pci_device(kFirst);
  EXPECT_EQ(found.numa_node, 0U);
  EXPECT_EQ(found.link.width, 4U);
  EXPECT_EQ(found.link.width_max, 16U);
  EXPECT_EQ(found.link.gts, 2.5);
  EXPECT_EQ(found.link.gts_max, 32.0);
}

TEST(MachineTest, RefusesXmlThatIsNotThereOrIsBroken) {
  for (const std::string& path : {fixture("none.xml"), fixture("broken.xml")}) {
    MachineSource source;
    source.hwloc_xml = path;
    const auto machine = discover_machine(source);
    ASSERT_FALSE(machine);
    EXPECT_EQ(machine.error().code(), StatusCode::kConfigError);
    EXPECT_NE(machine.error().message().find(path), std::string::npos);
  }
}

TEST(MachineTest, ExaminesTheRunningSystem) {
  const auto machine = discover_machine({});
  ASSERT_TRUE(machine) << machine.error().to_string();
  EXPECT_EQ(machine->sysfs_root, "/sys");
  EXPECT_FALSE(machine->numa_nodes.empty());
}

class PciAttributes : public testing::TestWithParam<const char*> {};

TEST_P(PciAttributes, AreUnknownWhereTheyAreNoNumbers) {
  const ScratchFolder sysfs;
  for (const char* name :
       {"numa_node", "current_link_width", "max_link_width", "current_link_speed", "max_link_speed"}) {
    sysfs.write(std::string("bus/pci/devices/0000:02:00.0/") + name, GetParam());
  }
  EXPECT_EQ(read_pci_numa_node(sysfs.path(), kFirst), std::nullopt);
  const PciLink link = read_pci_link(sysfs.path(), kFirst);
  EXPECT_FALSE(link.width || link.width_max || link.gts || link.gts_max);
}

INSTANTIATE_TEST_SUITE_P(Junk, PciAttributes,
                         testing::Values("-1\n", "", "\n", "junk\n", "4294967295\n", "99999999999999999999\n", "2 x\n",
                                         "Unknown\n", "0x\n"));

TEST(PciAttributesTest, AreUnknownWhereFilesAreMissing) {
  EXPECT_EQ(read_pci_numa_node("/none", kFirst), std::nullopt);
  EXPECT_EQ(read_pci_numa_node("", kFirst), std::nullopt);
  EXPECT_EQ(read_pci_link("/none", kFirst).width, std::nullopt);
}

TEST(PciAddressTest, IsReadBackAsItIsWritten) {
  for (const char* text : {"0000:41:00.0", "ffff:ff:1f.7", "10000:01:02.3"}) {
    const auto address = parse_pci_address(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(to_string(*address), text);
  }
  EXPECT_EQ(parse_pci_address("41:00.0"), (PciAddress{0, 0x41, 0, 0}));
}

TEST(PciAddressTest, RefusesEverythingElse) {
  for (const char* text : {"", ":", "41", "41:00", "0000:41:00", "0000:41:00.8", "0000:41:20.0", "0000:41:00.0 ",
                           " 0000:41:00.0", "000:41:00.0", "0000:4g:00.0", "0000:41:00.", "-000:41:00.0", "1:2:3:4"}) {
    EXPECT_EQ(parse_pci_address(text), std::nullopt) << text;
  }
}

// Every machine that lies beside the checkout; the fixtures above cover the same ground where there is none.
TEST(MachineTest, LoadsRecordedMachines) {
  std::error_code absent;
  for (const auto& entry : std::filesystem::directory_iterator(VMEM_RECORDED_MACHINES, absent)) {
    if (entry.path().extension() != ".xml") continue;
    const Machine machine = load(entry.path().string());
    EXPECT_EQ(machine.numa_nodes.size(), 2U) << entry.path();
    const auto is_gpu = [](const PciDevice& device) {
      return (device.vendor_id == 0x10de || device.vendor_id == 0x1002) && (device.class_id >> 8U) == 3;
    };
    EXPECT_GE(std::count_if(machine.pci_devices.begin(), machine.pci_devices.end(), is_gpu), 4) << entry.path();
    for (const PciDevice& device : machine.pci_devices) {
      EXPECT_TRUE(!is_gpu(device) || device.numa_node) << entry.path();
    }
    if (entry.path().filename() == "power8gpudistances.xml") {
      ASSERT_EQ(machine.peer_rates.size(), 4U);
      EXPECT_DOUBLE_EQ(machine.peer_rates[0].bytes_per_second, 40e9);
    }
  }
}

}  // namespace
}  // namespace vmem
