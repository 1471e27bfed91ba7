// Which device's memory to use: pure functions over figures that the caller collects.
#pragma once

#include <vmem/topology.hpp>
#include <vmem/types.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace vmem {

struct PlacementCandidate {
  DeviceIndex device = 0;
  Tier tier = Tier::kDevice;
  std::uint64_t free_bytes = 0;   // what can still be reserved there
  std::uint64_t limit_bytes = 0;  // what the pool may use of it
  // From the device that asks to this one: the route's latency and its seconds a byte; 0 for the device itself.
  double latency_seconds = 0;
  double seconds_per_byte = 0;
};

struct PlacementRequest {
  std::uint64_t bytes = 0;
  // The least that is worth placing on one device (a block). A device with less free is no target; 0: `bytes`.
  std::uint64_t unit_bytes = 0;
};

struct PlacementTarget {
  DeviceIndex device = 0;
  std::uint64_t bytes = 0;
};

// Seconds to move that many bytes to or from the candidate.
double reach_seconds(const PlacementCandidate& candidate, std::uint64_t bytes) noexcept;

// The candidates with at least a unit free, best first: those that hold all of it, then those that hold a part. Within
// both, tiers come in the order device, host, storage, remote for every strategy but kFirstFit (the caller's order) and
// kLocalityFirst (cost knows). Equal ones stay in the order given.
std::vector<DeviceIndex> rank_targets(const PlacementRequest& request, std::span<const PlacementCandidate> candidates,
                                      PlacementStrategy strategy);

// Fills the ranked candidates one after the other with whole units (the last one may be a part of a unit). The targets'
// bytes add up to the request's, or to less where the candidates can't hold it: the caller sees what is missing.
std::vector<PlacementTarget> place(const PlacementRequest& request, std::span<const PlacementCandidate> candidates,
                                   PlacementStrategy strategy);

}  // namespace vmem
