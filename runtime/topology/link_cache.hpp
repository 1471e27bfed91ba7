// Measured links, kept between runs: one JSON file a machine.
#pragma once

#include <vmem/status.hpp>
#include <vmem/topology.hpp>

#include <optional>
#include <string>
#include <vector>

#include "runtime/topology/machine.hpp"

namespace vmem {

// What measurements hold for. A change of any part makes them void.
struct LinkCacheKey {
  std::string machine;  // the installation, its NUMA nodes, its PCI devices and the lanes of their links
  std::string drivers;  // the version of each backend's driver
};

struct DriverVersion {
  std::string backend;
  std::string version;
};

// `machine_id` is /etc/machine-id's text (read_machine_id); empty where there is none.
LinkCacheKey make_link_cache_key(const Machine& machine, const std::string& machine_id,
                                 std::vector<DriverVersion> drivers);
std::string read_machine_id();

struct CachedLinks {
  std::vector<Link> links;  // of the topology's, with source kMeasured
  bool complete = false;    // all links that the topology file does not give are there
  std::string warning;      // why a file that is there is not used; empty for one that is only of another machine
};

// Thread contract: any number of threads and processes may load and store at once; the last store wins wholly.
class LinkCache {
 public:
  explicit LinkCache(std::string directory) : directory_(std::move(directory)) {}

  // $XDG_CACHE_HOME/vmem, else ~/.cache/vmem. Empty where the environment names neither.
  static std::optional<std::string> default_directory();

  // Never fails: without a file that can be trusted there are no links.
  CachedLinks load(const LinkCacheKey& key, const Topology& topology) const;
  // Keeps those links of the topology that were measured.
  Status store(const LinkCacheKey& key, const Topology& topology) const;
  std::string path(const LinkCacheKey& key) const;

 private:
  std::string directory_;
};

}  // namespace vmem
