// The machine as hwloc and sysfs tell: NUMA nodes, the PCI tree, link widths. Backends' devices are joined to it by
// their PCI address (assemble.hpp).
//
// What is not known stays empty: a wrong guess about locality is worse than none.
#pragma once

#include <vmem/device_info.hpp>
#include <vmem/status.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vmem {

struct NumaNode {
  unsigned os_index = 0;
  std::uint64_t memory_bytes = 0;
  bool has_cpus = false;  // without: CXL memory, for one
};

struct PciLink {
  std::optional<unsigned> width;  // lanes in use
  std::optional<unsigned> width_max;
  std::optional<double> gts;  // giga-transfers per second a lane; idle cards report less than they can
  std::optional<double> gts_max;
};

struct PciDevice {
  PciAddress address;
  std::uint16_t vendor_id = 0;
  std::uint16_t device_id = 0;
  std::uint16_t class_id = 0;              // 0x0300, 0x0302: display and 3D controllers
  std::optional<PciAddress> bridge;        // the bridge right above it
  std::optional<unsigned> numa_node;       // the nearest
  std::optional<double> bytes_per_second;  // of its link as hwloc read it, before the protocol's own share
  PciLink link;
};

struct PciBridge {
  PciAddress address;
  std::optional<PciAddress> bridge;  // the one above it
};

// A link between two PCI devices that is not PCIe, such as NVLink.
struct PciPeerRate {
  PciAddress from;
  PciAddress to;
  double bytes_per_second = 0;
};

struct MachineSource {
  std::string hwloc_xml;   // empty: the running system
  std::string sysfs_root;  // empty: "/sys" for the running system, nothing beside an XML file

  // hwloc_xml from VMEM_HWLOC_XML.
  static MachineSource from_environment();
};

struct Machine {
  std::vector<NumaNode> numa_nodes;
  std::vector<PciDevice> pci_devices;
  std::vector<PciBridge> bridges;
  std::vector<PciPeerRate> peer_rates;
  std::vector<std::string> warnings;  // what could not be found out, and why
  std::string sysfs_root;             // empty: none to ask

  // What is known of the device at an address: hwloc's entry, completed from sysfs; only sysfs where hwloc shows no PCI
  // devices (containers). Absent fields are unknown.
  PciDevice pci_device(const PciAddress& address) const;
};

// The running system never fails: what stands in the way becomes a warning. An XML file that can't be loaded is a
// kConfigError.
Result<Machine> discover_machine(const MachineSource& source);

// From SYSFS_ROOT/bus/pci/devices/ADDRESS; -1, a missing file and junk are unknown.
PciLink read_pci_link(const std::string& sysfs_root, const PciAddress& address);
std::optional<unsigned> read_pci_numa_node(const std::string& sysfs_root, const PciAddress& address);

}  // namespace vmem
