#include "runtime/support/log.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <atomic>
#include <set>
#include <utility>

#include "runtime/support/thread_annotations.hpp"

namespace vmem {
namespace {

constexpr std::array<std::string_view, 5> kLevelNames = {"off", "error", "warn", "info", "debug"};

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

}  // namespace

std::string_view to_string(LogLevel level) noexcept {
  const auto index = static_cast<std::size_t>(level);
  return index < kLevelNames.size() ? kLevelNames[index] : "unknown";
}

std::optional<LogLevel> parse_log_level(std::string_view text) noexcept {
  for (std::size_t i = 0; i < kLevelNames.size(); ++i) {
    if (kLevelNames[i] == text) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

class Logger::State {
 public:
  // A logger of our own, outside spdlog's registry: the application may use spdlog too.
  explicit State(LogLevel level)
      : level_(level), console_("vmem", std::make_shared<spdlog::sinks::stderr_color_sink_mt>()) {
    console_.set_pattern("%H:%M:%S.%e %n %^%l%$: %v");
    console_.set_level(spdlog::level::trace);
  }

  LogLevel level() const noexcept { return level_.load(std::memory_order_relaxed); }
  void set_level(LogLevel level) noexcept { level_.store(level, std::memory_order_relaxed); }

  void set_callback(LogCallback callback) VMEM_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    callback_ = std::move(callback);
  }

  void write(LogLevel level, std::string_view message) VMEM_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (callback_) {
      callback_(level, message);
    } else {
      console_.log(to_spdlog(level), "{}", message);
    }
  }

  bool first_time(std::string_view key) VMEM_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return warned_.emplace(key).second;
  }

 private:
  std::atomic<LogLevel> level_;
  Mutex mutex_;
  LogCallback callback_ VMEM_GUARDED_BY(mutex_);
  spdlog::logger console_ VMEM_GUARDED_BY(mutex_);
  std::set<std::string, std::less<>> warned_ VMEM_GUARDED_BY(mutex_);
};

Logger::Logger(LogLevel level) : state_(std::make_unique<State>(level)) {}
Logger::~Logger() = default;

LogLevel Logger::level() const noexcept { return state_->level(); }
void Logger::set_level(LogLevel level) noexcept { state_->set_level(level); }
bool Logger::enabled(LogLevel level) const noexcept { return level != LogLevel::kOff && level <= state_->level(); }
void Logger::set_callback(LogCallback callback) { state_->set_callback(std::move(callback)); }

void Logger::log(LogLevel level, std::string_view message) noexcept {
  if (!enabled(level)) return;
  try {
    state_->write(level, message);
  } catch (...) {  // NOLINT(bugprone-empty-catch): there is nobody left to tell
  }
}

void Logger::warn_once(std::string_view key, std::string_view message) noexcept {
  try {
    if (!state_->first_time(key)) return;
  } catch (...) {  // NOLINT(bugprone-empty-catch): out of memory for the key; say it again rather than never
  }
  warn(message);
}

}  // namespace vmem
