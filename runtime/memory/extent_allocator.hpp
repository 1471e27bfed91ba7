// Cuts extents out of an abstract range [0, capacity): pool addresses, slabs, files. It holds no memory itself.
//
// Thread contract: none of its own; the caller locks. Const members may run side by side.
#pragma once

#include <vmem/status.hpp>
#include <vmem/types.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "runtime/memory/extent_node.hpp"
#include "runtime/memory/first_fit_tree.hpp"
#include "runtime/memory/size_bins.hpp"

namespace vmem {

// [offset, offset + bytes) of the range. `id` finds the allocator's record of it at once.
struct Extent {
  std::size_t offset = 0;
  std::size_t bytes = 0;
  std::uint32_t id = 0;

  std::size_t end() const noexcept { return offset + bytes; }
  friend bool operator==(const Extent& a, const Extent& b) noexcept = default;
};

// STRUCTURE: every extent, used or free, is a node in a list by address; two neighbours are never both free. The free
// ones are also in an index of the strategy: best and worst fit in bins by size (size_bins.hpp), first fit in a tree by
// address (first_fit_tree.hpp). Allocation cuts the low end of a free extent; at equal sizes best fit takes the one
// that became free last.
//
// COST: best and worst fit do not depend on the number of extents as long as few free ones share a bin; first fit is
// logarithmic. An alignment above the granule looks at every free extent that is long enough but may not hold the
// aligned range, in order of the strategy.
class ExtentAllocator {
 public:
  struct Options {
    std::size_t capacity = 0;          // bytes, a multiple of the granule; 0 for a range that grows later
    std::size_t granule = kPageBytes;  // a power of two; sizes are rounded up to it, offsets are multiples of it
    FitStrategy strategy = FitStrategy::kBestFit;
  };

  // kInvalidValue names the option.
  static Result<ExtentAllocator> create(const Options& options);

  // None when no free extent holds it, or where `bytes` is 0, overflows when rounded, or `alignment` (of the offset) is
  // no power of two. Extent::bytes is the rounded size. A refusal changes nothing.
  std::optional<Extent> allocate(std::size_t bytes) { return allocate(bytes, granule()); }
  std::optional<Extent> allocate(std::size_t bytes, std::size_t alignment);

  // Bytes of the free extent that `allocate` would cut now; to compare several allocators.
  std::optional<std::size_t> fit(std::size_t bytes, std::size_t alignment) const;

  // False, and nothing changes, for what is not allocated now exactly as given: freed already, never allocated, another
  // allocator's, a part of one. (An extent freed and allocated again with the same place and size is a new one, which
  // an old copy of its Extent can't be told from.)
  bool deallocate(const Extent& extent);

  // The allocated extent that holds the byte. Walks the extents: for checks; AddressTable answers in constant time.
  std::optional<Extent> find(std::size_t offset) const;

  // Appends `bytes` free bytes, a multiple of the granule. False, and nothing changes, where the capacity overflows.
  bool grow(std::size_t bytes);
  // Cuts the free bytes at the end of the range off; answers how many.
  std::size_t trim();

  std::size_t capacity() const noexcept { return static_cast<std::size_t>(capacity_) << shift_; }
  std::size_t granule() const noexcept { return std::size_t{1} << shift_; }
  FitStrategy strategy() const noexcept { return strategy_; }
  std::size_t used_bytes() const noexcept { return static_cast<std::size_t>(used_) << shift_; }
  std::size_t free_bytes() const noexcept { return static_cast<std::size_t>(capacity_ - used_) << shift_; }
  std::size_t largest_free() const;
  // The highest end of any extent so far: the bytes that a range grown on demand would have reserved.
  std::size_t high_water() const noexcept { return static_cast<std::size_t>(high_water_) << shift_; }
  std::size_t num_used() const noexcept { return num_used_; }
  std::size_t num_free() const noexcept { return num_free_; }

  // Calls visit(const Extent&, bool used) for every extent in the order of addresses. `visit` must not change this.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (std::uint32_t id = first_; id != kNoNode; id = nodes_[id].next) visit(extent_of(id), nodes_[id].is_used());
  }

 private:
  struct Request {
    std::uint64_t size;       // granules
    std::uint64_t alignment;  // granules, a power of two
  };

  ExtentAllocator(unsigned shift, FitStrategy strategy) : shift_(shift), strategy_(strategy) {}

  Extent extent_of(std::uint32_t id) const noexcept;
  std::optional<Request> request_of(std::size_t bytes, std::size_t alignment) const noexcept;
  std::uint32_t choose(const Request& request) const;
  std::uint32_t take_node(std::uint64_t offset, std::uint64_t size);
  void reserve_nodes();
  void give_node(std::uint32_t id) noexcept;
  void add_free(std::uint32_t id);
  void remove_free(std::uint32_t id) noexcept;
  void resize_free(std::uint32_t id, std::uint64_t offset, std::uint64_t size) noexcept;
  void link_before(std::uint32_t id, std::uint32_t next) noexcept;
  void unlink(std::uint32_t id) noexcept;

  ExtentNodes nodes_;
  SizeBins bins_;
  FirstFitTree tree_;
  std::uint64_t capacity_ = 0;
  std::uint64_t used_ = 0;
  std::uint64_t high_water_ = 0;
  std::size_t num_used_ = 0;
  std::size_t num_free_ = 0;
  std::uint32_t first_ = kNoNode;
  std::uint32_t last_ = kNoNode;
  std::uint32_t vacant_ = kNoNode;
  unsigned shift_;
  FitStrategy strategy_;
};

}  // namespace vmem
