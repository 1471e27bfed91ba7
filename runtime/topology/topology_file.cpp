#include "runtime/topology/topology_file.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "runtime/support/bytes.hpp"
#include "runtime/topology/file_io.hpp"
#include "runtime/topology/json_reader.hpp"

namespace vmem {
namespace {

// Far above what Linux can be built for, and below where a conversion to unsigned could lose bits.
constexpr std::uint64_t kMaxNumaNode = 65535;
constexpr std::size_t kMaxSimulatedDevices = 256;

bool is_device_name(std::string_view name) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:._-";
  return !name.empty() && name.size() <= 64 && name.find_first_not_of(kAllowed) == std::string_view::npos;
}

// Keeps the default where the file says nothing.
template <typename T, typename U>
void assign(T& target, std::optional<U> value) {
  if (value) target = static_cast<T>(*value);
}

void read_name(JsonObject& object, std::string& name) {
  assign(name, object.text("name"));
  if (!name.empty() && !is_device_name(name)) object.fail("name", "at most 64 of the characters A-Z a-z 0-9 : . _ -");
}

DeviceCaps read_capabilities(JsonErrors& errors, JsonObject& object, DeviceCaps fallback) {
  const std::vector<JsonValue>* names = object.array("capabilities");
  if (names == nullptr) return fallback;
  static const std::map<std::string, DeviceCap, std::less<>> kCapabilities = {
      {"virtual_memory", DeviceCap::kVirtualMemory},       {"peer_copy", DeviceCap::kPeerCopy},
      {"host_registration", DeviceCap::kHostRegistration}, {"kernels", DeviceCap::kKernels},
      {"stream_signals", DeviceCap::kStreamSignals},       {"fault_injection", DeviceCap::kFaultInjection}};
  DeviceCaps caps;
  for (std::size_t i = 0; i < names->size(); ++i) {
    const JsonValue& name = (*names)[i];
    const auto found = name.kind == JsonValue::Kind::kText ? kCapabilities.find(name.text) : kCapabilities.end();
    if (found == kCapabilities.end()) {
      errors.add_unexpected(name, element_path(object.path_of("capabilities"), i),
                            "one of fault_injection, host_registration, kernels, peer_copy, stream_signals, "
                            "virtual_memory");
      return caps;
    }
    caps = caps.with(found->second);
  }
  return caps;
}

std::vector<Fault> read_faults(JsonErrors& errors, JsonObject& device) {
  std::vector<Fault> faults;
  const std::vector<JsonValue>* values = device.array("faults");
  if (values == nullptr) return faults;
  for (std::size_t i = 0; i < values->size(); ++i) {
    JsonObject object(errors, (*values)[i], element_path(device.path_of("faults"), i),
                      {"kind", "call", "after", "count"});
    object.require("kind", "one of fail, hang, vanish, corrupt");
    Fault fault;
    assign(fault.kind, object.choice("kind", {"fail", "hang", "vanish", "corrupt"}));
    assign(fault.call, object.text("call"));
    assign(fault.after, object.count("after", 0, std::numeric_limits<std::uint64_t>::max()));
    assign(fault.count, object.count("count", 1, std::numeric_limits<std::uint64_t>::max()));
    faults.push_back(std::move(fault));
  }
  return faults;
}

SimulatedDevice read_simulated_device(JsonErrors& errors, const JsonValue& value, std::size_t index) {
  JsonObject object(
      errors, value, element_path("$.simulated_devices", index),
      {"name", "vendor", "model", "uuid", "capacity", "granularity", "wave_width", "capabilities", "enforce_links",
       "bandwidth_in", "bandwidth_out", "bandwidth_peer", "latency", "pci", "numa_node", "alias_offset", "faults"});
  object.require("capacity", "the device's bytes, such as \"16GiB\"");
  SimulatedDevice device;
  device.name = "sim:" + std::to_string(index);
  read_name(object, device.name);
  assign(device.vendor, object.text("vendor"));
  assign(device.model, object.text("model"));
  assign(device.uuid, object.text("uuid"));
  assign(device.total_bytes, object.bytes("capacity"));
  assign(device.granularity, object.bytes("granularity"));
  if (!is_power_of_two(device.granularity) || device.granularity < kPageBytes || device.granularity > 1_GiB) {
    object.fail("granularity", "a power of two from 4096 to 1GiB");
  }
  if (device.total_bytes < device.granularity) {
    object.fail("capacity", "at least the granularity, " + std::to_string(device.granularity) + " bytes");
  }
  assign(device.wave_width, object.count("wave_width", 32, 64));
  // The range of the read above gives a message for what is no number; this one is for what lies between.
  if (device.wave_width != 32 && device.wave_width != 64) object.fail("wave_width", "32 or 64");
  device.caps = read_capabilities(errors, object, device.caps);
  assign(device.enforce_links, object.flag("enforce_links"));
  assign(device.bandwidth_in, object.rate("bandwidth_in"));
  assign(device.bandwidth_out, object.rate("bandwidth_out"));
  assign(device.bandwidth_peer, object.rate("bandwidth_peer"));
  assign(device.latency, object.duration("latency"));
  device.pci = object.pci("pci");
  assign(device.numa_node, object.count("numa_node", 0, kMaxNumaNode));
  assign(device.alias_offset, object.count("alias_offset", 0, std::uint64_t{1} << 46U));
  if (device.alias_offset % kPageBytes != 0) object.fail("alias_offset", "a multiple of 4096");
  device.faults = read_faults(errors, object);
  return device;
}

std::vector<DevicePart> read_split(JsonErrors& errors, JsonObject& device) {
  std::vector<DevicePart> parts;
  const std::vector<JsonValue>* values = device.array("split");
  if (values == nullptr) return parts;
  if (values->empty()) device.fail("split", "at least one part");
  std::set<std::string> names;
  for (std::size_t i = 0; i < values->size(); ++i) {
    JsonObject object(errors, (*values)[i], element_path(device.path_of("split"), i), {"name", "capacity"});
    object.require("capacity", "the part's bytes, such as \"40GiB\"");
    DevicePart part;
    part.name = std::to_string(i);
    read_name(object, part.name);
    assign(part.capacity_bytes, object.bytes("capacity"));
    if (!names.insert(part.name).second) {
      errors.add(object.line(), object.path_of("name"),
                 "a second part named \"" + part.name + "\"; expected each once");
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

DeviceCorrection read_device(JsonErrors& errors, const JsonValue& value, std::size_t index) {
  JsonObject object(errors, value, element_path("$.devices", index),
                    {"device", "hide", "capacity", "limit", "numa_node", "split"});
  object.require("device", "a device's name, UUID or PCI address");
  DeviceCorrection device;
  device.line = object.line();
  assign(device.device, object.text("device"));
  assign(device.hide, object.flag("hide"));
  device.capacity_bytes = object.bytes("capacity");
  device.limit_bytes = object.bytes("limit");
  assign(device.numa_node, object.count("numa_node", 0, kMaxNumaNode));
  device.split = read_split(errors, object);
  if (!device.split.empty() && object.has("limit")) {
    object.fail("limit", "no limit on a device that is split: its parts' capacities are the limits");
  }
  return device;
}

LinkCorrection read_link(JsonErrors& errors, const JsonValue& value, std::size_t index) {
  JsonObject object(errors, value, element_path("$.links", index),
                    {"from", "to", "bandwidth", "latency", "peer_access", "hide"});
  object.require("from", "the device where the link starts");
  object.require("to", "the device where the link ends");
  LinkCorrection link;
  link.line = object.line();
  assign(link.from, object.text("from"));
  assign(link.to, object.text("to"));
  link.bytes_per_second = object.rate("bandwidth");
  link.latency = object.duration("latency");
  link.peer_access = object.flag("peer_access");
  assign(link.hide, object.flag("hide"));
  if (link.from == link.to) {
    errors.add(link.line, object.path(), "a link from \"" + link.from + "\" to itself; expected two devices");
  }
  if (!link.bytes_per_second && !link.latency && !link.peer_access && !link.hide) {
    errors.add(link.line, object.path(), "says nothing; expected one of bandwidth, latency, peer_access, hide");
  }
  return link;
}

ForcedRoute read_route(JsonErrors& errors, const JsonValue& value, std::size_t index) {
  JsonObject object(errors, value, element_path("$.routes", index), {"devices"});
  object.require("devices", "the devices that the bytes pass, both ends included");
  ForcedRoute route;
  route.line = object.line();
  const std::vector<JsonValue>* names = object.array("devices");
  if (names == nullptr) return route;
  if (names->size() < 2 || names->size() > 4) {
    errors.add(route.line, object.path_of("devices"),
               "expected two to four devices, found " + std::to_string(names->size()));
  }
  for (std::size_t i = 0; i < names->size() && errors.ok(); ++i) {
    const JsonValue& name = (*names)[i];
    const std::string path = element_path(object.path_of("devices"), i);
    if (name.kind != JsonValue::Kind::kText || name.text.empty()) {
      errors.add_unexpected(name, path, "a device's name, UUID or PCI address");
    } else if (std::find(route.devices.begin(), route.devices.end(), name.text) != route.devices.end()) {
      errors.add(name.line, path, "passes \"" + name.text + "\" twice; expected each device once");
    }
    route.devices.push_back(name.text);
  }
  return route;
}

// Adds an error where two elements have the same key; the message names both lines.
template <typename T, typename KeyOf>
void reject_duplicates(JsonErrors& errors, const std::vector<T>& elements, std::string_view path, std::string_view what,
                       KeyOf key_of) {
  std::map<decltype(key_of(elements.front())), std::size_t> lines;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const auto [first, added] = lines.emplace(key_of(elements[i]), elements[i].line);
    if (added) continue;
    errors.add(elements[i].line, element_path(path, i),
               "a second " + std::string(what) + "; the first is in line " + std::to_string(first->second));
  }
}

void read_simulated_devices(JsonErrors& errors, const std::vector<JsonValue>& values, TopologyFile& file) {
  if (values.size() > kMaxSimulatedDevices) {
    errors.add(values.back().line, "$.simulated_devices",
               "expected at most " + std::to_string(kMaxSimulatedDevices) + " devices, found " +
                   std::to_string(values.size()));
    return;
  }
  std::set<std::string> names;
  for (std::size_t i = 0; i < values.size(); ++i) {
    file.simulated.push_back(read_simulated_device(errors, values[i], i));
    if (!names.insert(file.simulated.back().name).second) {
      errors.add(values[i].line, element_path("$.simulated_devices", i) + ".name",
                 "a second device named \"" + file.simulated.back().name + "\"; expected each name once");
    }
  }
}

void read_all(JsonErrors& errors, const JsonValue& root, TopologyFile& file) {
  JsonObject object(errors, root, "$", {"version", "strict", "simulated_devices", "devices", "links", "routes"});
  object.require("version", "the version of the format, 1");
  object.count("version", 1, 1);
  assign(file.strict, object.flag("strict"));
  if (const auto* values = object.array("simulated_devices")) read_simulated_devices(errors, *values, file);
  if (const auto* values = object.array("devices")) {
    for (const JsonValue& value : *values) file.devices.push_back(read_device(errors, value, file.devices.size()));
  }
  if (const auto* values = object.array("links")) {
    for (const JsonValue& value : *values) file.links.push_back(read_link(errors, value, file.links.size()));
  }
  if (const auto* values = object.array("routes")) {
    for (const JsonValue& value : *values) file.routes.push_back(read_route(errors, value, file.routes.size()));
  }
  if (!errors.ok()) return;  // what was not read can't be compared
  reject_duplicates(errors, file.devices, "$.devices", "entry for the same device",
                    [](const DeviceCorrection& device) { return device.device; });
  reject_duplicates(errors, file.links, "$.links", "link between the same two devices",
                    [](const LinkCorrection& link) { return std::pair(link.from, link.to); });
  reject_duplicates(errors, file.routes, "$.routes", "route between the same two devices",
                    [](const ForcedRoute& route) { return std::pair(route.devices.front(), route.devices.back()); });
}

}  // namespace

Result<TopologyFile> parse_topology_file(std::string_view text, const std::string& path) {
  VMEM_ASSIGN_OR_RETURN(const JsonValue root, parse_json(text, "topology file '" + path + "'"));
  JsonErrors errors("topology file '" + path + "'");
  TopologyFile file;
  file.path = path;
  read_all(errors, root, file);
  if (!errors.ok()) return errors.first();
  return file;
}

Result<TopologyFile> read_topology_file(const std::string& path) {
  VMEM_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxTopologyFileBytes));
  return parse_topology_file(text, path);
}

}  // namespace vmem
