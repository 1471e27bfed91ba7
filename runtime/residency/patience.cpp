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
  return std::min(deadline(), std::chrono::steady_clock::now() + kLookInterval);
}

bool Patience::wait(CondVar& changed, Mutex& mutex) {
  if (is_cancelled()) return false;
  // Nobody who cancels knows what the call waits for.
  return changed.wait_until(mutex, cancelled_ == nullptr ? deadline() : next_look()) || is_left();
}

bool Patience::wait_briefly(CondVar& changed, Mutex& mutex) {
  if (is_cancelled()) return false;
  return changed.wait_until(mutex, next_look()) || is_left();
}

bool Patience::wait(const Event& event) {
  if (is_cancelled()) return false;
  // How it ended is its holder's affair.
  static_cast<void>(event.wait(cancelled_ == nullptr ? deadline() : next_look()));
  return event.is_done() || is_left();
}

}  // namespace vmem
