#include "backends/host/address_map.hpp"

#include <cstdio>
#include <iterator>
#include <string>

#include "runtime/support/bytes.hpp"
#include "runtime/support/check.hpp"

namespace vmem {
namespace {

std::string describe(std::uintptr_t begin, std::size_t bytes) {
  char text[64];
  std::snprintf(text, sizeof text, "[0x%zx, +%zu)", static_cast<std::size_t>(begin), bytes);
  return text;
}

Status invalid(std::uintptr_t begin, std::size_t bytes, const char* what) {
  return Status(StatusCode::kInvalidValue, describe(begin, bytes) + " " + what);
}

bool wraps(std::uintptr_t begin, std::size_t bytes) { return !checked_add(begin, bytes).has_value(); }

// Ranges of several mappings get one stamp. Stamps only grow, so a range whose mappings changed never has its old one
// again, up to collisions of the mixing.
std::uint64_t mix(std::uint64_t hash, std::uint64_t stamp) {
  hash = (hash ^ stamp) * 0x9E3779B97F4A7C15U;
  return hash ^ (hash >> 29U);
}

}  // namespace

OwnerId AddressMap::add_owner(bool addressable_by_host) {
  MutexLock lock(mutex_);
  addressable_by_host_.push_back(addressable_by_host);
  return static_cast<OwnerId>(addressable_by_host_.size() - 1);
}

AddressMap::Regions::const_iterator AddressMap::region_of(std::uintptr_t address) const {
  auto it = regions_.upper_bound(address);
  if (it == regions_.begin()) return regions_.end();
  --it;
  return address - it->first < it->second.bytes ? it : regions_.end();
}

AddressMap::Mappings::const_iterator AddressMap::mapping_of(std::uintptr_t address) const {
  auto it = mappings_.upper_bound(address);
  if (it == mappings_.begin()) return mappings_.end();
  --it;
  return address - it->first < it->second.memory.bytes ? it : mappings_.end();
}

std::uint64_t AddressMap::stamp_of(std::uintptr_t begin, std::size_t bytes, OwnerId owner) const {
  std::uint64_t stamp = 0;
  const std::uintptr_t end = begin + bytes;
  for (std::uintptr_t at = begin; at < end;) {
    const auto it = mapping_of(at);
    if (it == mappings_.end() || it->second.owner != owner || !it->second.live) return 0;
    stamp = mix(stamp, it->second.stamp);
    at = it->first + it->second.memory.bytes;
  }
  return stamp;
}

bool AddressMap::overlaps_region(std::uintptr_t begin, std::size_t bytes) const {
  if (region_of(begin) != regions_.end()) return true;
  const auto next = regions_.upper_bound(begin);
  return next != regions_.end() && next->first - begin < bytes;
}

void AddressMap::add_region(std::uintptr_t begin, std::size_t bytes, OwnerId owner, RegionKind kind) {
  MutexLock lock(mutex_);
  // The kernel gives no address twice; an overlap is a region that was unmapped before it was removed.
  VMEM_CHECK(!overlaps_region(begin, bytes));
  regions_.emplace(begin, Region{bytes, owner, kind});
}

std::optional<std::size_t> AddressMap::region_bytes(std::uintptr_t begin, OwnerId owner, RegionKind kind) const {
  MutexLock lock(mutex_);
  const auto it = regions_.find(begin);
  if (it == regions_.end() || it->second.owner != owner || it->second.kind != kind) return std::nullopt;
  return it->second.bytes;
}

Status AddressMap::remove_region(std::uintptr_t begin, OwnerId owner, RegionKind kind) {
  MutexLock lock(mutex_);
  const auto it = regions_.find(begin);
  if (it == regions_.end() || it->second.owner != owner || it->second.kind != kind) {
    return invalid(begin, 0, "is not the start of a range that this device reserved");
  }
  const auto mapped = mappings_.lower_bound(begin);
  if (mapped != mappings_.end() && mapped->first - begin < it->second.bytes) {
    return invalid(begin, it->second.bytes, "still has memory mapped in it");
  }
  regions_.erase(it);
  return {};
}

Status AddressMap::begin_map(std::uintptr_t begin, const MappedBytes& memory, OwnerId owner) {
  MutexLock lock(mutex_);
  const auto region = region_of(begin);
  if (region == regions_.end() || region->second.owner != owner) {
    return invalid(begin, memory.bytes, "is not in a range that this device reserved");
  }
  if (region->second.bytes - (begin - region->first) < memory.bytes) {
    return invalid(begin, memory.bytes, "reaches past the end of its reserved range");
  }
  const auto next = mappings_.upper_bound(begin);
  const bool overlaps =
      mapping_of(begin) != mappings_.end() || (next != mappings_.end() && next->first - begin < memory.bytes);
  if (overlaps) return invalid(begin, memory.bytes, "overlaps what is mapped already");
  mappings_.emplace(begin, Mapping{memory, owner, ++last_stamp_, false, 0});
  return {};
}

void AddressMap::finish_map(std::uintptr_t begin, bool mapped) {
  MutexLock lock(mutex_);
  const auto it = mappings_.find(begin);
  VMEM_CHECK(it != mappings_.end() && !it->second.live);
  if (mapped) {
    it->second.live = true;
  } else {
    mappings_.erase(it);
  }
}

Result<MappedBytes> AddressMap::begin_unmap(std::uintptr_t begin, std::size_t bytes, OwnerId owner) {
  MutexLock lock(mutex_);
  const auto it = mappings_.find(begin);
  if (it == mappings_.end() || it->second.owner != owner || it->second.memory.bytes != bytes || !it->second.live) {
    return invalid(begin, bytes, "is not exactly one mapping of this device");
  }
  if (it->second.pins != 0) return invalid(begin, bytes, "is in use by work that is running");
  it->second.live = false;
  return it->second.memory;
}

void AddressMap::finish_unmap(std::uintptr_t begin) {
  MutexLock lock(mutex_);
  const auto it = mappings_.find(begin);
  VMEM_CHECK(it != mappings_.end() && !it->second.live);
  mappings_.erase(it);
}

Status AddressMap::add_registration(std::uintptr_t begin, std::size_t bytes, OwnerId owner) {
  MutexLock lock(mutex_);
  const auto next = registrations_.lower_bound({owner, begin});
  const bool at_next = next != registrations_.end() && next->first.first == owner && next->first.second - begin < bytes;
  bool at_previous = false;
  if (next != registrations_.begin()) {
    const auto previous = std::prev(next);
    at_previous = previous->first.first == owner && begin - previous->first.second < previous->second;
  }
  if (at_next || at_previous) return invalid(begin, bytes, "overlaps host memory that is registered already");
  registrations_.emplace(std::make_pair(owner, begin), bytes);
  return {};
}

Result<std::size_t> AddressMap::remove_registration(std::uintptr_t begin, OwnerId owner) {
  MutexLock lock(mutex_);
  const auto it = registrations_.find({owner, begin});
  if (it == registrations_.end()) return invalid(begin, 0, "is not the start of host memory that is registered");
  const std::size_t bytes = it->second;
  registrations_.erase(it);
  return bytes;
}

Result<TrackedRange> AddressMap::find(const void* address, std::size_t bytes, OwnerId owner) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  if (wraps(begin, bytes)) return invalid(begin, bytes, "wraps around the end of all addresses");
  MutexLock lock(mutex_);
  if (const std::uint64_t stamp = stamp_of(begin, bytes, owner); stamp != 0) return TrackedRange{begin, bytes, stamp};
  auto registered = registrations_.upper_bound({owner, begin});
  if (registered != registrations_.begin()) {
    --registered;
    const auto& [key, size] = *registered;
    if (key.first == owner && begin - key.second < size && size - (begin - key.second) >= bytes) {
      return find_host_locked(begin, bytes, owner);
    }
  }
  return invalid(begin, bytes, "is not wholly mapped on this device");
}

Result<TrackedRange> AddressMap::find_host(const void* address, std::size_t bytes, OwnerId owner) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  if (address == nullptr) return invalid(begin, bytes, "is a null host pointer");
  if (wraps(begin, bytes)) return invalid(begin, bytes, "wraps around the end of all addresses");
  MutexLock lock(mutex_);
  return find_host_locked(begin, bytes, owner);
}

Result<TrackedRange> AddressMap::find_host_locked(std::uintptr_t begin, std::size_t bytes, OwnerId owner) const {
  if (!overlaps_region(begin, bytes)) return TrackedRange{begin, bytes, 0};
  const auto region = region_of(begin);
  if (region == regions_.end()) return invalid(begin, bytes, "is partly a device's memory");
  const Region& found = region->second;
  const bool own_alias = found.kind == RegionKind::kAlias && found.owner == owner;
  if (!addressable_by_host_[found.owner] && !own_alias)
    return invalid(begin, bytes, "is a device's memory, not the host's");
  const std::uint64_t stamp = stamp_of(begin, bytes, found.owner);
  if (stamp == 0) return invalid(begin, bytes, "is not wholly mapped in its host window");
  return TrackedRange{begin, bytes, stamp};
}

std::vector<MappedBytes> AddressMap::host_bytes_behind(std::uintptr_t begin, std::size_t bytes) const {
  std::vector<MappedBytes> pieces;
  MutexLock lock(mutex_);
  for (std::uintptr_t at = begin; at < begin + bytes;) {
    const auto it = mapping_of(at);
    if (it == mappings_.end() || !it->second.live || !addressable_by_host_[it->second.owner]) return {};
    const MappedBytes& memory = it->second.memory;
    const std::size_t skipped = at - it->first;
    const std::size_t taken = std::min(memory.bytes - skipped, begin + bytes - at);
    pieces.push_back(MappedBytes{memory.fd, memory.offset + skipped, taken});
    at += taken;
  }
  return pieces;
}

Status AddressMap::pin(const TrackedRange& range) {
  if (range.stamp == 0) return {};
  MutexLock lock(mutex_);
  const auto first = mapping_of(range.begin);
  const bool same = first != mappings_.end() && stamp_of(range.begin, range.bytes, first->second.owner) == range.stamp;
  if (!same) return invalid(range.begin, range.bytes, "was unmapped while work on it was waiting to run");
  const std::uintptr_t end = range.begin + range.bytes;
  for (auto it = mappings_.find(first->first); it != mappings_.end() && it->first < end; ++it) ++it->second.pins;
  return {};
}

void AddressMap::unpin(const TrackedRange& range) {
  if (range.stamp == 0) return;
  MutexLock lock(mutex_);
  const auto first = mapping_of(range.begin);
  VMEM_CHECK(first != mappings_.end());
  const std::uintptr_t end = range.begin + range.bytes;
  for (auto it = mappings_.find(first->first); it != mappings_.end() && it->first < end; ++it) --it->second.pins;
  unpinned_.notify_all();
}

std::vector<std::pair<std::uintptr_t, std::size_t>> AddressMap::remove_owner(OwnerId owner) {
  std::vector<std::pair<std::uintptr_t, std::size_t>> removed;
  MutexLock lock(mutex_);
  for (auto& [begin, mapping] : mappings_) {
    if (mapping.owner == owner) mapping.live = false;  // nothing new can pin it
  }
  for (auto it = mappings_.begin(); it != mappings_.end();) {
    if (it->second.owner != owner) {
      ++it;
      continue;
    }
    if (it->second.pins != 0) {
      unpinned_.wait(mutex_);
      it = mappings_.begin();  // others may have changed the map meanwhile
      continue;
    }
    it = mappings_.erase(it);
  }
  for (auto it = regions_.begin(); it != regions_.end();) {
    if (it->second.owner != owner) {
      ++it;
      continue;
    }
    removed.emplace_back(it->first, it->second.bytes);
    it = regions_.erase(it);
  }
  for (auto it = registrations_.begin(); it != registrations_.end();) {
    it = it->first.first == owner ? registrations_.erase(it) : std::next(it);
  }
  return removed;
}

}  // namespace vmem
