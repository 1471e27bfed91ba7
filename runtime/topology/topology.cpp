#include <vmem/topology.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "runtime/support/check.hpp"

namespace vmem {
namespace {

constexpr std::size_t kNoLink = std::numeric_limits<std::size_t>::max();

// A disk or a remote node keeps bytes and passes none on: staging is in host memory and on GPUs.
bool may_relay(const TopologyDevice& device) {
  return device.info.tier == Tier::kDevice || device.info.tier == Tier::kHost;
}

Route append(Route route, const Link& link) {
  const bool first = route.devices.empty();
  if (first) route.devices.push_back(link.from);
  route.devices.push_back(link.to);
  route.bytes_per_second = first ? link.bytes_per_second : std::min(route.bytes_per_second, link.bytes_per_second);
  route.latency += link.latency;
  return route;
}

}  // namespace

Topology::Topology(std::vector<TopologyDevice> devices, std::vector<Link> links, std::vector<Route> forced_routes,
                   std::vector<TopologyNote> notes, std::vector<AbsentBackend> absent)
    : devices_(std::move(devices)),
      links_(std::move(links)),
      link_of_pair_(devices_.size() * devices_.size(), kNoLink),
      forced_routes_(std::move(forced_routes)),
      notes_(std::move(notes)),
      absent_(std::move(absent)) {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    VMEM_CHECK(links_[i].from < devices_.size() && links_[i].to < devices_.size());
    std::size_t& entry = link_of_pair_[links_[i].from * devices_.size() + links_[i].to];
    VMEM_CHECK(entry == kNoLink);
    entry = i;
  }
  for (const Route& route : forced_routes_) {
    for (const DeviceIndex index : route.devices) VMEM_CHECK(index < devices_.size());
  }
}

Result<DeviceIndex> Topology::find(std::string_view name) const {
  std::string names;
  for (DeviceIndex i = 0; i < devices_.size(); ++i) {
    if (devices_[i].info.name == name) return i;
    if (!names.empty()) names += ", ";
    names += devices_[i].info.name;
  }
  return Status(StatusCode::kNotFound,
                "no device '" + std::string(name) + "'; there are: " + (names.empty() ? std::string("none") : names));
}

const Link* Topology::link(DeviceIndex from, DeviceIndex to) const noexcept {
  if (from >= devices_.size() || to >= devices_.size()) return nullptr;
  const std::size_t index = link_of_pair_[from * devices_.size() + to];
  return index == kNoLink ? nullptr : &links_[index];
}

double Topology::cost_seconds(const Route& route, std::size_t bytes) noexcept {
  const double latency = std::chrono::duration<double>(route.latency).count();
  if (route.devices.size() < 2) return latency;
  if (!(route.bytes_per_second > 0)) return std::numeric_limits<double>::infinity();
  return latency + static_cast<double>(bytes) / route.bytes_per_second;
}

Result<Route> Topology::route(DeviceIndex from, DeviceIndex to, std::size_t bytes) const {
  if (from >= devices_.size() || to >= devices_.size()) {
    return Status(StatusCode::kInvalidValue, "route from device " + std::to_string(from) + " to device " +
                                                 std::to_string(to) + " asked; there are " +
                                                 std::to_string(devices_.size()) + " devices");
  }
  if (from == to) {
    Route local;
    local.devices = {from};
    return local;
  }
  for (const Route& forced : forced_routes_) {
    if (forced.devices.front() == from && forced.devices.back() == to) return forced;
  }
  std::vector<Route> routes = simple_routes(from, to);
  // Of equal ones the first: they come in the order of their device indices, shorter ones first.
  const auto cheapest = std::min_element(routes.begin(), routes.end(), [bytes](const Route& a, const Route& b) {
    return cost_seconds(a, bytes) < cost_seconds(b, bytes);
  });
  if (cheapest == routes.end()) {
    return Status(StatusCode::kNotFound, "no way from device '" + devices_[from].info.name + "' to device '" +
                                             devices_[to].info.name +
                                             "' over up to three links; does the topology file hide the links?");
  }
  return std::move(*cheapest);
}

// Loops instead of a search: with at most three links that is all there is.
std::vector<Route> Topology::simple_routes(DeviceIndex from, DeviceIndex to) const {
  std::vector<Route> routes;
  if (const Link* direct = link(from, to)) routes.push_back(append({}, *direct));
  for (DeviceIndex first = 0; first < devices_.size(); ++first) {
    const Link* in = link(from, first);
    const Link* out = link(first, to);
    if (first == from || in == nullptr || out == nullptr || !may_relay(devices_[first])) continue;
    routes.push_back(append(append({}, *in), *out));
  }
  for (DeviceIndex first = 0; first < devices_.size(); ++first) {
    const Link* in = link(from, first);
    if (first == from || first == to || in == nullptr || !may_relay(devices_[first])) continue;
    for (DeviceIndex second = 0; second < devices_.size(); ++second) {
      const Link* middle = link(first, second);
      const Link* out = link(second, to);
      if (second == from || second == first || middle == nullptr || out == nullptr) continue;
      if (may_relay(devices_[second])) routes.push_back(append(append(append({}, *in), *middle), *out));
    }
  }
  return routes;
}

}  // namespace vmem
