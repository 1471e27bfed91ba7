#include "tests/doubles/driver/settings.hpp"

#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>

namespace vmem::sim {
namespace {

constexpr const char* kKeys[] = {"devices", "capacity",   "granularity", "version",    "personality",
                                 "peer",    "off",        "exclusive",   "integrated", "wave_width",
                                 "arena",   "late_calls", "kernels",     "faults",     "checks_ranges"};

template <typename T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::size_t> bytes(std::string_view text) {
  unsigned shift = 0;
  const std::pair<std::string_view, unsigned> units[] = {{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};
  for (const auto& [unit, bits] : units) {
    if (text.size() > 3 && text.substr(text.size() - 3) == unit) {
      shift = bits;
      text.remove_suffix(3);
      break;
    }
  }
  const auto value = number<std::size_t>(text);
  if (!value || *value == 0 || *value > (std::size_t{1} << 50U) >> shift) return std::nullopt;
  return *value << shift;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const auto end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return parts;
}

template <typename T, std::size_t N>
std::optional<T> named(std::string_view text, const std::pair<std::string_view, T> (&names)[N]) {
  for (const auto& [name, value] : names) {
    if (name == text) return value;
  }
  return std::nullopt;
}

std::optional<vmem_double_peer> peer_named(std::string_view text) {
  constexpr std::pair<std::string_view, vmem_double_peer> kNames[] = {{"works", VMEM_DOUBLE_PEER_WORKS},
                                                                      {"absent", VMEM_DOUBLE_PEER_ABSENT},
                                                                      {"lies", VMEM_DOUBLE_PEER_LIES},
                                                                      {"hangs", VMEM_DOUBLE_PEER_HANGS},
                                                                      {"crashes", VMEM_DOUBLE_PEER_CRASHES}};
  return named(text, kNames);
}

bool parse_peer(std::string_view text, Settings& settings) {
  if (const auto all = peer_named(text)) {
    settings.peer = *all;
    settings.links.clear();
    return true;
  }
  std::map<std::pair<int, int>, vmem_double_peer> links;
  for (const std::string_view part : split(text, ',')) {
    const auto arrow = part.find('>');
    const auto colon = part.find(':');
    if (arrow == std::string_view::npos || colon == std::string_view::npos || colon < arrow) return false;
    const auto from = number<int>(part.substr(0, arrow));
    const auto to = number<int>(part.substr(arrow + 1, colon - arrow - 1));
    const auto behaviour = peer_named(part.substr(colon + 1));
    if (!from || !to || !behaviour) return false;
    links[{*from, *to}] = *behaviour;
  }
  settings.links = std::move(links);
  return true;
}

bool parse_off(std::string_view text, Settings& settings) {
  Settings changed = settings;
  changed.vmm = changed.host_vmm = changed.stream_values = changed.host_registration = changed.posix_fd = true;
  changed.pointers_differ = false;
  for (const std::string_view part : split(text, ',')) {
    if (part == "vmm") {
      changed.vmm = changed.host_vmm = false;
    } else if (part == "host_vmm") {
      changed.host_vmm = false;
    } else if (part == "stream_values") {
      changed.stream_values = false;
    } else if (part == "host_registration") {
      changed.host_registration = false;
    } else if (part == "posix_fd") {
      changed.posix_fd = false;
    } else if (part == "pointers_differ") {
      changed.pointers_differ = true;
    } else {
      return false;
    }
  }
  settings = std::move(changed);
  return true;
}

bool parse_faults(std::string_view text, Settings& settings) {
  constexpr std::pair<std::string_view, vmem_double_fault_kind> kKinds[] = {{"fail", VMEM_DOUBLE_FAIL},
                                                                            {"fail_work", VMEM_DOUBLE_FAIL_WORK},
                                                                            {"hang", VMEM_DOUBLE_HANG},
                                                                            {"corrupt", VMEM_DOUBLE_CORRUPT}};
  std::vector<Settings::PlannedFault> faults;
  for (const std::string_view part : split(text, ',')) {
    const auto fields = split(part, ':');
    if (fields.size() < 3 || fields.size() > 4) return false;
    const auto kind = named(fields[1], kKinds);
    const auto after = number<std::uint64_t>(fields[2]);
    const auto code = fields.size() == 4 ? number<int>(fields[3]) : std::optional<int>(0);
    if (!kind || !after || !code) return false;
    faults.push_back({std::string(fields[0]), *kind, *after, *code});
  }
  settings.faults = std::move(faults);
  return true;
}

template <typename T>
bool assign(T& to, const std::optional<T>& value) {
  if (value) to = *value;
  return value.has_value();
}

bool assign_flag(bool& to, std::string_view text) {
  if (text != "0" && text != "1") return false;
  to = text == "1";
  return true;
}

bool assign_power_of_two(std::size_t& to, std::string_view text) {
  const auto value = bytes(text);
  if (!value || (*value & (*value - 1)) != 0 || *value < 4096) return false;
  to = *value;
  return true;
}

}  // namespace

bool Settings::set(std::string_view key, std::string_view value) {
  constexpr std::pair<std::string_view, Personality> kPersonalities[] = {{"working", Personality::kWorking},
                                                                         {"stub", Personality::kStub},
                                                                         {"no_device", Personality::kNoDevice},
                                                                         {"broken_init", Personality::kBrokenInit}};
  constexpr std::pair<std::string_view, LateCalls> kLateCalls[] = {
      {"refuse", LateCalls::kRefuse}, {"work", LateCalls::kWork}, {"abort", LateCalls::kAbort}};
  if (key == "devices") {
    const auto count = number<int>(value);
    if (!count || *count < 0 || *count > 16) return false;
    num_devices = *count;
    return true;
  }
  if (key == "capacity") return assign(capacity, bytes(value));
  if (key == "granularity") return assign_power_of_two(granularity, value);
  if (key == "version") return assign(version, number<int>(value));
  if (key == "personality") return assign(personality, named(value, kPersonalities));
  if (key == "peer") return parse_peer(value, *this);
  if (key == "off") return parse_off(value, *this);
  if (key == "exclusive") return exclusive = std::string(value), true;
  if (key == "kernels") return kernels = std::string(value), true;
  if (key == "integrated") return assign_flag(integrated, value);
  if (key == "wave_width") return assign(wave_width, number<unsigned>(value));
  if (key == "arena") return assign_power_of_two(arena_bytes, value);
  if (key == "late_calls") return assign(late_calls, named(value, kLateCalls));
  if (key == "faults") return parse_faults(value, *this);
  if (key == "checks_ranges") return assign_flag(checks_ranges, value);
  return false;
}

Settings Settings::from_environment() {
  Settings settings;
  for (const char* const key : kKeys) {
    std::string variable = "VMEM_DOUBLE_";
    for (const char* c = key; *c != '\0'; ++c) {
      variable.push_back(static_cast<char>(std::toupper(static_cast<unsigned char>(*c))));
    }
    const char* const value = std::getenv(variable.c_str());
    if (value != nullptr && !settings.set(key, value)) {
      std::fprintf(stderr, "%s: '%s' is no value for it\n", variable.c_str(), value);
      std::abort();
    }
  }
  return settings;
}

vmem_double_peer Settings::link(int device, int other) const {
  const auto found = links.find({device, other});
  return found == links.end() ? peer : found->second;
}

}  // namespace vmem::sim
