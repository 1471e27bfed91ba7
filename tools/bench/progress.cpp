#include "tools/bench/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <utility>

namespace vmem {
namespace {

constexpr std::chrono::milliseconds kTerminalInterval{100};
constexpr std::chrono::seconds kLineInterval{5};

}  // namespace

Progress::Progress(std::ostream& stream, bool terminal)
    : stream_(stream), terminal_(terminal), shown_at_(std::chrono::steady_clock::now()) {}

void Progress::start(std::string what) {
  what_ = std::move(what);
  if (terminal_) show(what_);
}

void Progress::update(std::size_t done, std::size_t total) {
  const auto now = std::chrono::steady_clock::now();
  if (now - shown_at_ < (terminal_ ? std::chrono::milliseconds(kTerminalInterval) : kLineInterval)) return;
  show(fmt::format("{}: {} %", what_, total == 0 ? 100 : done * 100 / total));
}

void Progress::clear() {
  if (!terminal_ || shown_columns_ == 0) return;
  stream_ << '\r' << std::string(shown_columns_, ' ') << '\r' << std::flush;
  shown_columns_ = 0;
}

void Progress::show(const std::string& text) {
  shown_at_ = std::chrono::steady_clock::now();
  if (!terminal_) {
    stream_ << "vmem bench: " << text << '\n' << std::flush;
    return;
  }
  // Shorter text must cover what a longer one has left.
  const std::size_t padding = shown_columns_ > text.size() ? shown_columns_ - text.size() : 0;
  stream_ << '\r' << text << std::string(padding, ' ') << std::flush;
  shown_columns_ = text.size();
}

}  // namespace vmem
