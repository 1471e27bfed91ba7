#include "runtime/residency/region.hpp"

#include <algorithm>
#include <bit>

#include "runtime/support/bytes.hpp"

namespace vmem {

Region::Region(PoolAddress address, std::size_t bytes, std::size_t block_bytes, bool zeroed, std::size_t num_devices)
    : address_(address),
      bytes_(bytes),
      block_bytes_(block_bytes),
      block_shift_(static_cast<unsigned>(std::countr_zero(block_bytes))),
      zeroed_(zeroed),
      num_blocks_(divide_up(bytes, block_bytes)),
      num_leaves_(divide_up(num_blocks_, kLeafBlocks)),
      leaves_(std::make_unique<std::atomic<Leaf*>[]>(num_leaves_)),
      windows_(num_devices) {}

Region::~Region() {
  for_each_block([](Block& block) { delete &block; });
  for (std::size_t leaf = 0; leaf < num_leaves_; ++leaf) delete leaves_[leaf].load(std::memory_order_acquire);
}

std::size_t Region::bytes_of_block(std::size_t index) const noexcept {
  return std::min(block_bytes_, bytes_ - index * block_bytes_);
}

Block& Region::block(std::size_t index) {
  std::atomic<Leaf*>& leaf_slot = leaves_[index / kLeafBlocks];
  Leaf* leaf = leaf_slot.load(std::memory_order_acquire);
  if (leaf == nullptr) {
    auto made = std::make_unique<Leaf>();
    // A thread that lost the race drops its own and takes the other's.
    if (leaf_slot.compare_exchange_strong(leaf, made.get(), std::memory_order_acq_rel)) leaf = made.release();
  }
  std::atomic<Block*>& slot = (*leaf)[index % kLeafBlocks];
  Block* block = slot.load(std::memory_order_acquire);
  if (block == nullptr) {
    auto made = std::make_unique<Block>(*this, index, bytes_of_block(index), zeroed_);
    if (slot.compare_exchange_strong(block, made.get(), std::memory_order_acq_rel)) block = made.release();
  }
  return *block;
}

Block* Region::find_block(std::size_t index) const noexcept {
  const Leaf* leaf = leaves_[index / kLeafBlocks].load(std::memory_order_acquire);
  return leaf == nullptr ? nullptr : (*leaf)[index % kLeafBlocks].load(std::memory_order_acquire);
}

std::optional<DeviceIndex> Region::preferred() const noexcept {
  const std::ptrdiff_t device = preferred_.load(std::memory_order_relaxed);
  return device < 0 ? std::nullopt : std::optional<DeviceIndex>(static_cast<DeviceIndex>(device));
}

void Region::prefer(std::optional<DeviceIndex> device) noexcept {
  preferred_.store(device ? static_cast<std::ptrdiff_t>(*device) : -1, std::memory_order_relaxed);
}

std::size_t Region::bookkeeping_bytes() const noexcept {
  std::size_t bytes = sizeof(Region) + num_leaves_ * sizeof(leaves_[0]) + windows_.capacity() * sizeof(Window);
  for (std::size_t leaf = 0; leaf < num_leaves_; ++leaf) {
    if (leaves_[leaf].load(std::memory_order_acquire) != nullptr) bytes += sizeof(Leaf);
  }
  return bytes;
}

}  // namespace vmem
