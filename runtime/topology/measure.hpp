// Measures links and puts the figures into a Topology. The copies are the caller's: this stage knows no transfers.
#pragma once

#include <vmem/status.hpp>
#include <vmem/topology.hpp>
#include <vmem/types.hpp>

#include <cstddef>
#include <functional>
#include <vector>

namespace vmem {

// Copies that many bytes over the direct link and waits; answers with the seconds that it took.
using LinkCopy = std::function<Result<double>(DeviceIndex from, DeviceIndex to, std::size_t bytes)>;

struct MeasureOptions {
  std::size_t large_bytes = 64_MiB;
  unsigned warm_ups = 3;  // large copies that don't count: an idle card lowers its link's speed until there is load
  unsigned large_copies = 5;
  std::size_t small_bytes = 4_KiB;
  unsigned small_copies = 21;
};

struct LinkMeasurements {
  std::vector<Link> links;          // with source kMeasured
  std::vector<TopologyNote> notes;  // the links whose copies failed, which keep the figures they had
};

// One link after the other, so that none takes another's bandwidth. Links whose figures the topology file gives are
// left out. The figures are medians; the rate is that of the bytes beyond the latency, as Topology::cost_seconds
// counts.
LinkMeasurements measure_links(const Topology& topology, const LinkCopy& copy, const MeasureOptions& options = {});

// A topology with these figures; what the file says stays, measurements of links that are not there are dropped, forced
// routes follow their links.
Topology with_measurements(const Topology& topology, const LinkMeasurements& measurements);

}  // namespace vmem
