#include "runtime/topology/json_reader.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "runtime/support/bytes.hpp"
#include "runtime/topology/pci_address.hpp"

namespace vmem {
namespace {

using Kind = JsonValue::Kind;

std::string list_of(std::initializer_list<std::string_view> words) {
  std::string list;
  for (std::string_view word : words) {
    if (!list.empty()) list += ", ";
    list += word;
  }
  return list;
}

std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 4> kUnits = {
      {{"ns", 1.0}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};
  constexpr double kHour = 3.6e12;
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || !std::isfinite(number) || number < 0) return std::nullopt;
  std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const auto& [name, nanoseconds] : kUnits) {
    if (unit != name) continue;
    const double value = number * nanoseconds;
    if (value > kHour) return std::nullopt;  // a longer latency is a slip, and llround needs a bound
    return std::chrono::nanoseconds(std::llround(value));
  }
  return std::nullopt;
}

}  // namespace

std::string describe(const JsonValue& value) {
  switch (value.kind) {
    case Kind::kNull:
      return "null";
    case Kind::kFlag:
      return value.flag ? "true" : "false";
    case Kind::kCount:
    case Kind::kReal:
      return value.text.substr(0, 48);
    case Kind::kText:
      return '"' + value.text.substr(0, 48) + (value.text.size() > 48 ? "...\"" : "\"");
    case Kind::kArray:
      return "an array";
    case Kind::kObject:
      return "an object";
  }
  return "a value";
}

std::string element_path(std::string_view path, std::size_t index) {
  return std::string(path) + '[' + std::to_string(index) + ']';
}

void JsonErrors::add(std::size_t line, std::string_view path, std::string_view what) {
  if (!first_.is_ok()) return;
  first_ = Status(StatusCode::kConfigError,
                  file_ + ", line " + std::to_string(line) + ": " + std::string(path) + ": " + std::string(what));
}

void JsonErrors::add_unexpected(const JsonValue& value, std::string_view path, std::string_view expected) {
  add(value.line, path, "expected " + std::string(expected) + ", found " + describe(value));
}

JsonObject::JsonObject(JsonErrors& errors, const JsonValue& value, std::string path,
                       std::initializer_list<std::string_view> known)
    : errors_(errors), value_(value), path_(std::move(path)) {
  if (value.kind != Kind::kObject) {
    errors_.add_unexpected(value, path_, "an object with the keys " + list_of(known));
    return;
  }
  // A misspelt key must not pass for an absent one.
  for (std::size_t i = 0; i < value.keys.size(); ++i) {
    if (std::find(known.begin(), known.end(), value.keys[i]) != known.end()) continue;
    errors_.add(value.key_lines[i], path_,
                "unknown key \"" + value.keys[i].substr(0, 48) + "\"; expected one of " + list_of(known));
    return;
  }
}

const JsonValue* JsonObject::find(std::string_view key) const noexcept {
  return errors_.ok() ? value_.find(key) : nullptr;
}

void JsonObject::require(std::string_view key, std::string_view expected) {
  if (!has(key)) errors_.add(value_.line, path_of(key), "missing; expected " + std::string(expected));
}

void JsonObject::fail(std::string_view key, std::string_view expected) {
  if (const JsonValue* value = find(key)) errors_.add_unexpected(*value, path_of(key), expected);
}

std::optional<std::string> JsonObject::text(std::string_view key) {
  const JsonValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  // A NUL would end the text early wherever it meets a C interface.
  if (value->kind == Kind::kText && !value->text.empty() && value->text.find('\0') == std::string::npos) {
    return value->text;
  }
  fail(key, "a text that is not empty");
  return std::nullopt;
}

std::optional<bool> JsonObject::flag(std::string_view key) {
  const JsonValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->kind == Kind::kFlag) return value->flag;
  fail(key, "true or false");
  return std::nullopt;
}

std::optional<std::uint64_t> JsonObject::count(std::string_view key, std::uint64_t lowest, std::uint64_t highest) {
  const JsonValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->kind == Kind::kCount && value->count >= lowest && value->count <= highest) return value->count;
  fail(key, "a whole number from " + std::to_string(lowest) + " to " + std::to_string(highest));
  return std::nullopt;
}

std::optional<std::uint64_t> JsonObject::bytes(std::string_view key) {
  const JsonValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->kind == Kind::kCount && value->count > 0) return value->count;
  if (value->kind == Kind::kText) {
    if (const auto parsed = parse_bytes(value->text); parsed && *parsed > 0) return *parsed;
  }
  fail(key, "a whole number of bytes from 1 to 2^64-1, or a text such as \"16GiB\"");
  return std::nullopt;
}

std::optional<double> JsonObject::rate(std::string_view key) {
  const JsonValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  // A petabyte a second is beyond any link; a larger figure is a slip.
  constexpr double kHighest = 1e15;
  double rate = 0;
  if (value->kind == Kind::kCount || value->kind == Kind::kReal) rate = value->real;
  if (value->kind == Kind::kText && value->text.ends_with("/s")) {
    const auto parsed = parse_bytes(std::string_view(value->text).substr(0, value->text.size() - 2));
    if (parsed) rate = static_cast<double>(*parsed);
  }
  if (rate >= 1 && rate <= kHighest) return rate;
  fail(key, "bytes per second from 1 to 1e15, such as 25e9 or \"25GB/s\"");
  return std::nullopt;
}

std::optional<std::chrono::nanoseconds> JsonObject::duration(std::string_view key) {
  const JsonValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  constexpr std::uint64_t kHour = 3'600'000'000'000;
  if (value->kind == Kind::kCount && value->count <= kHour) {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(value->count));
  }
  if (value->kind == Kind::kText) {
    if (const auto parsed = parse_duration(value->text)) return parsed;
  }
  fail(key, "a whole number of nanoseconds, or a text such as \"5us\"; at most an hour");
  return std::nullopt;
}

std::optional<PciAddress> JsonObject::pci(std::string_view key) {
  const JsonValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->kind == Kind::kText) {
    if (const auto parsed = parse_pci_address(value->text)) return parsed;
  }
  fail(key, "a PCI address such as \"0000:41:00.0\"");
  return std::nullopt;
}

std::optional<std::size_t> JsonObject::choice(std::string_view key, std::initializer_list<std::string_view> choices) {
  const JsonValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto found =
      value->kind == Kind::kText ? std::find(choices.begin(), choices.end(), value->text) : choices.end();
  if (found != choices.end()) return static_cast<std::size_t>(found - choices.begin());
  fail(key, "one of " + list_of(choices));
  return std::nullopt;
}

const std::vector<JsonValue>* JsonObject::array(std::string_view key) {
  const JsonValue* value = find(key);
  if (value == nullptr) return nullptr;
  if (value->kind == Kind::kArray) return &value->values;
  fail(key, "an array");
  return nullptr;
}

}  // namespace vmem
