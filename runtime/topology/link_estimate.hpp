// What links are likely to give before anybody has measured them.
#pragma once

#include <vmem/topology.hpp>

#include <optional>

#include "runtime/topology/machine.hpp"

namespace vmem {

struct LinkFigures {
  double bytes_per_second = 0;
  std::chrono::nanoseconds latency{};
  LinkSource source = LinkSource::kAssumed;
};

// One direction of a PCIe link, less what the protocol takes. The width in use counts, and the highest speed: a card
// that idles lowers its speed and raises it under load. Empty where the width or the speed is unknown.
std::optional<double> pcie_bytes_per_second(const PciLink& link);

// Between a device and its nearest host node, from its PCI entry (null: it has none).
LinkFigures estimate_host_link(Tier tier, const PciDevice* pci);
// The same to a host node that is not the nearest: the link between the sockets is passed too.
LinkFigures estimate_far_host_link(const LinkFigures& near);
// Between two host nodes.
LinkFigures estimate_node_link();
// Between two peers with these host links: over PCIe, unless a faster link is known.
LinkFigures estimate_peer_link(const LinkFigures& a, const LinkFigures& b, std::optional<double> known_rate);

}  // namespace vmem
