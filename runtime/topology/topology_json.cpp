#include <vmem/topology.hpp>
#include <vmem/types.hpp>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/topology/pci_address.hpp"

namespace vmem {
namespace {

using Json = nlohmann::ordered_json;

// The size whose routes are listed: large enough that bandwidth decides.
constexpr std::size_t kRouteBytes = 64_MiB;

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

const char* name_of(Tier tier) {
  constexpr std::array kNames = {"device", "host", "storage", "remote"};
  return kNames.at(static_cast<std::size_t>(tier));
}

const char* name_of(LinkSource source) {
  constexpr std::array kNames = {"assumed", "advertised", "measured", "file"};
  return kNames.at(static_cast<std::size_t>(source));
}

Json capabilities_of(DeviceCaps caps) {
  constexpr std::array<std::pair<DeviceCap, const char*>, 6> kNames = {
      {{DeviceCap::kVirtualMemory, "virtual_memory"},
       {DeviceCap::kPeerCopy, "peer_copy"},
       {DeviceCap::kHostRegistration, "host_registration"},
       {DeviceCap::kKernels, "kernels"},
       {DeviceCap::kStreamSignals, "stream_signals"},
       {DeviceCap::kFaultInjection, "fault_injection"}}};
  Json names = Json::array();
  for (const auto& [cap, name] : kNames) {
    if (caps.has(cap)) names.push_back(name);
  }
  return names;
}

Json device_json(const TopologyDevice& device, const MemoryInfo& memory) {
  const DeviceInfo& info = device.info;
  Json json;
  json["name"] = info.name;
  json["backend"] = info.backend;
  json["tier"] = name_of(info.tier);
  json["model"] = info.model;
  json["vendor"] = info.vendor;
  json["simulated"] = info.simulated;
  json["uuid"] = text_or_null(info.uuid);
  json["partition"] = text_or_null(info.partition);
  json["card"] = device.card;
  json["address_space"] = info.address_space;
  json["pci"] = info.pci ? Json(to_string(*info.pci)) : Json(nullptr);
  json["numa_node"] = or_null(info.numa_node);
  json["total_bytes"] = info.total_bytes;
  json["limit_bytes"] = device.limit_bytes;
  json["free_bytes"] = memory.total_bytes != 0 ? Json(memory.free_bytes) : Json(nullptr);
  json["granularity"] = info.granularity;
  json["wave_width"] = info.wave_width;
  json["drives_display"] = info.drives_display;
  json["capabilities"] = capabilities_of(info.caps);
  json["pcie"] = {{"width", or_null(device.link_width)},
                  {"width_max", or_null(device.link_width_max)},
                  {"gts", or_null(device.link_gts)}};
  return json;
}

Json link_json(const Topology& topology, const Link& link) {
  Json json;
  json["from"] = topology.devices()[link.from].info.name;
  json["to"] = topology.devices()[link.to].info.name;
  json["peer"] = link.peer;
  json["bytes_per_second"] = link.bytes_per_second;
  json["latency_ns"] = link.latency.count();
  json["source"] = name_of(link.source);
  return json;
}

Json routes_json(const Topology& topology) {
  Json routes = Json::array();
  for (DeviceIndex from = 0; from < topology.devices().size(); ++from) {
    for (DeviceIndex to = 0; to < topology.devices().size(); ++to) {
      const auto route = topology.route(from, to, kRouteBytes);
      if (from == to || !route) continue;
      Json json;
      json["from"] = topology.devices()[from].info.name;
      json["to"] = topology.devices()[to].info.name;
      for (const DeviceIndex index : route->devices) json["devices"].push_back(topology.devices()[index].info.name);
      json["bytes_per_second"] = route->bytes_per_second;
      json["latency_ns"] = route->latency.count();
      json["forced"] = route->forced;
      routes.push_back(std::move(json));
    }
  }
  return routes;
}

}  // namespace

std::string Topology::to_json(const std::vector<MemoryInfo>& memory) const {
  Json root;
  root["schema_version"] = 1;
  root["devices"] = Json::array();
  for (DeviceIndex i = 0; i < devices_.size(); ++i) {
    root["devices"].push_back(device_json(devices_[i], i < memory.size() ? memory[i] : MemoryInfo{}));
  }
  root["links"] = Json::array();
  for (const Link& link : links_) root["links"].push_back(link_json(*this, link));
  root["route_bytes"] = kRouteBytes;
  root["routes"] = routes_json(*this);
  root["absent_backends"] = Json::array();
  for (const AbsentBackend& backend : absent_) {
    root["absent_backends"].push_back({{"name", backend.name}, {"reason", backend.reason}});
  }
  root["notes"] = Json::array();
  for (const TopologyNote& note : notes_) {
    root["notes"].push_back({{"device", text_or_null(note.device)}, {"text", note.text}});
  }
  // What a driver gives as a name need not be UTF-8; such bytes must not throw.
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace vmem
