#include "backends/host/machine_memory.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <limits>

namespace vmem {
namespace {

constexpr unsigned kHighestId = 4095;
constexpr std::size_t kLongestFile = std::size_t{1} << 20U;

// Empty where the file can't be read. A file without end, as junk may be, is cut.
std::string read_file(const std::string& path) {
  std::ifstream stream(path);
  std::string text;
  char buffer[4096];
  while (text.size() < kLongestFile && (stream.read(buffer, sizeof buffer) || stream.gcount() > 0)) {
    text.append(buffer, static_cast<std::size_t>(stream.gcount()));
  }
  return text;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t' || text.front() == '\n')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\n')) text.remove_suffix(1);
  return text;
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  text = trim(text);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The value of "Name:   123 kB" in bytes, wherever in the line the name stands (a node's meminfo prefixes "Node 0 ").
std::optional<std::uint64_t> field_kib(std::string_view text, std::string_view name) {
  const std::string wanted = std::string(name) + ":";
  for (std::size_t at = text.find(wanted); at != std::string_view::npos; at = text.find(wanted, at + 1)) {
    const bool word_starts = at == 0 || text[at - 1] == ' ' || text[at - 1] == '\n';
    if (!word_starts) continue;
    std::string_view rest = text.substr(at + wanted.size());
    rest = rest.substr(0, rest.find('\n'));
    const std::size_t unit = rest.find(" kB");
    const auto value = parse_number(unit == std::string_view::npos ? rest : rest.substr(0, unit));
    if (!value || *value > std::numeric_limits<std::uint64_t>::max() / 1024) return std::nullopt;
    return *value * 1024;
  }
  return std::nullopt;
}

// The value of "name 123" in a memory.stat.
std::uint64_t statistic(const std::string& text, const std::string& name) {
  const std::string wanted = "\n" + name + " ";
  const std::string lines = "\n" + text;
  const std::size_t at = lines.find(wanted);
  if (at == std::string::npos) return 0;
  const std::string_view rest = std::string_view(lines).substr(at + wanted.size());
  return parse_number(rest.substr(0, rest.find('\n'))).value_or(0);
}

struct CgroupFiles {
  const char* limit;
  const char* usage;
  const char* reclaimable;  // of memory.stat: page cache that counts as used and can be dropped
};

// What one memory cgroup still grants; none without a limit.
std::optional<std::uint64_t> granted_by(const std::string& folder, const CgroupFiles& files) {
  const auto limit = parse_number(read_file(folder + "/" + files.limit));
  const auto usage = parse_number(read_file(folder + "/" + files.usage));
  if (!limit || !usage) return std::nullopt;
  const std::uint64_t cache = statistic(read_file(folder + "/memory.stat"), files.reclaimable);
  const std::uint64_t used = *usage - std::min(*usage, cache);
  return *limit - std::min(*limit, used);
}

// The least that a cgroup and those above it grant. Inside a container the path may name folders that only the host
// sees; the mount's root then is the container's own cgroup.
std::uint64_t granted_below(const std::string& mount, std::string path, const CgroupFiles& files) {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (;;) {
    if (const auto granted = granted_by(mount + path, files)) least = std::min(least, *granted);
    const std::size_t slash = path.rfind('/');
    if (path.empty() || slash == std::string::npos) return least;
    path.erase(slash);
  }
}

std::uint64_t granted_by_cgroups(const std::string& root) {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  const std::string groups = read_file(root + "/proc/self/cgroup");
  for (std::string_view rest = groups; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string controllers = "," + std::string(line.substr(first + 1, second - first - 1)) + ",";
    const std::string path(line.substr(second + 1));
    if (controllers == ",,") {
      least = std::min(least,
                       granted_below(root + "/sys/fs/cgroup", path, {"memory.max", "memory.current", "inactive_file"}));
    } else if (controllers.find(",memory,") != std::string::npos) {
      least = std::min(least, granted_below(root + "/sys/fs/cgroup/memory", path,
                                            {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}));
    }
  }
  return least;
}

std::optional<MemoryNode> read_node(const std::string& root, unsigned id) {
  const std::string folder = root + "/sys/devices/system/node/node" + std::to_string(id);
  const std::string meminfo = read_file(folder + "/meminfo");
  const auto total = field_kib(meminfo, "MemTotal");
  if (!total || *total == 0) return std::nullopt;
  MemoryNode node;
  node.id = id;
  node.total_bytes = *total;
  // A node has no MemAvailable; what its page cache holds can be dropped, shared memory can't.
  const std::uint64_t cached = field_kib(meminfo, "FilePages").value_or(0);
  const std::uint64_t shared = field_kib(meminfo, "Shmem").value_or(0);
  node.available_bytes =
      std::min(*total, field_kib(meminfo, "MemFree").value_or(0) + cached - std::min(cached, shared));
  const std::string cpus = read_file(folder + "/cpulist");
  node.cpus = std::string(trim(cpus));
  node.has_cpus = !node.cpus.empty();
  return node;
}

}  // namespace

std::optional<std::vector<unsigned>> parse_id_list(std::string_view text) {
  std::vector<unsigned> ids;
  text = trim(text);
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const std::size_t dash = item.find('-');
    const auto first = parse_number(item.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_number(item.substr(dash + 1));
    if (!first || !last || *first > *last || *last > kHighestId) return std::nullopt;
    for (std::uint64_t id = *first; id <= *last; ++id) ids.push_back(static_cast<unsigned>(id));
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

std::uint64_t available_memory(const std::string& root) {
  const std::string meminfo = read_file(root + "/proc/meminfo");
  const auto available = field_kib(meminfo, "MemAvailable");
  const std::uint64_t machine = available ? *available : field_kib(meminfo, "MemFree").value_or(0);
  return std::min(machine, granted_by_cgroups(root));
}

std::vector<MemoryNode> discover_numa_nodes(const std::string& root) {
  std::vector<MemoryNode> nodes;
  const auto online = parse_id_list(read_file(root + "/sys/devices/system/node/online"));
  for (const unsigned id : online.value_or(std::vector<unsigned>())) {
    if (auto node = read_node(root, id)) nodes.push_back(std::move(*node));
  }
  const std::uint64_t available = available_memory(root);
  if (nodes.empty()) {
    MemoryNode whole;
    whole.total_bytes = field_kib(read_file(root + "/proc/meminfo"), "MemTotal").value_or(available);
    whole.available_bytes = available;
    nodes.push_back(std::move(whole));
    return nodes;
  }
  long double sum = 0;
  for (const MemoryNode& node : nodes) sum += static_cast<long double>(node.available_bytes);
  const long double share = sum > 0 ? static_cast<long double>(available) / sum : 0;
  for (MemoryNode& node : nodes) {
    // One node has all of what is available. Several share it, and none has more than it holds.
    const auto part = static_cast<std::uint64_t>(static_cast<long double>(node.available_bytes) * share);
    node.available_bytes =
        nodes.size() == 1 ? std::min(available, node.total_bytes) : std::min(node.available_bytes, part);
  }
  return nodes;
}

}  // namespace vmem
