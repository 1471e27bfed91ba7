#include "runtime/memory/address_table.hpp"

#include <iterator>
#include <limits>

#include "runtime/support/bytes.hpp"
#include "runtime/support/check.hpp"

namespace vmem {
namespace {

constexpr std::size_t kRecordsAtOnce = 256;
// A red-black node's three pointers and colour, and the allocator's header.
constexpr std::size_t kMapNodeOverhead = 48;

}  // namespace

AddressTable::AddressTable(PoolAddress base, std::size_t span)
    : base_(base), span_(span), root_(new RootSlot[divide_up(span, std::size_t{1} << kRootSlotBits)]) {
  VMEM_CHECK(span > 0 && base % kPageBytes == 0 && span % kPageBytes == 0);
  VMEM_CHECK(span <= std::numeric_limits<PoolAddress>::max() - base);
  bookkeeping_ = divide_up(span, std::size_t{1} << kRootSlotBits) * sizeof(RootSlot);
}

AddressTable::~AddressTable() = default;

std::size_t AddressTable::first_offset(const AddressEntry& entry) const noexcept {
  return static_cast<std::size_t>(entry.address - base_);
}

std::size_t AddressTable::end_offset(const AddressEntry& entry) const noexcept {
  return align_up(first_offset(entry) + entry.bytes, kPageBytes);
}

template <typename Visit>
void AddressTable::for_each_slot(std::size_t begin, std::size_t end, Visit visit) {
  constexpr std::size_t kRootSlotBytes = std::size_t{1} << kRootSlotBits;
  constexpr std::size_t kNodeSlotBytes = std::size_t{1} << kNodeSlotBits;
  constexpr std::size_t kNodeMask = (std::size_t{1} << kNodeBits) - 1;
  constexpr std::size_t kLeafMask = (std::size_t{1} << kLeafBits) - 1;
  for (std::size_t offset = begin; offset < end;) {
    RootSlot& root = root_[offset >> kRootSlotBits];
    if (offset % kRootSlotBytes == 0 && end - offset >= kRootSlotBytes) {
      visit(root.record);
      offset += kRootSlotBytes;
      continue;
    }
    NodeSlot& slot = node_of(root).slots[(offset >> kNodeSlotBits) & kNodeMask];
    if (offset % kNodeSlotBytes == 0 && end - offset >= kNodeSlotBytes) {
      visit(slot.record);
      offset += kNodeSlotBytes;
      continue;
    }
    visit(leaf_of(slot).records[(offset >> kPageBits) & kLeafMask]);
    offset += kPageBytes;
  }
}

AddressTable::Node& AddressTable::node_of(RootSlot& slot) {
  if (Node* node = slot.node.load(std::memory_order_relaxed)) return *node;
  nodes_.push_back(std::make_unique<Node>());
  slot.node.store(nodes_.back().get(), std::memory_order_release);
  bookkeeping_.fetch_add(sizeof(Node), std::memory_order_relaxed);
  return *nodes_.back();
}

AddressTable::Leaf& AddressTable::leaf_of(NodeSlot& slot) {
  if (Leaf* leaf = slot.leaf.load(std::memory_order_relaxed)) return *leaf;
  leaves_.push_back(std::make_unique<Leaf>());
  slot.leaf.store(leaves_.back().get(), std::memory_order_release);
  bookkeeping_.fetch_add(sizeof(Leaf), std::memory_order_relaxed);
  return *leaves_.back();
}

AddressTable::Record* AddressTable::take_record() {
  if (vacant_ == nullptr) {
    records_.push_back(std::make_unique<Record[]>(kRecordsAtOnce));
    bookkeeping_.fetch_add(kRecordsAtOnce * sizeof(Record), std::memory_order_relaxed);
    for (std::size_t i = kRecordsAtOnce; i-- > 0;) {
      records_.back()[i].next_vacant = vacant_;
      vacant_ = &records_.back()[i];
    }
  }
  Record* const record = vacant_;
  vacant_ = record->next_vacant;
  return record;
}

bool AddressTable::insert(const AddressEntry& entry) {
  if (entry.bytes == 0 || entry.address % kPageBytes != 0 || entry.address < base_) return false;
  if (first_offset(entry) >= span_ || entry.bytes > span_ - first_offset(entry)) return false;
  const std::size_t begin = first_offset(entry);
  const std::size_t end = end_offset(entry);

  MutexLock lock(mutex_);
  const auto next = by_address_.lower_bound(entry.address);
  if (next != by_address_.end() && next->first - base_ < end) return false;
  if (next != by_address_.begin()) {
    const auto previous = read(*std::prev(next)->second);
    VMEM_CHECK(previous);
    if (end_offset(*previous) > begin) return false;
  }
  // All memory is taken before anything is visible.
  for_each_slot(begin, end, [](std::atomic<Record*>&) {});
  Record* const record = take_record();
  by_address_.emplace_hint(next, entry.address, record);

  // A reader that sees one of the values also sees the odd number before it (release, acquire).
  const std::uint32_t sequence = record->sequence.load(std::memory_order_relaxed);
  record->sequence.store(sequence + 1, std::memory_order_relaxed);
  record->address.store(entry.address, std::memory_order_release);
  record->bytes.store(entry.bytes, std::memory_order_release);
  record->value.store(entry.value, std::memory_order_release);
  record->sequence.store(sequence + 2, std::memory_order_release);
  for_each_slot(begin, end, [record](std::atomic<Record*>& slot) { slot.store(record, std::memory_order_release); });
  size_.fetch_add(1, std::memory_order_relaxed);
  bookkeeping_.fetch_add(kMapNodeOverhead + sizeof(PoolAddress) + sizeof(Record*), std::memory_order_relaxed);
  return true;
}

std::optional<AddressEntry> AddressTable::erase(PoolAddress address) {
  MutexLock lock(mutex_);
  const auto found = by_address_.find(address);
  if (found == by_address_.end()) return std::nullopt;
  Record* const record = found->second;
  const std::optional<AddressEntry> entry = read(*record);
  VMEM_CHECK(entry);
  for_each_slot(first_offset(*entry), end_offset(*entry),
                [](std::atomic<Record*>& slot) { slot.store(nullptr, std::memory_order_release); });
  by_address_.erase(found);
  record->next_vacant = vacant_;
  vacant_ = record;
  size_.fetch_sub(1, std::memory_order_relaxed);
  bookkeeping_.fetch_sub(kMapNodeOverhead + sizeof(PoolAddress) + sizeof(Record*), std::memory_order_relaxed);
  return entry;
}

const AddressTable::Record* AddressTable::record_at(std::size_t offset) const noexcept {
  constexpr std::size_t kNodeMask = (std::size_t{1} << kNodeBits) - 1;
  constexpr std::size_t kLeafMask = (std::size_t{1} << kLeafBits) - 1;
  const RootSlot& root = root_[offset >> kRootSlotBits];
  if (const Record* record = root.record.load(std::memory_order_acquire)) return record;
  const Node* const node = root.node.load(std::memory_order_acquire);
  if (node == nullptr) return nullptr;
  const NodeSlot& slot = node->slots[(offset >> kNodeSlotBits) & kNodeMask];
  if (const Record* record = slot.record.load(std::memory_order_acquire)) return record;
  const Leaf* const leaf = slot.leaf.load(std::memory_order_acquire);
  if (leaf == nullptr) return nullptr;
  return leaf->records[(offset >> kPageBits) & kLeafMask].load(std::memory_order_acquire);
}

// None while the record is in change, which it is only after its range was erased.
std::optional<AddressEntry> AddressTable::read(const Record& record) noexcept {
  const std::uint32_t before = record.sequence.load(std::memory_order_acquire);
  const AddressEntry entry{record.address.load(std::memory_order_acquire), record.bytes.load(std::memory_order_acquire),
                           record.value.load(std::memory_order_acquire)};
  const std::uint32_t after = record.sequence.load(std::memory_order_relaxed);
  if (before != after || before % 2 != 0) return std::nullopt;
  return entry;
}

std::optional<AddressEntry> AddressTable::find_containing(PoolAddress address) const noexcept {
  const PoolAddress offset = address - base_;
  if (offset >= span_) return std::nullopt;
  const Record* const record = record_at(static_cast<std::size_t>(offset));
  if (record == nullptr) return std::nullopt;
  const std::optional<AddressEntry> entry = read(*record);
  // Not inside: the rest of a range's last page, or a record that has become another range's.
  if (!entry || address - entry->address >= entry->bytes) return std::nullopt;
  return entry;
}

std::uint64_t AddressTable::value_containing(PoolAddress address) const noexcept {
  const PoolAddress offset = address - base_;
  if (offset >= span_) return 0;
  const Record* const record = record_at(static_cast<std::size_t>(offset));
  if (record == nullptr) return 0;
  const std::uint32_t before = record->sequence.load(std::memory_order_acquire);
  const PoolAddress begin = record->address.load(std::memory_order_acquire);
  const std::size_t bytes = record->bytes.load(std::memory_order_acquire);
  const std::uint64_t value = record->value.load(std::memory_order_acquire);
  const bool changed = record->sequence.load(std::memory_order_relaxed) != before || before % 2 != 0;
  return changed || address - begin >= bytes ? 0 : value;
}

std::optional<AddressEntry> AddressTable::find(PoolAddress address) const noexcept {
  const std::optional<AddressEntry> entry = find_containing(address);
  if (!entry || entry->address != address) return std::nullopt;
  return entry;
}

std::vector<AddressEntry> AddressTable::snapshot() const {
  MutexLock lock(mutex_);
  std::vector<AddressEntry> entries;
  entries.reserve(by_address_.size());
  for (const auto& [address, record] : by_address_) {
    const std::optional<AddressEntry> entry = read(*record);
    VMEM_CHECK(entry);
    entries.push_back(*entry);
  }
  return entries;
}

}  // namespace vmem
