#include "backends/cuda/memory_map.hpp"

#include <iterator>
#include <string>
#include <utility>

#include "runtime/support/bytes.hpp"
#include "runtime/support/check.hpp"

namespace vmem {
namespace {

Status invalid(std::string message) { return Status(StatusCode::kInvalidValue, std::move(message)); }

}  // namespace

void MemoryMap::add_slab(std::uint64_t address, Slab slab) {
  MutexLock lock(mutex_);
  slabs_[address] = slab;
  memory_.add(address, slab.bytes);
}

std::optional<MemoryMap::Slab> MemoryMap::take_slab(std::uint64_t address) {
  MutexLock lock(mutex_);
  const auto it = slabs_.find(address);
  if (it == slabs_.end()) return std::nullopt;
  const Slab slab = it->second;
  slabs_.erase(it);
  memory_.remove(address);
  return slab;
}

void MemoryMap::add_chunk(const Chunk& chunk) {
  MutexLock lock(mutex_);
  chunks_[chunk.handle] = LiveChunk{chunk.bytes, 0};
}

Status MemoryMap::take_chunk(const Chunk& chunk) {
  MutexLock lock(mutex_);
  const auto it = chunks_.find(chunk.handle);
  if (it == chunks_.end() || it->second.bytes != chunk.bytes) return invalid("destroy_chunk: there is no such chunk");
  if (it->second.num_mappings != 0) return invalid("destroy_chunk: the chunk is mapped");
  chunks_.erase(it);
  return {};
}

void MemoryMap::add_window(std::uint64_t begin, std::size_t bytes) {
  MutexLock lock(mutex_);
  windows_[begin] = bytes;
  window_ranges_.add(begin, bytes);
}

std::map<std::uint64_t, MemoryMap::Mapping>::const_iterator MemoryMap::first_in(std::uint64_t begin,
                                                                                std::size_t bytes) const {
  auto it = mappings_.upper_bound(begin);
  if (it != mappings_.begin() && std::prev(it)->first + std::prev(it)->second.bytes > begin) --it;
  return it != mappings_.end() && it->first < begin + bytes ? it : mappings_.end();
}

Status MemoryMap::take_window(std::uint64_t begin, std::size_t bytes) {
  MutexLock lock(mutex_);
  const auto it = windows_.find(begin);
  if (it == windows_.end() || checked_align_up(bytes, granularity_) != it->second) {
    return invalid("release_window: the range is not a window of this device");
  }
  if (first_in(begin, it->second) != mappings_.end()) return invalid("release_window: chunks are mapped in it");
  windows_.erase(it);
  window_ranges_.remove(begin);
  return {};
}

Status MemoryMap::begin_map(std::uint64_t address, const Chunk& chunk) {
  if (address % granularity_ != 0) return invalid("map: the address is no multiple of the granularity");
  MutexLock lock(mutex_);
  const auto it = chunks_.find(chunk.handle);
  if (it == chunks_.end() || it->second.bytes != chunk.bytes) return invalid("map: there is no such chunk");
  // Inside one window: what crosses from one into its neighbour is no window's.
  auto window = windows_.upper_bound(address);
  if (window == windows_.begin()) return invalid("map: the address is not in a window of this device");
  --window;
  const std::uint64_t end = window->first + window->second;
  if (address >= end || end - address < chunk.bytes) {
    return invalid("map: the chunk does not fit into a window of this device there");
  }
  if (first_in(address, chunk.bytes) != mappings_.end()) return invalid("map: a chunk is mapped there already");
  mappings_[address] = Mapping{chunk.handle, chunk.bytes, true};
  ++it->second.num_mappings;
  return {};
}

void MemoryMap::finish_map(std::uint64_t address, bool mapped) {
  MutexLock lock(mutex_);
  const auto it = mappings_.find(address);
  VMEM_CHECK(it != mappings_.end() && it->second.changing);
  if (mapped) {
    it->second.changing = false;
    memory_.add(address, it->second.bytes);
    return;
  }
  --chunks_.at(it->second.chunk).num_mappings;
  mappings_.erase(it);
}

Status MemoryMap::begin_unmap(std::uint64_t address, std::size_t bytes) {
  MutexLock lock(mutex_);
  const auto it = mappings_.find(address);
  if (it == mappings_.end() || it->second.changing) return invalid("unmap: no chunk is mapped there");
  if (it->second.bytes != bytes) {
    return invalid("unmap: " + std::to_string(bytes) + " bytes are asked, the mapping has " +
                   std::to_string(it->second.bytes));
  }
  it->second.changing = true;
  memory_.remove(address);
  return {};
}

void MemoryMap::finish_unmap(std::uint64_t address, bool unmapped) {
  MutexLock lock(mutex_);
  const auto it = mappings_.find(address);
  VMEM_CHECK(it != mappings_.end() && it->second.changing);
  if (!unmapped) {
    it->second.changing = false;
    memory_.add(address, it->second.bytes);
    return;
  }
  --chunks_.at(it->second.chunk).num_mappings;
  mappings_.erase(it);
}

MemoryMap::Answer MemoryMap::find(std::uint64_t address, std::size_t bytes) const {
  MutexLock lock(mutex_);
  if (memory_.covers(address, bytes)) return Answer::kCovered;
  return memory_.touches(address, bytes) || window_ranges_.touches(address, bytes) ? Answer::kHole : Answer::kUnknown;
}

MemoryMap::Rest MemoryMap::take_rest() {
  MutexLock lock(mutex_);
  Rest rest;
  for (const auto& [address, slab] : slabs_) rest.slab_bases.push_back(slab.base);
  for (const auto& [address, mapping] : mappings_) rest.mappings.emplace_back(address, mapping.bytes);
  for (const auto& [handle, chunk] : chunks_) rest.chunks.push_back(handle);
  for (const auto& [begin, bytes] : windows_) rest.windows.emplace_back(begin, bytes);
  slabs_.clear();
  mappings_.clear();
  chunks_.clear();
  windows_.clear();
  memory_ = AddressRanges();
  window_ranges_ = AddressRanges();
  return rest;
}

}  // namespace vmem
