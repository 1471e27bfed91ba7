// Free extents by address, each subtree with its largest size: the index of first fit.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/memory/extent_node.hpp"

namespace vmem {

// STRUCTURE: a treap over the allocator's nodes, by offset; priorities are a hash of the node's place. The largest size
// under each node lets the search for the lowest fitting extent skip whole subtrees, so it takes the tree's height.
class FirstFitTree {
 public:
  // Makes room for as many nodes, so that insert does not allocate.
  void cover(std::size_t num_nodes) {
    if (num_nodes > links_.size()) links_.resize(num_nodes);
  }

  void insert(const ExtentNodes& nodes, std::uint32_t id) noexcept;
  void remove(const ExtentNodes& nodes, std::uint32_t id) noexcept;
  // After a change of the node's offset or size that leaves it between the same neighbours.
  void update(const ExtentNodes& nodes, std::uint32_t id) noexcept { update_under(nodes, root_, id); }

  // The lowest extent with room for `size` at the alignment (both in granules); kNoNode where there is none.
  std::uint32_t first(const ExtentNodes& nodes, std::uint64_t size, std::uint64_t alignment) const noexcept {
    return first_under(nodes, root_, size, alignment);
  }
  std::uint64_t largest() const noexcept { return root_ == kNoNode ? 0 : links_[root_].largest; }

 private:
  struct Links {
    std::uint32_t left = kNoNode;
    std::uint32_t right = kNoNode;
    std::uint64_t largest = 0;  // size of this node's or of one below it
  };

  static std::uint32_t priority_of(std::uint32_t id) noexcept;
  void refresh(const ExtentNodes& nodes, std::uint32_t id) noexcept;
  // All under `root` that lie below `offset`, and the others.
  void split(const ExtentNodes& nodes, std::uint32_t root, std::uint64_t offset, std::uint32_t& low,
             std::uint32_t& high) noexcept;
  // REQUIRES: all under `low` lie below all under `high`.
  std::uint32_t join(const ExtentNodes& nodes, std::uint32_t low, std::uint32_t high) noexcept;
  std::uint32_t insert_under(const ExtentNodes& nodes, std::uint32_t root, std::uint32_t id) noexcept;
  std::uint32_t remove_under(const ExtentNodes& nodes, std::uint32_t root, std::uint32_t id) noexcept;
  void update_under(const ExtentNodes& nodes, std::uint32_t root, std::uint32_t id) noexcept;
  std::uint32_t first_under(const ExtentNodes& nodes, std::uint32_t root, std::uint64_t size,
                            std::uint64_t alignment) const noexcept;

  std::vector<Links> links_;  // beside the allocator's nodes
  std::uint32_t root_ = kNoNode;
};

}  // namespace vmem
