// A run of pool addresses that is cut into blocks: one large buffer, or a shared block in which small buffers are
// packed.
#pragma once

#include <vmem/topology.hpp>
#include <vmem/types.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/memory/window.hpp"
#include "runtime/residency/block.hpp"
#include "runtime/support/thread_annotations.hpp"

namespace vmem {

// STRUCTURE: blocks are made when they are first touched, in leaves of 64, so that bookkeeping grows with use, not with
// addresses. A device's window is reserved when the first block gets there.
//
// CONCURRENCY: leaves and blocks are published once by compare-and-swap and stay until the region ends; look-ups take
// no lock. Windows belong to whoever holds the plan lock (Residency).
class Region {
 public:
  // REQUIRES: block_bytes is a power of two and a multiple of the page; bytes > 0.
  Region(PoolAddress address, std::size_t bytes, std::size_t block_bytes, bool zeroed, std::size_t num_devices);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  PoolAddress address() const noexcept { return address_; }
  std::size_t bytes() const noexcept { return bytes_; }
  std::size_t block_bytes() const noexcept { return block_bytes_; }
  std::size_t num_blocks() const noexcept { return num_blocks_; }

  // The block at an index, made where it does not exist yet. Throws std::bad_alloc.
  Block& block(std::size_t index);
  // The block, if it was ever touched.
  Block* find_block(std::size_t index) const noexcept;
  std::size_t block_index(std::size_t offset) const noexcept { return offset >> block_shift_; }

  template <typename Visit>
  void for_each_block(Visit visit) const {
    for (std::size_t leaf = 0; leaf < num_leaves_; ++leaf) {
      const Leaf* blocks = leaves_[leaf].load(std::memory_order_acquire);
      if (blocks == nullptr) continue;
      for (const auto& slot : *blocks) {
        if (Block* block = slot.load(std::memory_order_acquire)) visit(*block);
      }
    }
  }

  // One for each device; empty until it is needed. Guarded by the plan lock.
  std::vector<Window>& windows() noexcept { return windows_; }

  // Where its blocks go first and are evicted to, if anywhere.
  std::optional<DeviceIndex> preferred() const noexcept;
  void prefer(std::optional<DeviceIndex> device) noexcept;

  // Claims on it whose holds are not all registered yet: it must not be retired meanwhile.
  std::atomic<std::uint32_t> num_claims{0};

  // Memory of the tables, the blocks' own apart.
  std::size_t bookkeeping_bytes() const noexcept;

 private:
  static constexpr std::size_t kLeafBlocks = 64;
  using Leaf = std::array<std::atomic<Block*>, kLeafBlocks>;

  std::size_t bytes_of_block(std::size_t index) const noexcept;

  const PoolAddress address_;
  const std::size_t bytes_;
  const std::size_t block_bytes_;
  const unsigned block_shift_;
  const bool zeroed_;
  const std::size_t num_blocks_;
  const std::size_t num_leaves_;
  const std::unique_ptr<std::atomic<Leaf*>[]> leaves_;
  std::vector<Window> windows_;
  std::atomic<std::ptrdiff_t> preferred_{-1};
};

}  // namespace vmem
