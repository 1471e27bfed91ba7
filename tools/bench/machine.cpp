#include "tools/bench/machine.hpp"

#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

namespace vmem {
namespace {

// The text after "key<separator>" in a file of such lines; empty where there is none.
std::string read_field(const char* file, std::string_view key, char separator) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const std::size_t at = line.find(separator);
    if (at == std::string::npos) continue;
    const std::size_t first = line.find_first_not_of(" \t\"", at + 1);
    const std::size_t last = line.find_last_not_of(" \t\"");
    return first == std::string::npos ? std::string() : line.substr(first, last - first + 1);
  }
  return {};
}

std::uint64_t read_meminfo(std::string_view key) {
  std::istringstream text(read_field("/proc/meminfo", key, ':'));
  std::uint64_t kibibytes = 0;
  text >> kibibytes;
  return kibibytes * 1024;
}

std::optional<std::uint64_t> read_number(const char* file) {
  std::ifstream stream(file);
  std::uint64_t number = 0;
  if (stream >> number) return number;
  return std::nullopt;  // not there, or "max"
}

// What the control group leaves, where it has a limit of its own.
std::uint64_t bound_by_group(std::uint64_t available) {
  const auto most = read_number("/sys/fs/cgroup/memory.max");
  const auto used = read_number("/sys/fs/cgroup/memory.current");
  if (!most || !used) return available;
  return std::min(available, *most > *used ? *most - *used : 0);
}

}  // namespace

Machine read_machine() {
  Machine machine;
  machine.cpu = read_field("/proc/cpuinfo", "model name", ':');
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) machine.cores = static_cast<unsigned>(CPU_COUNT(&cores));
  machine.memory_bytes = read_meminfo("MemTotal");
  machine.available_bytes = bound_by_group(read_meminfo("MemAvailable"));
  utsname names{};
  if (uname(&names) == 0) machine.kernel = std::string(names.sysname) + " " + names.release;
  machine.os = read_field("/etc/os-release", "PRETTY_NAME", '=');
  return machine;
}

}  // namespace vmem
