#include "backends/host/host_pins.hpp"

#include <sys/mman.h>
#include <vmem/types.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "backends/host/machine.hpp"
#include "runtime/support/bytes.hpp"

namespace vmem {
namespace {

std::pair<std::uintptr_t, std::uintptr_t> pages_of(std::uintptr_t begin, std::size_t bytes) {
  return {align_down(begin, kPageBytes), align_up(begin + bytes, kPageBytes)};
}

}  // namespace

Status HostPins::pin(std::uintptr_t begin, std::size_t bytes, Kind kind) {
  const Pages pages = pages_of(begin, bytes);
  void* const start = reinterpret_cast<void*>(pages.first);
  const std::size_t length = pages.second - pages.first;
  MutexLock lock(mutex_);
  if (kind.locked && system_.mlock(start, length) != 0) {
    const int error = errno;
    if (error != ENOMEM && error != EPERM && error != EAGAIN) {
      return Status(StatusCode::kInvalidValue, "host memory can't be pinned: " + std::string(std::strerror(error)));
    }
    return Status(StatusCode::kOutOfHostMemory, format_bytes(bytes) + " of host memory can't be pinned (" +
                                                    std::strerror(error) + "); see ulimit -l, RLIMIT_MEMLOCK");
  }
  if (kind.kept_from_children) system_.madvise(start, length, MADV_DONTFORK);
  pins_.push_back(Pin{pages, kind});
  return {};
}

void HostPins::unpin(std::uintptr_t begin, std::size_t bytes, Kind kind) {
  const Pages pages = pages_of(begin, bytes);
  MutexLock lock(mutex_);
  const auto it =
      std::find_if(pins_.begin(), pins_.end(), [&](const Pin& pin) { return pin.pages == pages && pin.kind == kind; });
  if (it == pins_.end()) return;
  pins_.erase(it);
  if (kind.locked) {
    for (const Pages& part : uncovered(pages, &Kind::locked)) {
      system_.munlock(reinterpret_cast<const void*>(part.first), part.second - part.first);
    }
  }
  if (kind.kept_from_children) {
    for (const Pages& part : uncovered(pages, &Kind::kept_from_children)) {
      system_.madvise(reinterpret_cast<void*>(part.first), part.second - part.first, MADV_DOFORK);
    }
  }
}

std::vector<HostPins::Pages> HostPins::uncovered(const Pages& pages, bool Kind::*property) const {
  std::vector<Pages> parts{pages};
  for (const Pin& pin : pins_) {
    if (!(pin.kind.*property)) continue;
    std::vector<Pages> rest;
    for (const Pages& part : parts) {
      const std::uintptr_t before_end = std::min(part.second, pin.pages.first);
      const std::uintptr_t after_begin = std::max(part.first, pin.pages.second);
      if (part.first < before_end) rest.emplace_back(part.first, before_end);
      if (after_begin < part.second) rest.emplace_back(after_begin, part.second);
    }
    parts.swap(rest);
  }
  return parts;
}

}  // namespace vmem
