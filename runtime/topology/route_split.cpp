// Routes that are used side by side: which, and how much each carries.
#include <vmem/topology.hpp>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace vmem {
namespace {

// What a second route has to save of the time before it is worth its own chunks, buffers and streams.
constexpr double kLeastSaving = 0.05;
// A peer link that is not much faster than the way to host memory passes through the same slot.
constexpr double kOwnLinkFactor = 1.5;

// Names of what links share: a device's way to and from host memory is one resource, however many NUMA nodes or parts
// of a card stand at its ends.
class SharedLinks {
 public:
  explicit SharedLinks(const Topology& topology) : topology_(topology) {}

  std::vector<std::string> of(const Route& route) const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i + 1 < route.devices.size(); ++i) add(route.devices[i], route.devices[i + 1], names);
    return names;
  }

 private:
  bool is_host(DeviceIndex device) const { return topology_.devices()[device].info.tier == Tier::kHost; }

  std::string card(DeviceIndex device) const {
    const TopologyDevice& described = topology_.devices()[device];
    return described.card.empty() ? described.info.name : described.card;
  }

  // The rate of the device's way to host memory, or from it; 0 where it has none.
  double host_rate(DeviceIndex device, bool out) const {
    double rate = 0;
    for (const Link& link : topology_.links()) {
      const bool matches = out ? link.from == device && is_host(link.to) : link.to == device && is_host(link.from);
      if (matches) rate = std::max(rate, link.bytes_per_second);
    }
    return rate;
  }

  void add(DeviceIndex from, DeviceIndex to, std::vector<std::string>& names) const {
    if (is_host(from) && is_host(to)) {
      names.push_back(card(from) + " > " + card(to));
      return;
    }
    const Link* const link = topology_.link(from, to);
    const bool between_devices = !is_host(from) && !is_host(to);
    if (between_devices) names.push_back(card(from) + " > " + card(to));
    const double slots = std::min(host_rate(from, true), host_rate(to, false));
    if (between_devices && link != nullptr && link->bytes_per_second > kOwnLinkFactor * slots) return;
    if (!is_host(from)) names.push_back(card(from) + " out");
    if (!is_host(to)) names.push_back(card(to) + " in");
  }

  const Topology& topology_;
};

double seconds_of(const Route& route) { return std::chrono::duration<double>(route.latency).count(); }

// The time after which routes that all work until the end have moved the bytes.
double time_of(const std::vector<Route>& routes, std::size_t bytes) {
  double rate = 0;
  double ahead = static_cast<double>(bytes);  // with what the latencies would have moved
  for (const Route& route : routes) {
    rate += route.bytes_per_second;
    ahead += route.bytes_per_second * seconds_of(route);
  }
  return ahead / rate;
}

void set_shares(std::vector<Route>& routes, std::size_t bytes) {
  const double time = time_of(routes, bytes);
  for (Route& route : routes) {
    route.share = route.bytes_per_second * (time - seconds_of(route)) / static_cast<double>(bytes);
  }
}

}  // namespace

Result<std::vector<Route>> Topology::routes(DeviceIndex from, DeviceIndex to, std::size_t bytes) const {
  auto best = route(from, to, bytes);
  if (!best) return best.error();
  std::vector<Route> chosen{*best};
  if (best->forced || from == to || bytes == 0 || !(best->bytes_per_second > 0)) return chosen;
  const SharedLinks links(*this);
  std::set<std::string> taken;
  for (std::string& name : links.of(*best)) taken.insert(std::move(name));
  std::vector<Route> candidates = simple_routes(from, to);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [bytes](const Route& a, const Route& b) { return cost_seconds(a, bytes) < cost_seconds(b, bytes); });
  double time = cost_seconds(*best, bytes);
  for (Route& candidate : candidates) {
    const std::vector<std::string> names = links.of(candidate);
    if (std::any_of(names.begin(), names.end(), [&](const std::string& name) { return taken.count(name) != 0; })) {
      continue;
    }
    // One that takes longer to begin than the others to end has nothing to carry.
    if (!(candidate.bytes_per_second > 0) || seconds_of(candidate) >= time) continue;
    chosen.push_back(std::move(candidate));
    const double with = time_of(chosen, bytes);
    const bool all_have_a_share =
        std::all_of(chosen.begin(), chosen.end(), [with](const Route& route) { return seconds_of(route) < with; });
    if (!all_have_a_share || with > time * (1 - kLeastSaving)) {
      chosen.pop_back();
      continue;
    }
    time = with;
    taken.insert(names.begin(), names.end());
  }
  if (chosen.size() > 1) set_shares(chosen, bytes);
  return chosen;
}

}  // namespace vmem
