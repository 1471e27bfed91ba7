#include "runtime/memory/extent_allocator.hpp"

#include <algorithm>
#include <bit>
#include <string>

#include "runtime/memory/aligned_room.hpp"
#include "runtime/support/bytes.hpp"

namespace vmem {

Result<ExtentAllocator> ExtentAllocator::create(const Options& options) {
  if (!is_power_of_two(options.granule)) {
    return Status(StatusCode::kInvalidValue,
                  "granule " + std::to_string(options.granule) + " asked, a power of two expected");
  }
  if (options.capacity % options.granule != 0) {
    return Status(StatusCode::kInvalidValue, "capacity " + std::to_string(options.capacity) +
                                                 " asked, a multiple of the granule " +
                                                 std::to_string(options.granule) + " expected");
  }
  ExtentAllocator allocator(static_cast<unsigned>(std::countr_zero(options.granule)), options.strategy);
  if (options.capacity != 0) allocator.grow(options.capacity);
  return allocator;
}

Extent ExtentAllocator::extent_of(std::uint32_t id) const noexcept {
  const ExtentNode& node = nodes_[id];
  return Extent{static_cast<std::size_t>(node.offset) << shift_, static_cast<std::size_t>(node.size) << shift_, id};
}

std::optional<ExtentAllocator::Request> ExtentAllocator::request_of(std::size_t bytes,
                                                                    std::size_t alignment) const noexcept {
  if (bytes == 0 || !is_power_of_two(alignment)) return std::nullopt;
  // Compared before it is rounded, so that rounding can't wrap: the capacity is a multiple of the granule.
  if (bytes > capacity()) return std::nullopt;
  return Request{((bytes - 1) >> shift_) + 1, std::max<std::uint64_t>(alignment >> shift_, 1)};
}

std::uint32_t ExtentAllocator::choose(const Request& request) const {
  switch (strategy_) {
    case FitStrategy::kFirstFit:
      return tree_.first(nodes_, request.size, request.alignment);
    case FitStrategy::kBestFit:
      return bins_.best(nodes_, request.size, request.alignment);
    case FitStrategy::kWorstFit:
      return bins_.worst(nodes_, request.size, request.alignment);
  }
  return kNoNode;
}

std::optional<Extent> ExtentAllocator::allocate(std::size_t bytes, std::size_t alignment) {
  const std::optional<Request> request = request_of(bytes, alignment);
  if (!request) return std::nullopt;
  const std::uint32_t id = choose(*request);
  if (id == kNoNode) return std::nullopt;
  reserve_nodes();
  if (nodes_.size() >= kMaxNodes && vacant_ == kNoNode) return std::nullopt;

  const ExtentNode whole = nodes_[id];
  const std::uint64_t start = aligned_start(whole.offset, request->alignment);
  const std::uint64_t before = start - whole.offset;
  const std::uint64_t after = whole.size - before - request->size;
  std::uint32_t taken = id;
  if (before == 0 && after == 0) {
    remove_free(id);
  } else if (before == 0) {
    resize_free(id, start + request->size, after);
    taken = take_node(start, request->size);
    link_before(taken, id);
  } else {
    resize_free(id, whole.offset, before);
    taken = take_node(start, request->size);
    link_before(taken, whole.next);
    if (after != 0) {
      const std::uint32_t rest = take_node(start + request->size, after);
      link_before(rest, whole.next);
      add_free(rest);
    }
  }
  nodes_[taken].bin_previous = kUsedNode;
  used_ += request->size;
  ++num_used_;
  high_water_ = std::max(high_water_, start + request->size);
  return extent_of(taken);
}

std::optional<std::size_t> ExtentAllocator::fit(std::size_t bytes, std::size_t alignment) const {
  const std::optional<Request> request = request_of(bytes, alignment);
  if (!request) return std::nullopt;
  const std::uint32_t id = choose(*request);
  if (id == kNoNode) return std::nullopt;
  return static_cast<std::size_t>(nodes_[id].size) << shift_;
}

bool ExtentAllocator::deallocate(const Extent& extent) {
  if (extent.id >= nodes_.size() || !nodes_[extent.id].is_used() || extent_of(extent.id) != extent) return false;
  const ExtentNode freed = nodes_[extent.id];
  used_ -= freed.size;
  --num_used_;
  const bool joins_previous = freed.previous != kNoNode && nodes_[freed.previous].is_free();
  const bool joins_next = freed.next != kNoNode && nodes_[freed.next].is_free();
  if (!joins_previous && !joins_next) {
    add_free(extent.id);
    return true;
  }
  unlink(extent.id);
  give_node(extent.id);
  if (!joins_previous) {
    resize_free(freed.next, freed.offset, freed.size + nodes_[freed.next].size);
    return true;
  }
  std::uint64_t size = nodes_[freed.previous].size + freed.size;
  if (joins_next) {
    size += nodes_[freed.next].size;
    remove_free(freed.next);
    unlink(freed.next);
    give_node(freed.next);
  }
  resize_free(freed.previous, nodes_[freed.previous].offset, size);
  return true;
}

std::optional<Extent> ExtentAllocator::find(std::size_t offset) const {
  for (std::uint32_t id = first_; id != kNoNode; id = nodes_[id].next) {
    const Extent extent = extent_of(id);
    if (offset - extent.offset < extent.bytes) return nodes_[id].is_used() ? std::optional(extent) : std::nullopt;
  }
  return std::nullopt;
}

bool ExtentAllocator::grow(std::size_t bytes) {
  if (bytes % granule() != 0 || !checked_add(capacity(), bytes)) return false;
  if (bytes == 0) return true;
  reserve_nodes();
  if (nodes_.size() >= kMaxNodes && vacant_ == kNoNode) return false;
  const std::uint64_t size = bytes >> shift_;
  if (strategy_ != FitStrategy::kFirstFit) bins_.cover(capacity_ + size);
  std::uint32_t id = last_;
  if (id != kNoNode && nodes_[id].is_free()) {
    resize_free(id, nodes_[id].offset, nodes_[id].size + size);
  } else {
    id = take_node(capacity_, size);
    link_before(id, kNoNode);
    add_free(id);
  }
  capacity_ += size;
  return true;
}

std::size_t ExtentAllocator::trim() {
  const std::uint32_t id = last_;
  if (id == kNoNode || !nodes_[id].is_free()) return 0;
  const std::uint64_t size = nodes_[id].size;
  remove_free(id);
  unlink(id);
  give_node(id);
  capacity_ -= size;
  return static_cast<std::size_t>(size) << shift_;
}

std::size_t ExtentAllocator::largest_free() const {
  if (strategy_ == FitStrategy::kFirstFit) return static_cast<std::size_t>(tree_.largest()) << shift_;
  const std::uint32_t id = bins_.worst(nodes_, 1, 1);
  return id == kNoNode ? 0 : static_cast<std::size_t>(nodes_[id].size) << shift_;
}

// Room for the two nodes that one operation takes at most, so that nothing fails half-way.
void ExtentAllocator::reserve_nodes() {
  const std::size_t needed = nodes_.size() + 2;
  if (nodes_.capacity() < needed) nodes_.reserve(std::max<std::size_t>(2 * nodes_.size(), 64));
  if (strategy_ == FitStrategy::kFirstFit) tree_.cover(nodes_.capacity());
}

std::uint32_t ExtentAllocator::take_node(std::uint64_t offset, std::uint64_t size) {
  std::uint32_t id = vacant_;
  if (id != kNoNode) {
    vacant_ = nodes_[id].bin_next;
  } else {
    id = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
  }
  nodes_[id].offset = offset;
  nodes_[id].size = size;
  return id;
}

void ExtentAllocator::give_node(std::uint32_t id) noexcept {
  nodes_[id].bin_previous = kVacantNode;
  nodes_[id].bin_next = vacant_;
  vacant_ = id;
}

void ExtentAllocator::add_free(std::uint32_t id) {
  ++num_free_;
  if (strategy_ == FitStrategy::kFirstFit) {
    nodes_[id].bin_previous = kNoNode;
    tree_.insert(nodes_, id);
  } else {
    bins_.insert(nodes_, id);
  }
}

void ExtentAllocator::remove_free(std::uint32_t id) noexcept {
  --num_free_;
  if (strategy_ == FitStrategy::kFirstFit) {
    tree_.remove(nodes_, id);
  } else {
    bins_.remove(nodes_, id);
  }
}

// The place among its neighbours stays.
void ExtentAllocator::resize_free(std::uint32_t id, std::uint64_t offset, std::uint64_t size) noexcept {
  if (strategy_ == FitStrategy::kFirstFit) {
    nodes_[id].offset = offset;
    nodes_[id].size = size;
    tree_.update(nodes_, id);
  } else {
    bins_.remove(nodes_, id);
    nodes_[id].offset = offset;
    nodes_[id].size = size;
    bins_.insert(nodes_, id);
  }
}

// Before the node `next` in the order of addresses; at the end for kNoNode.
void ExtentAllocator::link_before(std::uint32_t id, std::uint32_t next) noexcept {
  const std::uint32_t previous = next == kNoNode ? last_ : nodes_[next].previous;
  nodes_[id].previous = previous;
  nodes_[id].next = next;
  (previous == kNoNode ? first_ : nodes_[previous].next) = id;
  (next == kNoNode ? last_ : nodes_[next].previous) = id;
}

void ExtentAllocator::unlink(std::uint32_t id) noexcept {
  const ExtentNode& node = nodes_[id];
  (node.previous == kNoNode ? first_ : nodes_[node.previous].next) = node.next;
  (node.next == kNoNode ? last_ : nodes_[node.next].previous) = node.previous;
}

}  // namespace vmem
