#include "runtime/topology/machine.hpp"

#include <hwloc.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>

#include "runtime/topology/file_io.hpp"
#include "runtime/topology/pci_address.hpp"

namespace vmem {
namespace {

using PciAttributes = hwloc_obj_attr_u::hwloc_pcidev_attr_s;

struct HwlocDestroy {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<hwloc_topology, HwlocDestroy>;

PciAddress address_of(const PciAttributes& pci) { return PciAddress{pci.domain, pci.bus, pci.dev, pci.func}; }

// The bridge above an object, if that is a PCI device itself (root complexes are not).
std::optional<PciAddress> bridge_above(hwloc_obj_t object) {
  const hwloc_obj_t parent = object->parent;
  if (parent == nullptr || parent->type != HWLOC_OBJ_BRIDGE) return std::nullopt;
  if (parent->attr->bridge.upstream_type != HWLOC_OBJ_BRIDGE_PCI) return std::nullopt;
  return address_of(parent->attr->bridge.upstream.pci);
}

// hwloc gives a node without CPUs (CXL, stacked memory) the CPUs that are near to it. A CPU belongs to the smallest
// set, then to the first node: whoever is left with none has none.
void mark_nodes_with_cpus(std::vector<std::pair<hwloc_obj_t, NumaNode>>& nodes) {
  std::sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) {
    const int weight_a = hwloc_bitmap_weight(a.first->cpuset);
    const int weight_b = hwloc_bitmap_weight(b.first->cpuset);
    return std::tie(weight_a, a.second.os_index) < std::tie(weight_b, b.second.os_index);
  });
  const std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)> taken(hwloc_bitmap_alloc(), hwloc_bitmap_free);
  for (auto& [object, node] : nodes) {
    node.has_cpus = hwloc_bitmap_isincluded(object->cpuset, taken.get()) == 0;
    hwloc_bitmap_or(taken.get(), taken.get(), object->cpuset);
  }
}

void add_numa_nodes(hwloc_topology_t topology, Machine& machine) {
  std::vector<std::pair<hwloc_obj_t, NumaNode>> nodes;
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, object)) != nullptr) {
    NumaNode node;
    node.os_index = object->os_index;
    node.memory_bytes = object->attr->numanode.local_memory;
    nodes.emplace_back(object, node);
  }
  mark_nodes_with_cpus(nodes);
  for (const auto& [ignored, node] : nodes) machine.numa_nodes.push_back(node);
  std::sort(machine.numa_nodes.begin(), machine.numa_nodes.end(),
            [](const NumaNode& a, const NumaNode& b) { return a.os_index < b.os_index; });
}

// The one node with CPUs that an object is under. Nodes without are memory, not a place.
std::optional<unsigned> nearest_node(hwloc_topology_t topology, hwloc_obj_t object, const Machine& machine) {
  const hwloc_obj_t ancestor = hwloc_get_non_io_ancestor_obj(topology, object);
  if (ancestor == nullptr || ancestor->nodeset == nullptr) return std::nullopt;
  std::optional<unsigned> nearest;
  for (const NumaNode& node : machine.numa_nodes) {
    if (!node.has_cpus || hwloc_bitmap_isset(ancestor->nodeset, node.os_index) == 0) continue;
    if (nearest) return std::nullopt;
    nearest = node.os_index;
  }
  return nearest;
}

void add_pci_objects(hwloc_topology_t topology, Machine& machine) {
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_bridge(topology, object)) != nullptr) {
    if (object->attr->bridge.upstream_type != HWLOC_OBJ_BRIDGE_PCI) continue;
    machine.bridges.push_back({address_of(object->attr->bridge.upstream.pci), bridge_above(object)});
  }
  object = nullptr;
  while ((object = hwloc_get_next_pcidev(topology, object)) != nullptr) {
    const PciAttributes& pci = object->attr->pcidev;
    PciDevice device;
    device.address = address_of(pci);
    device.vendor_id = pci.vendor_id;
    device.device_id = pci.device_id;
    device.class_id = pci.class_id;
    device.bridge = bridge_above(object);
    device.numa_node = nearest_node(topology, object, machine);
    // hwloc gives GB/s, and 0 where it could not read the link.
    if (pci.linkspeed > 0) device.bytes_per_second = static_cast<double>(pci.linkspeed) * 1e9;
    machine.pci_devices.push_back(device);
  }
}

// The PCI device that an object is or belongs to.
hwloc_obj_t pci_of(hwloc_obj_t object) {
  while (object != nullptr && object->type != HWLOC_OBJ_PCI_DEVICE) object = object->parent;
  return object;
}

void add_peer_rates(hwloc_topology_t topology, Machine& machine) {
  hwloc_distances_s* matrix = nullptr;
  unsigned count = 1;
  if (hwloc_distances_get_by_name(topology, "NVLinkBandwidth", &count, &matrix, 0) != 0 || count == 0) return;
  for (unsigned from = 0; from < matrix->nbobjs; ++from) {
    for (unsigned to = 0; to < matrix->nbobjs; ++to) {
      const hwloc_obj_t a = pci_of(matrix->objs[from]);
      const hwloc_obj_t b = pci_of(matrix->objs[to]);
      const hwloc_uint64_t megabytes = matrix->values[from * matrix->nbobjs + to];
      if (from == to || a == nullptr || b == nullptr || a == b || megabytes == 0) continue;
      machine.peer_rates.push_back(
          {address_of(a->attr->pcidev), address_of(b->attr->pcidev), static_cast<double>(megabytes) * 1e6});
    }
  }
  hwloc_distances_release(topology, matrix);
}

Result<HwlocTopology> load(const MachineSource& source) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return Status(StatusCode::kInternal, "hwloc can't make a topology");
  HwlocTopology topology(raw);
  // These would open the GPUs' drivers inside this process; the backends alone do that.
  for (const char* component : {"cuda", "nvml", "opencl", "rsmi", "levelzero", "gl"}) {
    hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
  }
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (!source.hwloc_xml.empty() && hwloc_topology_set_xml(raw, source.hwloc_xml.c_str()) != 0) {
    return Status(StatusCode::kConfigError, "hwloc XML file '" + source.hwloc_xml +
                                                "' can't be opened; expected a file written by lstopo --of xml");
  }
  if (hwloc_topology_load(raw) != 0) {
    if (source.hwloc_xml.empty()) return Status(StatusCode::kInternal, "hwloc can't examine this system");
    return Status(StatusCode::kConfigError, "hwloc XML file '" + source.hwloc_xml +
                                                "' can't be loaded; expected a file written by lstopo --of xml");
  }
  return topology;
}

// The first line of a small file of sysfs; those files claim a size that is not theirs.
std::string read_attribute(const std::string& root, const PciAddress& address, const char* name) {
  if (root.empty()) return {};
  const auto text = read_file(root + "/bus/pci/devices/" + to_string(address) + "/" + name, 4096);
  if (!text) return {};
  return text->substr(0, text->find('\n'));
}

template <typename T>
std::optional<T> number_at_start(std::string_view text, std::string_view allowed_rest) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc()) return std::nullopt;
  const std::string_view remainder(rest, static_cast<std::size_t>(end - rest));
  if (!remainder.empty() && !remainder.starts_with(allowed_rest)) return std::nullopt;
  return value;
}

std::optional<unsigned> read_lanes(const std::string& root, const PciAddress& address, const char* name) {
  const auto lanes = number_at_start<unsigned>(read_attribute(root, address, name), "\n");
  // 0 and 255 are what a link that is down or no PCIe at all reports.
  if (!lanes || *lanes == 0 || *lanes > 32) return std::nullopt;
  return lanes;
}

std::optional<double> read_gts(const std::string& root, const PciAddress& address, const char* name) {
  const auto gts = number_at_start<double>(read_attribute(root, address, name), " GT/s");
  if (!gts || !(*gts > 0) || *gts > 1024) return std::nullopt;
  return gts;
}

}  // namespace

MachineSource MachineSource::from_environment() {
  MachineSource source;
  if (const char* path = std::getenv("VMEM_HWLOC_XML")) source.hwloc_xml = path;
  return source;
}

PciLink read_pci_link(const std::string& sysfs_root, const PciAddress& address) {
  PciLink link;
  link.width = read_lanes(sysfs_root, address, "current_link_width");
  link.width_max = read_lanes(sysfs_root, address, "max_link_width");
  link.gts = read_gts(sysfs_root, address, "current_link_speed");
  link.gts_max = read_gts(sysfs_root, address, "max_link_speed");
  return link;
}

std::optional<unsigned> read_pci_numa_node(const std::string& sysfs_root, const PciAddress& address) {
  // Read as unsigned: the kernel's -1 for "none" is no number then.
  const auto node = number_at_start<unsigned>(read_attribute(sysfs_root, address, "numa_node"), "\n");
  constexpr unsigned kMostNodes = 65535;
  return node && *node <= kMostNodes ? node : std::nullopt;
}

PciDevice Machine::pci_device(const PciAddress& address) const {
  PciDevice device;
  device.address = address;
  for (const PciDevice& known : pci_devices) {
    if (known.address == address) device = known;
  }
  device.link = read_pci_link(sysfs_root, address);
  if (!device.numa_node) device.numa_node = read_pci_numa_node(sysfs_root, address);
  return device;
}

Result<Machine> discover_machine(const MachineSource& source) {
  Machine machine;
  machine.sysfs_root = source.sysfs_root;
  if (machine.sysfs_root.empty() && source.hwloc_xml.empty()) machine.sysfs_root = "/sys";
  auto topology = load(source);
  if (!topology) {
    if (!source.hwloc_xml.empty()) return topology.error();
    machine.warnings.push_back(std::string(topology.error().message()) + "; NUMA nodes and PCI links stay unknown");
    return machine;
  }
  add_numa_nodes(topology->get(), machine);
  add_pci_objects(topology->get(), machine);
  add_peer_rates(topology->get(), machine);
  if (machine.pci_devices.empty()) {
    machine.warnings.push_back(
        "hwloc shows no PCI devices (a container or a virtual machine may hide them); which "
        "NUMA node a device is near to may stay unknown");
  }
  return machine;
}

}  // namespace vmem
