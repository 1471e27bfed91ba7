// Devices on their way into a Topology: what the backends said, corrected by the file and completed from the machine.
#pragma once

#include <vmem/status.hpp>
#include <vmem/topology.hpp>

#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/topology/assemble.hpp"

namespace vmem {

struct DeviceDraft {
  TopologyDevice device;
  std::size_t backing = 0;
  const SimulatedDevice* simulated = nullptr;  // what it was made from; null for real devices
  std::optional<PciDevice> pci;
};

// The drafts in the topology's order. What surprises goes into `notes`.
Result<std::vector<DeviceDraft>> draft_devices(const AssembleInput& input, std::vector<TopologyNote>& notes);

// The devices that a text of the topology file names: one by its name, else those with that UUID or PCI address.
// `info_of` gives the DeviceInfo of an index below `count`.
std::vector<std::size_t> find_devices(std::string_view text, std::size_t count,
                                      const std::function<const DeviceInfo&(std::size_t)>& info_of);

}  // namespace vmem
