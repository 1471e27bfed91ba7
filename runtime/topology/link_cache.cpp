#include "runtime/topology/link_cache.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/topology/file_io.hpp"
#include "runtime/topology/json_reader.hpp"
#include "runtime/topology/pci_address.hpp"

namespace vmem {
namespace {

constexpr std::uint64_t kVersion = 1;
constexpr std::size_t kMaxCacheBytes = std::size_t{16} << 20U;

// A device's identity; names follow the driver's order, which may change between runs.
std::string identity_of(const DeviceInfo& info) {
  if (info.uuid.empty()) return info.name;
  return info.backend + '|' + info.uuid + '|' + info.partition;
}

// FNV-1a: a name for the file, not a proof; the whole key is in the file.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

std::string lanes_of(const PciLink& link) { return link.width ? " x" + std::to_string(*link.width) : std::string(); }

using Pair = std::pair<std::string, std::string>;

struct CacheFile {
  std::string machine;
  std::string drivers;
  std::map<Pair, Link> links;
};

Result<CacheFile> parse_cache(const std::string& text, const std::string& path) {
  const std::string file = "cache file '" + path + "'";
  VMEM_ASSIGN_OR_RETURN(const JsonValue root, parse_json(text, file));
  JsonErrors errors(file);
  JsonObject object(errors, root, "$", {"version", "machine", "drivers", "links"});
  for (const char* key : {"version", "machine", "drivers", "links"}) object.require(key, "a value");
  CacheFile cache;
  object.count("version", kVersion, kVersion);
  cache.machine = object.text("machine").value_or("");
  cache.drivers = object.text("drivers").value_or("");
  const std::vector<JsonValue>* links = object.array("links");
  for (std::size_t i = 0; links != nullptr && i < links->size(); ++i) {
    JsonObject entry(errors, (*links)[i], element_path("$.links", i), {"from", "to", "bytes_per_second", "latency_ns"});
    for (const char* key : {"from", "to", "bytes_per_second", "latency_ns"}) entry.require(key, "a value");
    Link link;
    link.bytes_per_second = entry.rate("bytes_per_second").value_or(0);
    link.latency = entry.duration("latency_ns").value_or(std::chrono::nanoseconds(0));
    link.source = LinkSource::kMeasured;
    cache.links[{entry.text("from").value_or(""), entry.text("to").value_or("")}] = link;
  }
  if (!errors.ok()) return errors.first();
  return cache;
}

}  // namespace

std::string read_machine_id() {
  const auto text = read_file("/etc/machine-id", 4096);
  return text ? text->substr(0, text->find('\n')) : std::string();
}

LinkCacheKey make_link_cache_key(const Machine& machine, const std::string& machine_id,
                                 std::vector<DriverVersion> drivers) {
  LinkCacheKey key;
  key.machine = "machine " + machine_id;
  for (const NumaNode& node : machine.numa_nodes) key.machine += "; node " + std::to_string(node.os_index);
  std::vector<std::string> devices;
  for (const PciDevice& device : machine.pci_devices) {
    char ids[16];
    std::snprintf(ids, sizeof(ids), "%04x:%04x", static_cast<unsigned>(device.vendor_id),
                  static_cast<unsigned>(device.device_id));
    devices.push_back("; pci " + to_string(device.address) + ' ' + ids +
                      lanes_of(machine.pci_device(device.address).link));
  }
  std::sort(devices.begin(), devices.end());
  for (const std::string& device : devices) key.machine += device;
  std::sort(drivers.begin(), drivers.end(), [](const DriverVersion& a, const DriverVersion& b) {
    return std::tie(a.backend, a.version) < std::tie(b.backend, b.version);
  });
  key.drivers = "drivers";
  for (const DriverVersion& driver : drivers) key.drivers += "; " + driver.backend + ' ' + driver.version;
  return key;
}

std::optional<std::string> LinkCache::default_directory() {
  // The base directory specification: a relative path is to be ignored.
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && cache[0] == '/') {
    return std::string(cache) + "/vmem";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && home[0] == '/') {
    return std::string(home) + "/.cache/vmem";
  }
  return std::nullopt;
}

std::string LinkCache::path(const LinkCacheKey& key) const {
  char name[40];
  // By the machine alone: a new driver's measurements replace the old one's.
  std::snprintf(name, sizeof(name), "links-%016llx.json", static_cast<unsigned long long>(hash_of(key.machine)));
  return directory_ + '/' + name;
}

CachedLinks LinkCache::load(const LinkCacheKey& key, const Topology& topology) const {
  CachedLinks cached;
  const std::string file = path(key);
  const auto text = read_file(file, kMaxCacheBytes);
  if (!text) {
    if (text.error().code() != StatusCode::kNotFound) cached.warning = text.error().to_string();
    return cached;
  }
  const auto parsed = parse_cache(*text, file);
  if (!parsed) {
    cached.warning = std::string(parsed.error().message()) + "; the file is ignored, links are to be measured again";
    return cached;
  }
  if (parsed->machine != key.machine || parsed->drivers != key.drivers) return cached;
  // The names in the file are identities; this topology may hide some of them or order them otherwise.
  cached.complete = true;
  for (const Link& link : topology.links()) {
    if (link.source == LinkSource::kFile) continue;
    const auto found = parsed->links.find(
        {identity_of(topology.devices()[link.from].info), identity_of(topology.devices()[link.to].info)});
    if (found == parsed->links.end()) {
      cached.complete = false;
      continue;
    }
    Link measured = found->second;
    measured.from = link.from;
    measured.to = link.to;
    measured.peer = link.peer;
    cached.links.push_back(measured);
  }
  return cached;
}

Status LinkCache::store(const LinkCacheKey& key, const Topology& topology) const {
  nlohmann::ordered_json root;
  root["version"] = kVersion;
  root["machine"] = key.machine;
  root["drivers"] = key.drivers;
  root["links"] = nlohmann::ordered_json::array();
  for (const Link& link : topology.links()) {
    if (link.source != LinkSource::kMeasured) continue;
    nlohmann::ordered_json entry;
    entry["from"] = identity_of(topology.devices()[link.from].info);
    entry["to"] = identity_of(topology.devices()[link.to].info);
    entry["bytes_per_second"] = link.bytes_per_second;
    entry["latency_ns"] = link.latency.count();
    root["links"].push_back(std::move(entry));
  }
  // What a driver gives as a name need not be UTF-8; such bytes must not throw.
  return replace_file(path(key), root.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n');
}

}  // namespace vmem
