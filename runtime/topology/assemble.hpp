// Joins what hwloc, the backends and the user say into the one Topology that the runtime works by.
#pragma once

#include <vmem/backend_config.hpp>
#include <vmem/status.hpp>
#include <vmem/topology.hpp>

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "runtime/topology/machine.hpp"
#include "runtime/topology/topology_file.hpp"

namespace vmem {

struct AssembleInput {
  const Machine* machine = nullptr;     // null: nothing is known
  std::span<const DeviceInfo> devices;  // of all backends, each with a name of its own
  const TopologyFile* file = nullptr;   // null: none
  // What the simulated devices among `devices` were made from, by name: the file's and those asked for elsewhere.
  std::span<const SimulatedDevice> simulated;
  std::vector<AbsentBackend> absent;
  // Whether `from` can copy straight to `to`, as indices into `devices`, asked only for pairs of one address space that
  // both have kPeerCopy. Empty: those can.
  std::function<bool(std::size_t from, std::size_t to)> can_access_peer;
};

struct AssembledTopology {
  Topology topology;
  // For each device of the topology the entry of AssembleInput::devices that does its work. Parts of a split card share
  // one.
  std::vector<std::size_t> backing;
};

// Real GPUs first, then simulated ones, host nodes, storage, remote nodes; within each in the order given. Links:
// every device with every host node both ways, host nodes with each other, peers. Errors: kConfigError with the file's
// line where it contradicts itself or the machine (parts larger than their card, a route over a link that is not
// there).
Result<AssembledTopology> assemble_topology(const AssembleInput& input);

}  // namespace vmem
