#include "runtime/topology/link_estimate.hpp"

#include <algorithm>

namespace vmem {
namespace {

using std::chrono::nanoseconds;

// Headers and flow control take about an eighth: x16 of generation 5 carries 63.0 GB/s and gives 55.5 to large copies.
constexpr double kPayloadShare = 0.88;
// PCIe 3.0 x16, what most machines have at least.
constexpr double kAssumedPcie = 12e9;
constexpr double kAssumedStorage = 2e9;
constexpr double kAssumedNodeCopy = 10e9;
constexpr double kFarShare = 0.8;
constexpr nanoseconds kCopyLatency{7'000};
constexpr nanoseconds kStorageLatency{100'000};
constexpr nanoseconds kNodeLatency{500};
constexpr nanoseconds kSocketLatency{1'000};

// The share of transfers that carry bytes: 8 of 10 to generation 2, 128 of 130 to generation 5, 242 of 256 with flits.
double encoding_share(double gts) {
  if (gts <= 5.5) return 0.8;
  return gts < 60 ? 128.0 / 130.0 : 242.0 / 256.0;
}

}  // namespace

std::optional<double> pcie_bytes_per_second(const PciLink& link) {
  const auto gts = link.gts_max ? link.gts_max : link.gts;
  const auto width = link.width ? link.width : link.width_max;
  if (!gts || !width) return std::nullopt;
  return *gts * 1e9 * encoding_share(*gts) / 8 * static_cast<double>(*width) * kPayloadShare;
}

LinkFigures estimate_host_link(Tier tier, const PciDevice* pci) {
  if (tier == Tier::kStorage || tier == Tier::kRemote) return {kAssumedStorage, kStorageLatency, LinkSource::kAssumed};
  if (pci != nullptr) {
    if (const auto rate = pcie_bytes_per_second(pci->link)) return {*rate, kCopyLatency, LinkSource::kAdvertised};
    if (pci->bytes_per_second) {
      return {*pci->bytes_per_second * kPayloadShare, kCopyLatency, LinkSource::kAdvertised};
    }
  }
  return {kAssumedPcie, kCopyLatency, LinkSource::kAssumed};
}

LinkFigures estimate_far_host_link(const LinkFigures& near) {
  return {near.bytes_per_second * kFarShare, near.latency + kSocketLatency, LinkSource::kAssumed};
}

LinkFigures estimate_node_link() { return {kAssumedNodeCopy, kNodeLatency, LinkSource::kAssumed}; }

LinkFigures estimate_peer_link(const LinkFigures& a, const LinkFigures& b, std::optional<double> known_rate) {
  if (known_rate) return {*known_rate, kCopyLatency, LinkSource::kAdvertised};
  return {std::min(a.bytes_per_second, b.bytes_per_second), kCopyLatency, LinkSource::kAssumed};
}

}  // namespace vmem
