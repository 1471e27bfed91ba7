#include "runtime/memory/first_fit_tree.hpp"

#include <algorithm>

#include "runtime/memory/aligned_room.hpp"

namespace vmem {

std::uint32_t FirstFitTree::priority_of(std::uint32_t id) noexcept {
  // Mixes well enough that neighbours in the vector have unrelated priorities; it is a bijection, so there are no ties.
  std::uint32_t x = id;
  x = (x ^ (x >> 16U)) * 0x7FEB352DU;
  x = (x ^ (x >> 15U)) * 0x846CA68BU;
  return x ^ (x >> 16U);
}

void FirstFitTree::refresh(const ExtentNodes& nodes, std::uint32_t id) noexcept {
  Links& links = links_[id];
  std::uint64_t largest = nodes[id].size;
  if (links.left != kNoNode) largest = std::max(largest, links_[links.left].largest);
  if (links.right != kNoNode) largest = std::max(largest, links_[links.right].largest);
  links.largest = largest;
}

void FirstFitTree::split(const ExtentNodes& nodes, std::uint32_t root, std::uint64_t offset, std::uint32_t& low,
                         std::uint32_t& high) noexcept {
  if (root == kNoNode) {
    low = high = kNoNode;
  } else if (nodes[root].offset < offset) {
    low = root;
    split(nodes, links_[root].right, offset, links_[root].right, high);
    refresh(nodes, root);
  } else {
    high = root;
    split(nodes, links_[root].left, offset, low, links_[root].left);
    refresh(nodes, root);
  }
}

std::uint32_t FirstFitTree::join(const ExtentNodes& nodes, std::uint32_t low, std::uint32_t high) noexcept {
  if (low == kNoNode) return high;
  if (high == kNoNode) return low;
  if (priority_of(low) > priority_of(high)) {
    links_[low].right = join(nodes, links_[low].right, high);
    refresh(nodes, low);
    return low;
  }
  links_[high].left = join(nodes, low, links_[high].left);
  refresh(nodes, high);
  return high;
}

std::uint32_t FirstFitTree::insert_under(const ExtentNodes& nodes, std::uint32_t root, std::uint32_t id) noexcept {
  if (root == kNoNode || priority_of(id) > priority_of(root)) {
    split(nodes, root, nodes[id].offset, links_[id].left, links_[id].right);
    refresh(nodes, id);
    return id;
  }
  std::uint32_t& child = nodes[id].offset < nodes[root].offset ? links_[root].left : links_[root].right;
  child = insert_under(nodes, child, id);
  refresh(nodes, root);
  return root;
}

std::uint32_t FirstFitTree::remove_under(const ExtentNodes& nodes, std::uint32_t root, std::uint32_t id) noexcept {
  if (root == id) return join(nodes, links_[id].left, links_[id].right);
  std::uint32_t& child = nodes[id].offset < nodes[root].offset ? links_[root].left : links_[root].right;
  child = remove_under(nodes, child, id);
  refresh(nodes, root);
  return root;
}

void FirstFitTree::update_under(const ExtentNodes& nodes, std::uint32_t root, std::uint32_t id) noexcept {
  if (root != id) {
    update_under(nodes, nodes[id].offset < nodes[root].offset ? links_[root].left : links_[root].right, id);
  }
  refresh(nodes, root);
}

void FirstFitTree::insert(const ExtentNodes& nodes, std::uint32_t id) noexcept {
  links_[id] = Links{};
  root_ = insert_under(nodes, root_, id);
}

void FirstFitTree::remove(const ExtentNodes& nodes, std::uint32_t id) noexcept {
  root_ = remove_under(nodes, root_, id);
}

std::uint32_t FirstFitTree::first_under(const ExtentNodes& nodes, std::uint32_t root, std::uint64_t size,
                                        std::uint64_t alignment) const noexcept {
  // Without an alignment the first turn that is taken is right, and nothing is searched in vain.
  if (root == kNoNode || links_[root].largest < size) return kNoNode;
  const std::uint32_t below = first_under(nodes, links_[root].left, size, alignment);
  if (below != kNoNode) return below;
  if (has_room(nodes[root], size, alignment)) return root;
  return first_under(nodes, links_[root].right, size, alignment);
}

}  // namespace vmem
