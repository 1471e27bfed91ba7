#include "runtime/support/environment.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "runtime/support/bytes.hpp"

namespace vmem {
namespace {

Status wrong_value(const char* name, std::string_view value, std::string_view expected) {
  return Status(
      StatusCode::kConfigError,
      fmt::format("environment variable {}='{}': expected {}; correct it or unset it", name, value, expected));
}

}  // namespace

std::optional<std::string> read_environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

Result<std::optional<std::size_t>> read_environment_bytes(const char* name) {
  const auto text = read_environment(name);
  if (!text) return std::optional<std::size_t>();
  const auto bytes = parse_bytes(*text);
  if (!bytes) return wrong_value(name, *text, "a byte count below 2^64 with a unit, such as 64MiB or 16GiB");
  return std::optional(*bytes);
}

Result<std::optional<std::uint64_t>> read_environment_count(const char* name, std::uint64_t lowest,
                                                            std::uint64_t highest) {
  const auto text = read_environment(name);
  if (!text) return std::optional<std::uint64_t>();
  std::uint64_t count = 0;
  const char* const end = text->data() + text->size();
  const auto [rest, error] = std::from_chars(text->data(), end, count);
  if (error != std::errc() || rest != end || count < lowest || count > highest) {
    return wrong_value(name, *text, fmt::format("a whole number from {} to {}", lowest, highest));
  }
  return std::optional(count);
}

Result<std::optional<bool>> read_environment_flag(const char* name) {
  const auto choice = read_environment_choice(name, {"0", "1", "off", "on", "false", "true"});
  if (!choice) return choice.error();
  if (!*choice) return std::optional<bool>();
  return std::optional(**choice % 2 == 1);
}

Result<std::optional<std::size_t>> read_environment_choice(const char* name,
                                                           std::initializer_list<std::string_view> choices) {
  const auto text = read_environment(name);
  if (!text) return std::optional<std::size_t>();
  std::size_t index = 0;
  for (std::string_view choice : choices) {
    if (*text == choice) return std::optional(index);
    ++index;
  }
  return wrong_value(name, *text, fmt::format("one of {}", fmt::join(choices, ", ")));
}

Result<std::optional<LogLevel>> read_environment_log_level() {
  const auto choice = read_environment_choice("VMEM_LOG", {"off", "error", "warn", "info", "debug"});
  if (!choice) return choice.error();
  if (!*choice) return std::optional<LogLevel>();
  return std::optional(static_cast<LogLevel>(**choice));
}

}  // namespace vmem
