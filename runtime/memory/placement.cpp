#include "runtime/memory/placement.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace vmem {
namespace {

double free_share(const PlacementCandidate& candidate) noexcept {
  return candidate.limit_bytes == 0
             ? 0.0
             : static_cast<double>(candidate.free_bytes) / static_cast<double>(candidate.limit_bytes);
}

// True if `a` is the better place by the strategy alone.
bool is_better(const PlacementCandidate& a, const PlacementCandidate& b, std::uint64_t bytes,
               PlacementStrategy strategy) noexcept {
  if (strategy == PlacementStrategy::kFirstFit) return false;
  if (strategy == PlacementStrategy::kLocalityFirst) {
    const double reach_a = reach_seconds(a, bytes);
    const double reach_b = reach_seconds(b, bytes);
    return reach_a != reach_b ? reach_a < reach_b : a.free_bytes > b.free_bytes;
  }
  if (a.tier != b.tier) return a.tier < b.tier;
  if (strategy == PlacementStrategy::kBestFit) return a.free_bytes < b.free_bytes;
  if (strategy == PlacementStrategy::kWorstFit) return free_share(a) > free_share(b);
  return a.free_bytes > b.free_bytes;
}

// The candidates that are targets, as places in `candidates`, best first.
std::vector<std::size_t> rank(const PlacementRequest& request, std::span<const PlacementCandidate> candidates,
                              PlacementStrategy strategy) {
  const std::uint64_t unit = request.unit_bytes == 0 ? request.bytes : std::min(request.unit_bytes, request.bytes);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (request.bytes != 0 && candidates[i].free_bytes >= unit) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
    const PlacementCandidate& a = candidates[left];
    const PlacementCandidate& b = candidates[right];
    const bool whole_a = a.free_bytes >= request.bytes;
    const bool whole_b = b.free_bytes >= request.bytes;
    if (whole_a != whole_b) return whole_a;
    // Of those that hold a part, the fullest would scatter the buffer most: best fit then takes the emptiest.
    if (!whole_a && strategy == PlacementStrategy::kBestFit) {
      return is_better(a, b, request.bytes, PlacementStrategy::kCapacity);
    }
    return is_better(a, b, request.bytes, strategy);
  });
  return order;
}

}  // namespace

double reach_seconds(const PlacementCandidate& candidate, std::uint64_t bytes) noexcept {
  return candidate.latency_seconds + candidate.seconds_per_byte * static_cast<double>(bytes);
}

std::vector<DeviceIndex> rank_targets(const PlacementRequest& request, std::span<const PlacementCandidate> candidates,
                                      PlacementStrategy strategy) {
  std::vector<DeviceIndex> devices;
  for (const std::size_t i : rank(request, candidates, strategy)) devices.push_back(candidates[i].device);
  return devices;
}

std::vector<PlacementTarget> place(const PlacementRequest& request, std::span<const PlacementCandidate> candidates,
                                   PlacementStrategy strategy) {
  std::vector<PlacementTarget> targets;
  std::uint64_t missing = request.bytes;
  for (const std::size_t i : rank(request, candidates, strategy)) {
    if (missing == 0) break;
    std::uint64_t bytes = std::min(missing, candidates[i].free_bytes);
    if (bytes < missing && request.unit_bytes != 0) bytes -= bytes % request.unit_bytes;
    if (bytes == 0) continue;
    targets.push_back({candidates[i].device, bytes});
    missing -= bytes;
  }
  return targets;
}

}  // namespace vmem
