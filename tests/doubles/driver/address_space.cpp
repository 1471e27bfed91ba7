#include "tests/doubles/driver/address_space.hpp"

#include <sys/mman.h>

#include <algorithm>

#include "runtime/support/check.hpp"

namespace vmem::sim {
namespace {

// Between two reservations, so that work that runs over an end faults.
constexpr std::size_t kGuardBytes = std::size_t{64} << 10U;

int flags_of(Protection protection) {
  switch (protection) {
    case Protection::kNone:
      return PROT_NONE;
    case Protection::kRead:
      return PROT_READ;
    case Protection::kReadWrite:
      break;
  }
  return PROT_READ | PROT_WRITE;
}

constexpr std::size_t kArenaAlignment = std::size_t{1} << 30U;

}  // namespace

AddressSpace::AddressSpace(int num_devices, std::size_t arena_bytes) : arena_bytes_(arena_bytes) {
  for (int view = 0; view <= num_devices; ++view) {
    const std::size_t bytes = arena_bytes_ + kArenaAlignment;
    void* const arena = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    VMEM_CHECK(arena != MAP_FAILED);
    // Aligned alike, so that alignment in one view is alignment in all.
    const auto begin = reinterpret_cast<std::uintptr_t>(arena);
    const std::uintptr_t aligned = round_up(begin, kArenaAlignment);
    if (aligned != begin) ::munmap(arena, aligned - begin);
    if (aligned - begin != kArenaAlignment) {
      ::munmap(reinterpret_cast<void*>(aligned + arena_bytes_), kArenaAlignment - (aligned - begin));
    }
    bases_.push_back(reinterpret_cast<char*>(aligned));
  }
  next_ = base();
}

AddressSpace::~AddressSpace() {
  for (char* const arena : bases_) ::munmap(arena, arena_bytes_);
}

Address AddressSpace::reserve(std::size_t bytes, std::size_t alignment, Address hint) {
  if (bytes == 0 || bytes > arena_bytes_) return 0;
  const Address end = base() + arena_bytes_;
  // The first place from `from` on that is free, or 0.
  const auto search = [&](Address from) -> Address {
    Address begin = round_up(from, alignment);
    auto next = reservations_.lower_bound(begin);
    if (next != reservations_.begin()) {
      const auto& before = *std::prev(next);
      begin = std::max(begin, round_up(before.first + before.second + kGuardBytes, alignment));
    }
    for (;; ++next) {
      if (begin > end || end - begin < bytes) return 0;
      if (next == reservations_.end() || next->first >= begin + bytes + kGuardBytes) return begin;
      begin = std::max(begin, round_up(next->first + next->second + kGuardBytes, alignment));
    }
  };
  Address begin = 0;
  if (hint != 0 && contains(hint) && search(hint) == hint) begin = hint;
  if (begin == 0) begin = search(next_);
  if (begin == 0) begin = search(base());
  if (begin == 0) return 0;
  reservations_[begin] = bytes;
  next_ = begin + bytes;
  return begin;
}

std::size_t AddressSpace::reserved_bytes(Address begin) const {
  const auto found = reservations_.find(begin);
  return found == reservations_.end() ? 0 : found->second;
}

std::pair<Address, std::size_t> AddressSpace::reservation_of(Address address) const {
  auto found = reservations_.upper_bound(address);
  if (found == reservations_.begin()) return {};
  --found;
  if (address - found->first >= found->second) return {};
  return *found;
}

Error AddressSpace::release(Address begin, std::size_t bytes) {
  const auto found = reservations_.find(begin);
  if (found == reservations_.end() || found->second != bytes) return Error::kInvalidValue;
  const auto inside = mappings_.lower_bound(begin);
  if (inside != mappings_.end() && inside->first < begin + bytes) return Error::kInvalidValue;
  reservations_.erase(found);
  return Error::kNone;
}

Error AddressSpace::map(Address begin, std::shared_ptr<Backing> backing) {
  const std::size_t bytes = backing->bytes;
  auto region = reservations_.upper_bound(begin);
  if (region == reservations_.begin()) return Error::kInvalidValue;
  --region;
  if (begin - region->first > region->second || region->second - (begin - region->first) < bytes) {
    return Error::kInvalidValue;
  }
  auto next = mappings_.lower_bound(begin);
  if (next != mappings_.end() && next->first < begin + bytes) return Error::kAlreadyMapped;
  if (next != mappings_.begin()) {
    const auto& before = *std::prev(next);
    if (before.first + before.second.bytes > begin) return Error::kAlreadyMapped;
  }
  Mapping mapping;
  mapping.bytes = bytes;
  mapping.backing = std::move(backing);
  mapping.access.assign(bases_.size(), Protection::kNone);
  mapping.stamp = ++last_stamp_;
  mappings_.emplace(begin, std::move(mapping));
  return Error::kNone;
}

Error AddressSpace::map_host(Address begin, char* host, std::size_t bytes) {
  if (reserved_bytes(begin) < bytes) return Error::kInvalidValue;
  Mapping mapping;
  mapping.bytes = bytes;
  mapping.host = host;
  mapping.access.assign(bases_.size(), Protection::kReadWrite);
  mapping.access[kCpuView] = Protection::kNone;
  mapping.stamp = ++last_stamp_;
  mappings_.emplace(begin, std::move(mapping));
  return Error::kNone;
}

void AddressSpace::hide(Address begin, std::size_t bytes, View view) {
  void* const at = alias(view, begin);
  VMEM_CHECK(::mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == at);
}

Error AddressSpace::unmap(Address begin, std::size_t bytes) {
  const auto first = mappings_.find(begin);
  auto last = first;
  Address at = begin;
  for (; at < begin + bytes; ++last) {
    if (last == mappings_.end() || last->first != at) return Error::kInvalidValue;
    at += last->second.bytes;
  }
  if (bytes == 0 || at != begin + bytes) return Error::kInvalidValue;
  for (auto each = first; each != last; ++each) {
    for (View view = 0; view < bases_.size(); ++view) {
      const bool seen = each->second.backing != nullptr && each->second.access[view] != Protection::kNone;
      if (seen) hide(each->first, each->second.bytes, view);
    }
  }
  mappings_.erase(first, last);
  return Error::kNone;
}

Error AddressSpace::set_access(Address begin, std::size_t bytes, View view, Protection protection, bool decoy) {
  Address at = begin;
  while (at < begin + bytes) {
    const auto found = mappings_.find(at);
    if (found == mappings_.end() || found->second.backing == nullptr) return Error::kInvalidValue;
    at += found->second.bytes;
  }
  if (bytes == 0 || at != begin + bytes) return Error::kInvalidValue;
  for (at = begin; at < begin + bytes;) {
    Mapping& mapping = mappings_.at(at);
    if (mapping.access[view] != protection) {
      void* const place = alias(view, at);
      if (protection == Protection::kNone) {
        hide(at, mapping.bytes, view);
      } else {
        const int flags = decoy ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
        VMEM_CHECK(::mmap(place, mapping.bytes, flags_of(protection), flags | MAP_FIXED,
                          decoy ? -1 : mapping.backing->fd,
                          decoy ? 0 : static_cast<off_t>(mapping.backing->offset)) == place);
      }
      mapping.access[view] = protection;
    }
    at += mapping.bytes;
  }
  return Error::kNone;
}

AddressSpace::Found AddressSpace::find(Address address) const {
  auto found = mappings_.upper_bound(address);
  if (found == mappings_.begin()) return {};
  --found;
  if (address - found->first >= found->second.bytes) return {};
  return {found->first, &found->second};
}

std::vector<Address> AddressSpace::mappings_of(int location) const {
  std::vector<Address> begins;
  for (const auto& [begin, mapping] : mappings_) {
    if (mapping.backing != nullptr && mapping.backing->location == location) begins.push_back(begin);
  }
  return begins;
}

bool AddressSpace::accessible(View view, Address begin, std::size_t bytes, bool write) const {
  if (begin + bytes < begin) return false;
  for (Address at = begin; at < begin + bytes;) {
    const Found found = find(at);
    if (!found) return false;
    const Protection protection = found.mapping->access[view];
    if (protection == Protection::kNone || (write && protection == Protection::kRead)) return false;
    at = found.begin + found.mapping->bytes;
  }
  return true;
}

char* AddressSpace::pointer(View view, Address address) const {
  const Found found = find(address);
  if (found && found.mapping->host != nullptr) return found.mapping->host + (address - found.begin);
  return alias(view, address);
}

}  // namespace vmem::sim
