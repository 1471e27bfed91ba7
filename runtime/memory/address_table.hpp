// From a pool address, also an interior one, to what is there: read on every acquire, written on allocate and free.
#pragma once

#include <vmem/types.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/support/thread_annotations.hpp"

namespace vmem {

// A range of addresses and the caller's word for it: a pointer, or an index with a generation.
struct AddressEntry {
  PoolAddress address = 0;
  std::size_t bytes = 0;
  std::uint64_t value = 0;

  friend bool operator==(const AddressEntry& a, const AddressEntry& b) noexcept = default;
};

// STRUCTURE: a radix tree over page numbers of a fixed range: a root of slots of 4 GiB, nodes of 2048 slots of 2 MiB,
// leaves of 512 slots of a page. A slot that a range covers wholly names its record and needs nothing below, so a
// buffer of 1 TiB takes 256 slots, not 2^28. Nodes are made where ranges end inside a slot and stay until the table is
// destroyed: at most 4 KiB for each 2 MiB of addresses that has been used by smaller ranges.
//
// CONCURRENCY: readers take no lock and write nothing: they load at most three slots and copy a record. Records are
// reused but never freed before the table; each has a sequence number, odd while a writer is in it.
// Writers are one at a time (`mutex_`, a leaf). A record is complete before the first slot
// names it and is reused only after the last slot has dropped it. So a reader that meets a record in change, or one of
// another range, knows that its own range was erased meanwhile and answers that nothing is there: it never waits. What
// `value` refers to is not kept alive by a look-up: the caller uses a generation, or rules out that the range is erased
// meanwhile.
class AddressTable {
 public:
  // For addresses in [base, base + span). REQUIRES: both are multiples of the page, span > 0, the end does not
  // overflow.
  AddressTable(PoolAddress base, std::size_t span);
  ~AddressTable();
  AddressTable(const AddressTable&) = delete;
  AddressTable& operator=(const AddressTable&) = delete;

  // False, and nothing changes, if the range is empty, leaves the table's span, does not begin on a page, or shares a
  // page with a range that is there.
  bool insert(const AddressEntry& entry);
  // Takes out the range that begins at `address`: exactly one of several callers gets it.
  std::optional<AddressEntry> erase(PoolAddress address);

  // The range that begins at `address`.
  std::optional<AddressEntry> find(PoolAddress address) const noexcept;
  // The range that holds `address`.
  std::optional<AddressEntry> find_containing(PoolAddress address) const noexcept;
  // Its value alone; 0 where there is none.
  std::uint64_t value_containing(PoolAddress address) const noexcept;

  std::size_t size() const noexcept { return size_.load(std::memory_order_relaxed); }
  // Bytes of this table's own memory.
  std::size_t bookkeeping_bytes() const noexcept { return bookkeeping_.load(std::memory_order_relaxed); }
  // Every range in the order of addresses. Writers wait meanwhile.
  std::vector<AddressEntry> snapshot() const;

 private:
  static constexpr unsigned kPageBits = 12;
  static constexpr unsigned kLeafBits = 9;
  static constexpr unsigned kNodeBits = 11;
  static constexpr unsigned kNodeSlotBits = kPageBits + kLeafBits;      // a node's slot: 2 MiB
  static constexpr unsigned kRootSlotBits = kNodeSlotBits + kNodeBits;  // a root's slot: 4 GiB

  struct Record {
    std::atomic<std::uint32_t> sequence{0};
    std::atomic<PoolAddress> address{0};
    std::atomic<std::size_t> bytes{0};
    std::atomic<std::uint64_t> value{0};
    Record* next_vacant = nullptr;
  };
  struct Leaf {
    std::array<std::atomic<Record*>, std::size_t{1} << kLeafBits> records{};
  };
  struct NodeSlot {
    std::atomic<Record*> record{nullptr};  // covers the whole slot
    std::atomic<Leaf*> leaf{nullptr};
  };
  struct Node {
    std::array<NodeSlot, std::size_t{1} << kNodeBits> slots{};
  };
  struct RootSlot {
    std::atomic<Record*> record{nullptr};
    std::atomic<Node*> node{nullptr};
  };

  const Record* record_at(std::size_t offset) const noexcept;
  static std::optional<AddressEntry> read(const Record& record) noexcept;
  Record* take_record() VMEM_REQUIRES(mutex_);
  Node& node_of(RootSlot& slot) VMEM_REQUIRES(mutex_);
  Leaf& leaf_of(NodeSlot& slot) VMEM_REQUIRES(mutex_);
  // Calls visit(slot) for the fewest slots that cover the pages of [begin, end), making the nodes that hold them.
  template <typename Visit>
  void for_each_slot(std::size_t begin, std::size_t end, Visit visit) VMEM_REQUIRES(mutex_);
  // The table's offsets of the pages that a range of it touches.
  std::size_t first_offset(const AddressEntry& entry) const noexcept;
  std::size_t end_offset(const AddressEntry& entry) const noexcept;

  const PoolAddress base_;
  const std::size_t span_;
  const std::unique_ptr<RootSlot[]> root_;
  std::atomic<std::size_t> size_{0};
  std::atomic<std::size_t> bookkeeping_{0};

  mutable Mutex mutex_;
  std::map<PoolAddress, Record*> by_address_ VMEM_GUARDED_BY(mutex_);  // for overlaps, erase and the snapshot
  std::vector<std::unique_ptr<Node>> nodes_ VMEM_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Leaf>> leaves_ VMEM_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Record[]>> records_ VMEM_GUARDED_BY(mutex_);
  Record* vacant_ VMEM_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace vmem
