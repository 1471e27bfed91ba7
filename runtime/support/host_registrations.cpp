#include "runtime/support/host_registrations.hpp"

#include <exception>
#include <iterator>
#include <utility>

#include "runtime/support/format.hpp"

namespace vmem {
namespace {

std::vector<std::string> spaces_of(const std::vector<Device*>& devices) {
  std::vector<std::string> spaces;
  for (const Device* device : devices) {
    const DeviceInfo& info = device->info();
    spaces.push_back(info.address_space.empty() ? info.name : info.address_space);
  }
  return spaces;
}

std::uintptr_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

}  // namespace

HostRegistrations::HostRegistrations(std::vector<Device*> devices, Logger& logger)
    : devices_(std::move(devices)), spaces_(spaces_of(devices_)), logger_(logger) {
  MutexLock lock(mutex_);
  pageable_.resize(devices_.size());
}

bool HostRegistrations::wants(std::uintptr_t begin, std::size_t device) const {
  const DeviceInfo& info = devices_[device]->info();
  if (info.tier == Tier::kHost || !info.caps.has(DeviceCap::kHostRegistration)) return false;
  MutexLock lock(mutex_);
  if (pageable_[device]) return false;
  const auto range = ranges_.find(begin);
  return range == ranges_.end() || !range->second.views.contains(spaces_[device]);
}

void HostRegistrations::add(void* host, std::size_t bytes, std::size_t device) {
  const std::uintptr_t begin = address_of(host);
  if (!wants(begin, device)) return;
  {
    // Its place is made first: what the driver has done must not be lost.
    MutexLock lock(mutex_);
    const auto [range, is_new] = ranges_.try_emplace(begin, Range{bytes, {}});
    try {
      range->second.views.try_emplace(spaces_[device]);
    } catch (...) {  // out of memory
      if (is_new) ranges_.erase(range);
      throw;
    }
  }
  Status status;
  View view;
  try {
    if (auto registered = devices_[device]->register_host(host, bytes)) {
      view = {devices_[device], static_cast<std::byte*>(*registered)};
    } else {
      status = registered.error();
    }
  } catch (const std::exception& error) {
    status = Status(StatusCode::kInternal, error.what());
  }
  {
    MutexLock lock(mutex_);
    const auto range = ranges_.find(begin);
    if (view.through != nullptr) {
      range->second.views.find(spaces_[device])->second = view;
      return;
    }
    range->second.views.erase(spaces_[device]);
    if (range->second.views.empty()) ranges_.erase(range);
  }
  refused(device, status);
}

void HostRegistrations::refused(std::size_t device, const Status& status) {
  {
    MutexLock lock(mutex_);
    pageable_[device] = true;
  }
  const std::string& name = devices_[device]->info().name;
  logger_.warn_once(
      "pageable copies " + name,
      format("device '{}' can't register host memory, its copies will be slower: {}", name, status.to_string()));
}

void HostRegistrations::add_for_all(void* host, std::size_t bytes) noexcept {
  try {
    for (std::size_t device = 0; device < devices_.size(); ++device) add(host, bytes, device);
  } catch (const std::exception&) {  // out of memory
  }
}

void HostRegistrations::remove(void* host) noexcept {
  Range range;
  {
    MutexLock lock(mutex_);
    const auto found = ranges_.find(address_of(host));
    if (found == ranges_.end()) return;
    range = std::move(found->second);
    ranges_.erase(found);
  }
  for (const auto& [space, view] : range.views) {
    // A device that failed meanwhile may refuse; its driver has let go of the pages then.
    try {
      if (view.through != nullptr) static_cast<void>(view.through->unregister_host(host));
    } catch (const std::exception&) {  // out of memory
    }
  }
}

void* HostRegistrations::address_on(const void* host, std::size_t bytes, std::size_t device) const {
  const std::uintptr_t begin = address_of(host);
  MutexLock lock(mutex_);
  const auto after = ranges_.upper_bound(begin);
  if (after == ranges_.begin()) return nullptr;
  const auto& [start, range] = *std::prev(after);
  const std::size_t offset = begin - start;
  if (offset > range.bytes || bytes > range.bytes - offset) return nullptr;
  const auto view = range.views.find(spaces_[device]);
  return view != range.views.end() && view->second.address != nullptr ? view->second.address + offset : nullptr;
}

bool HostRegistrations::is_pageable(std::size_t device) const {
  MutexLock lock(mutex_);
  return pageable_[device];
}

std::size_t HostRegistrations::num_ranges() const {
  MutexLock lock(mutex_);
  return ranges_.size();
}

}  // namespace vmem
