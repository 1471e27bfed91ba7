#include "runtime/support/bytes.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace vmem {
namespace {

struct Unit {
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array<Unit, 14> kUnits = {{{"", 1},
                                          {"B", 1},
                                          {"K", 1_KiB},
                                          {"KiB", 1_KiB},
                                          {"kB", 1000},
                                          {"KB", 1000},
                                          {"M", 1_MiB},
                                          {"MiB", 1_MiB},
                                          {"MB", 1000UL * 1000},
                                          {"G", 1_GiB},
                                          {"GiB", 1_GiB},
                                          {"GB", 1000UL * 1000 * 1000},
                                          {"T", 1_TiB},
                                          {"TiB", 1_TiB}}};
constexpr Unit kDecimalTera{"TB", 1000UL * 1000 * 1000 * 1000};

std::optional<std::size_t> find_unit(std::string_view name) {
  for (const Unit& unit : kUnits) {
    if (unit.name == name) return unit.bytes;
  }
  if (name == kDecimalTera.name) return kDecimalTera.bytes;
  return std::nullopt;
}

Status invalid_count(std::string_view text, std::string_view why) {
  return Status(
      StatusCode::kInvalidValue,
      fmt::format("'{}' is no byte count: {}; expected a number and a unit, such as 64MiB or 16GiB", text, why));
}

}  // namespace

std::string format_bytes(std::size_t bytes) {
  if (bytes < 1_KiB) return fmt::format("{} B", bytes);
  constexpr std::array<std::string_view, 6> kNames = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes) / 1024.0;
  std::size_t unit = 0;
  // 1023.95 and above would print as 1024.0 of the smaller unit.
  while (value >= 1023.95 && unit + 1 < kNames.size()) {
    value /= 1024.0;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kNames[unit]);
}

std::string format_rate(double bytes_per_second) {
  constexpr std::array<std::string_view, 5> kNames = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  std::size_t unit = 0;
  while (bytes_per_second >= 999.95 && unit + 1 < kNames.size()) {
    bytes_per_second /= 1000.0;
    ++unit;
  }
  return fmt::format("{:.1f} {}", bytes_per_second, kNames[unit]);
}

Result<std::size_t> parse_bytes(std::string_view text) {
  const std::size_t digits = text.find_first_not_of("0123456789.");
  const std::string_view number = text.substr(0, digits);
  std::string_view unit_name = digits == std::string_view::npos ? std::string_view() : text.substr(digits);
  if (!number.empty() && unit_name.starts_with(' ')) unit_name.remove_prefix(1);
  const auto unit = find_unit(unit_name);
  if (!unit) return invalid_count(text, fmt::format("unknown unit '{}'", unit_name));

  std::uint64_t whole = 0;
  const char* const end = number.data() + number.size();
  if (const auto [rest, error] = std::from_chars(number.data(), end, whole); error == std::errc() && rest == end) {
    const auto bytes = checked_multiply(whole, *unit);
    if (!bytes) return invalid_count(text, "it does not fit into 64 bits");
    return *bytes;
  } else if (error == std::errc::result_out_of_range) {
    return invalid_count(text, "it does not fit into 64 bits");
  }
  double fraction = 0;
  if (const auto [rest, error] = std::from_chars(number.data(), end, fraction); error != std::errc() || rest != end) {
    return invalid_count(text, "no number");
  }
  const double bytes = fraction * static_cast<double>(*unit);
  if (bytes >= std::ldexp(1.0, 64)) return invalid_count(text, "it does not fit into 64 bits");
  return static_cast<std::size_t>(bytes);
}

}  // namespace vmem
