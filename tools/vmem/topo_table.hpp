// A topology as text for people: devices, routes, absent backends, notes.
#pragma once

#include <vmem/topology.hpp>

#include <ostream>
#include <vector>

namespace vmem {

// `memory` is by device index and may be shorter; an entry with total_bytes 0 is shown as unknown.
void print_topology(const Topology& topology, const std::vector<MemoryInfo>& memory, std::ostream& out);

}  // namespace vmem
