// Typed reads of environment variables. An unset or empty variable is absent; a value of the wrong form is a
// kConfigError that names the variable, its value and the expected form.
#pragma once

#include <vmem/status.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/support/log.hpp"

namespace vmem {

// REQUIRES, for all of these: no other thread changes the environment at the same time.
std::optional<std::string> read_environment(const char* name);
Result<std::optional<std::size_t>> read_environment_bytes(const char* name);
Result<std::optional<std::uint64_t>> read_environment_count(const char* name, std::uint64_t lowest,
                                                            std::uint64_t highest);
// "0", "1", "on", "off", "true" or "false".
Result<std::optional<bool>> read_environment_flag(const char* name);
// One of `choices`, as an index into them.
Result<std::optional<std::size_t>> read_environment_choice(const char* name,
                                                           std::initializer_list<std::string_view> choices);
// VMEM_LOG: off, error, warn, info or debug.
Result<std::optional<LogLevel>> read_environment_log_level();

}  // namespace vmem
