#include "runtime/topology/link_draft.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "runtime/topology/file_notes.hpp"
#include "runtime/topology/link_estimate.hpp"

namespace vmem {
namespace {

using Pair = std::pair<DeviceIndex, DeviceIndex>;

const DeviceInfo& info_of(const DeviceDraft& draft) { return draft.device.info; }

bool is_gpu(const DeviceDraft& draft) { return info_of(draft).tier == Tier::kDevice; }
bool is_host(const DeviceDraft& draft) { return info_of(draft).tier == Tier::kHost; }

bool may_be_peers(const DeviceDraft& a, const DeviceDraft& b) {
  if (!is_gpu(a) || !is_gpu(b)) return false;
  return info_of(a).address_space == info_of(b).address_space && !info_of(a).address_space.empty() &&
         info_of(a).caps.has(DeviceCap::kPeerCopy) && info_of(b).caps.has(DeviceCap::kPeerCopy);
}

// Resolves what a topology file names among the drafts. Empty: it is not there, and has been noted.
Result<std::optional<DeviceIndex>> resolve(const TopologyFile& file, std::size_t line, const std::string& text,
                                           const std::vector<DeviceDraft>& devices, std::vector<TopologyNote>& notes) {
  const auto found =
      find_devices(text, devices.size(), [&](std::size_t i) -> const DeviceInfo& { return devices[i].device.info; });
  if (found.size() == 1) return std::optional(found.front());
  if (found.empty()) {
    VMEM_RETURN_IF_ERROR(
        note_or_error(file, line, "no device '" + text + "' (not in this machine, hidden, or split)", notes));
    return std::optional<DeviceIndex>();
  }
  std::string names;
  for (const std::size_t index : found) names += (names.empty() ? "" : ", ") + info_of(devices[index]).name;
  return file_error(file, line, "'" + text + "' names several devices (" + names + "); expected the name of one");
}

class LinkDrafter {
 public:
  LinkDrafter(const AssembleInput& input, const std::vector<DeviceDraft>& devices, std::vector<TopologyNote>& notes)
      : input_(input), devices_(devices), notes_(notes) {}

  Result<std::vector<Link>> run();

 private:
  void add(DeviceIndex from, DeviceIndex to, bool peer, const LinkFigures& figures) {
    links_[{from, to}] = Link{from, to, peer, figures.bytes_per_second, figures.latency, figures.source};
  }
  // What one direction between the device and its nearest host node gives.
  LinkFigures host_link(const DeviceDraft& device, bool into_device) const;
  LinkFigures peer_link(DeviceIndex from, DeviceIndex to) const;
  void add_host_links(DeviceIndex device);
  void add_peer_links(DeviceIndex device);
  Status correct(const LinkCorrection& correction);
  Status correct_peer(const LinkCorrection& correction, const Pair& pair, bool& done);
  std::string name_of(const Pair& pair) const {
    return "'" + info_of(devices_[pair.first]).name + "' to '" + info_of(devices_[pair.second]).name + "'";
  }

  const AssembleInput& input_;
  const std::vector<DeviceDraft>& devices_;
  std::vector<TopologyNote>& notes_;
  std::map<Pair, Link> links_;
  std::map<Pair, std::size_t> corrected_;  // the line
};

// Links of simulated devices that are not enforced run at the speed of memory: their figures are an assumption.
LinkSource source_of(const SimulatedDevice& device) {
  return device.enforce_links ? LinkSource::kFile : LinkSource::kAssumed;
}

LinkFigures LinkDrafter::host_link(const DeviceDraft& device, bool into_device) const {
  if (const SimulatedDevice* simulated = device.simulated) {
    return {into_device ? simulated->bandwidth_in : simulated->bandwidth_out, simulated->latency,
            source_of(*simulated)};
  }
  return estimate_host_link(info_of(device).tier, device.pci ? &*device.pci : nullptr);
}

LinkFigures LinkDrafter::peer_link(DeviceIndex from, DeviceIndex to) const {
  const DeviceDraft& a = devices_[from];
  const DeviceDraft& b = devices_[to];
  if (a.simulated != nullptr && b.simulated != nullptr) {
    return {std::min(a.simulated->bandwidth_peer, b.simulated->bandwidth_peer),
            std::max(a.simulated->latency, b.simulated->latency),
            std::min(source_of(*a.simulated), source_of(*b.simulated))};
  }
  std::optional<double> known_rate;
  if (input_.machine != nullptr && a.pci && b.pci) {
    for (const PciPeerRate& rate : input_.machine->peer_rates) {
      if (rate.from == a.pci->address && rate.to == b.pci->address) known_rate = rate.bytes_per_second;
    }
  }
  // Over PCIe, bytes leave the one by its link and enter the other by its own.
  return estimate_peer_link(host_link(a, false), host_link(b, true), known_rate);
}

void LinkDrafter::add_host_links(DeviceIndex device) {
  const DeviceDraft& draft = devices_[device];
  for (DeviceIndex host = 0; host < devices_.size(); ++host) {
    if (!is_host(devices_[host]) || host == device) continue;
    if (is_host(draft)) {
      add(device, host, false, estimate_node_link());
      continue;
    }
    const auto near_node = info_of(draft).numa_node;
    const auto node = info_of(devices_[host]).numa_node;
    // A simulated link is as fast from every node: that is what its device enforces.
    const bool far = draft.simulated == nullptr && near_node && node && *near_node != *node;
    const LinkFigures in = host_link(draft, true);
    const LinkFigures out = host_link(draft, false);
    add(host, device, false, far ? estimate_far_host_link(in) : in);
    add(device, host, false, far ? estimate_far_host_link(out) : out);
  }
}

void LinkDrafter::add_peer_links(DeviceIndex from) {
  for (DeviceIndex to = 0; to < devices_.size(); ++to) {
    const std::size_t a = devices_[from].backing;
    const std::size_t b = devices_[to].backing;
    // Parts of one card have no link between them.
    if (a == b || !may_be_peers(devices_[from], devices_[to])) continue;
    if (input_.can_access_peer && !input_.can_access_peer(a, b)) continue;
    add(from, to, true, peer_link(from, to));
  }
}

// `done`: the link is gone or can't be, so that there is nothing more to correct.
Status LinkDrafter::correct_peer(const LinkCorrection& correction, const Pair& pair, bool& done) {
  if (!correction.peer_access) return Status::ok();
  done = true;
  const DeviceDraft& from = devices_[pair.first];
  const DeviceDraft& to = devices_[pair.second];
  const bool gpus = is_gpu(from) && is_gpu(to);
  if (gpus && !*correction.peer_access) {
    links_.erase(pair);
    return Status::ok();
  }
  if (!gpus || from.backing == to.backing || !may_be_peers(from, to)) {
    return note_or_error(*input_.file, correction.line,
                         "peer access from " + name_of(pair) +
                             " is not possible; expected two GPUs of one address space that can copy to peers",
                         notes_);
  }
  done = false;
  if (links_.count(pair) == 0) add(pair.first, pair.second, true, peer_link(pair.first, pair.second));
  return Status::ok();
}

Status LinkDrafter::correct(const LinkCorrection& correction) {
  const TopologyFile& file = *input_.file;
  VMEM_ASSIGN_OR_RETURN(const auto from, resolve(file, correction.line, correction.from, devices_, notes_));
  if (!from) return Status::ok();
  VMEM_ASSIGN_OR_RETURN(const auto to, resolve(file, correction.line, correction.to, devices_, notes_));
  if (!to) return Status::ok();
  const Pair pair(*from, *to);
  if (*from == *to) return file_error(file, correction.line, "a link from " + name_of(pair) + "; expected two devices");
  if (const auto [first, added] = corrected_.emplace(pair, correction.line); !added) {
    return file_error(
        file, correction.line,
        "a second link from " + name_of(pair) + "; the first is in line " + std::to_string(first->second));
  }
  bool done = false;
  VMEM_RETURN_IF_ERROR(correct_peer(correction, pair, done));
  if (done) return Status::ok();
  const auto link = links_.find(pair);
  if (link == links_.end()) {
    return note_or_error(file, correction.line,
                         "no direct link from " + name_of(pair) + "; correct the links that its bytes pass", notes_);
  }
  if (correction.hide) {
    links_.erase(link);
    return Status::ok();
  }
  if (correction.bytes_per_second) link->second.bytes_per_second = *correction.bytes_per_second;
  if (correction.latency) link->second.latency = *correction.latency;
  if (correction.bytes_per_second || correction.latency) link->second.source = LinkSource::kFile;
  return Status::ok();
}

Result<std::vector<Link>> LinkDrafter::run() {
  for (DeviceIndex device = 0; device < devices_.size(); ++device) {
    add_host_links(device);
    add_peer_links(device);
  }
  if (input_.file != nullptr) {
    for (const LinkCorrection& correction : input_.file->links) VMEM_RETURN_IF_ERROR(correct(correction));
  }
  std::vector<Link> links;
  for (const auto& [pair, link] : links_) links.push_back(link);
  return links;
}

// A forced route from resolved devices; an error where a link of it is not there.
Result<Route> make_route(const TopologyFile& file, const ForcedRoute& forced, const std::vector<DeviceIndex>& indices,
                         const std::vector<DeviceDraft>& devices, const std::vector<Link>& links) {
  Route route;
  route.devices = indices;
  route.forced = true;
  for (std::size_t i = 1; i + 1 < indices.size(); ++i) {
    if (is_gpu(devices[indices[i]]) || is_host(devices[indices[i]])) continue;
    return file_error(file, forced.line,
                      "the route passes '" + info_of(devices[indices[i]]).name +
                          "'; expected only GPUs and host memory between its ends");
  }
  for (std::size_t hop = 0; hop + 1 < indices.size(); ++hop) {
    const auto link = std::find_if(links.begin(), links.end(), [&](const Link& candidate) {
      return candidate.from == indices[hop] && candidate.to == indices[hop + 1];
    });
    if (link == links.end()) {
      return file_error(file, forced.line,
                        "the route needs a link from '" + info_of(devices[indices[hop]]).name + "' to '" +
                            info_of(devices[indices[hop + 1]]).name +
                            "', and there is none; expected links that exist");
    }
    route.latency += link->latency;
    route.bytes_per_second =
        hop == 0 ? link->bytes_per_second : std::min(route.bytes_per_second, link->bytes_per_second);
  }
  return route;
}

}  // namespace

Result<std::vector<Link>> draft_links(const AssembleInput& input, const std::vector<DeviceDraft>& devices,
                                      std::vector<TopologyNote>& notes) {
  return LinkDrafter(input, devices, notes).run();
}

Result<std::vector<Route>> draft_routes(const AssembleInput& input, const std::vector<DeviceDraft>& devices,
                                        const std::vector<Link>& links, std::vector<TopologyNote>& notes) {
  std::vector<Route> routes;
  if (input.file == nullptr) return routes;
  std::map<Pair, std::size_t> lines;
  for (const ForcedRoute& forced : input.file->routes) {
    std::vector<DeviceIndex> indices;
    for (const std::string& name : forced.devices) {
      VMEM_ASSIGN_OR_RETURN(const auto index, resolve(*input.file, forced.line, name, devices, notes));
      if (!index) break;
      if (std::find(indices.begin(), indices.end(), *index) != indices.end()) {
        return file_error(*input.file, forced.line,
                          "the route passes '" + info_of(devices[*index]).name + "' twice; expected each device once");
      }
      indices.push_back(*index);
    }
    if (indices.size() != forced.devices.size()) continue;  // it has been noted
    const auto [first, added] = lines.emplace(Pair(indices.front(), indices.back()), forced.line);
    if (!added) {
      return file_error(
          *input.file, forced.line,
          "a second route between the same two devices; the first is in line " + std::to_string(first->second));
    }
    VMEM_ASSIGN_OR_RETURN(Route route, make_route(*input.file, forced, indices, devices, links));
    routes.push_back(std::move(route));
  }
  return routes;
}

void note_missing_peers(const std::vector<DeviceDraft>& devices, const std::vector<Link>& links,
                        std::vector<TopologyNote>& notes) {
  std::set<Pair> linked;
  for (const Link& link : links) linked.insert({link.from, link.to});
  std::set<std::pair<std::string, std::string>> spaces;  // pairs that have their note
  for (DeviceIndex a = 0; a < devices.size(); ++a) {
    for (DeviceIndex b = a + 1; b < devices.size(); ++b) {
      if (!is_gpu(devices[a]) || !is_gpu(devices[b]) || devices[a].backing == devices[b].backing) continue;
      const std::string& space = info_of(devices[a]).address_space;
      const std::string& other = info_of(devices[b]).address_space;
      if (space != other) {
        // One note for each two kinds of device, not for each pair.
        if (!spaces.insert(std::minmax(space, other)).second) continue;
        notes.push_back(
            {"", "devices of '" + space + "' and '" + other +
                     "' share no address space: no peer path, copies between them pass through host memory"});
      } else if (linked.count({a, b}) == 0 || linked.count({b, a}) == 0) {
        const bool both = linked.count({a, b}) == 0 && linked.count({b, a}) == 0;
        const bool forth = linked.count({a, b}) == 0;
        const std::string& from = info_of(devices[forth ? a : b]).name;
        const std::string& to = info_of(devices[forth ? b : a]).name;
        notes.push_back({from, "no peer path " + std::string(both ? "between it and '" : "from it to '") + to +
                                   "': these copies pass through host memory"});
      }
    }
  }
}

}  // namespace vmem
