/// How severe a message is, and who takes messages.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace vmem {

/// Most severe first: a logger at a level lets through that level and those before it.
enum class LogLevel : std::uint8_t { kOff = 0, kError = 1, kWarn = 2, kInfo = 3, kDebug = 4 };

/// Takes a line of the log. Called from any thread, one line at a time; must not call vmem.
using LogCallback = std::function<void(LogLevel level, std::string_view message)>;

}  // namespace vmem
