#include "runtime/residency/patience.hpp"

#include <algorithm>

namespace vmem {
namespace {

constexpr std::chrono::milliseconds kLookInterval{5};

}  // namespace

Patience::Deadline Patience::deadline() noexcept {
  if (deadline_) return *deadline_;
  const auto now = std::chrono::steady_clock::now();
  // Compared in milliseconds: the longest of them overflow as nanoseconds, either way.
  const auto longest = std::chrono::duration_cast<std::chrono::milliseconds>(Deadline::max() - now);
  if (wait_ <= std::chrono::milliseconds(0)) {
    deadline_ = now;
  } else {
    deadline_ = wait_ >= longest ? Deadline::max() : now + wait_;
  }
  return *deadline_;
}

Patience::Deadline Patience::next_look() noexcept {
  const Deadline end = deadline();
  return cancelled_ == nullptr ? end : std::min(end, std::chrono::steady_clock::now() + kLookInterval);
}

bool Patience::wait(CondVar& changed, Mutex& mutex) {
  if (is_cancelled()) return false;
  return changed.wait_until(mutex, next_look()) || is_left();
}

bool Patience::wait(const Event& event) {
  if (is_cancelled()) return false;
  static_cast<void>(event.wait(next_look()));  // how it ended is its holder's affair
  return event.is_done() || is_left();
}

}  // namespace vmem
