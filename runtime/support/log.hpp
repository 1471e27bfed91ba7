// Messages for people. A Runtime owns one Logger and lends it to its stages; there is no process-wide one.
#pragma once

#include <vmem/log_level.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace vmem {

// "off", "error", "warn", "info" or "debug".
std::string_view to_string(LogLevel level) noexcept;
std::optional<LogLevel> parse_log_level(std::string_view text) noexcept;

// Writes to standard error until a callback takes the messages. Building a message costs; where that matters, ask
// `enabled` first.
//
// Thread contract: every member may be called from any thread. A callback must not log through the same logger.
class Logger {
 public:
  explicit Logger(LogLevel level = LogLevel::kWarn);
  ~Logger();
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  LogLevel level() const noexcept;
  void set_level(LogLevel level) noexcept;
  bool enabled(LogLevel level) const noexcept;

  // An empty callback gives the messages back to standard error. When this returns, the old callback is no longer
  // running.
  void set_callback(LogCallback callback);

  // An exception of the callback is dropped: logging never fails its caller.
  void log(LogLevel level, std::string_view message) noexcept;
  void error(std::string_view message) noexcept { log(LogLevel::kError, message); }
  void warn(std::string_view message) noexcept { log(LogLevel::kWarn, message); }
  void info(std::string_view message) noexcept { log(LogLevel::kInfo, message); }
  void debug(std::string_view message) noexcept { log(LogLevel::kDebug, message); }

  // Warns the first time that `key` is seen, and counts. Later calls with it say nothing.
  void warn_once(std::string_view key, std::string_view message) noexcept;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace vmem
