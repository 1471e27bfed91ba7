// The machine's memory as the kernel describes it: NUMA nodes, what is available, the cgroup's limit.
//
// Everything is read below a root folder, so that tests describe other machines by files. Files that are missing or
// hold junk make a value unknown; they never stop the pool.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vmem {

struct MemoryNode {
  std::optional<unsigned> id;  // empty where the kernel does not say
  std::uint64_t total_bytes = 0;
  std::uint64_t available_bytes = 0;
  bool has_cpus = true;  // false: memory alone, such as CXL's
  std::string cpus;      // "0-15", for people
};

// "0", "0-3,5": ids in ascending order; none where the text is anything else or names ids above 4095.
std::optional<std::vector<unsigned>> parse_id_list(std::string_view text);

// The nodes that have memory; at least one. `available_bytes` of all together does not pass `available_memory`.
std::vector<MemoryNode> discover_numa_nodes(const std::string& root);

// MemAvailable, or what the memory cgroup (v2 or v1) still grants where that is less.
std::uint64_t available_memory(const std::string& root);

}  // namespace vmem
