#include "runtime/pool/buffer_table.hpp"

#include <algorithm>
#include <utility>

#include "runtime/pool/without_exceptions.hpp"
#include "runtime/support/bytes.hpp"
#include "runtime/support/check.hpp"
#include "runtime/support/format.hpp"

namespace vmem {
namespace {

constexpr std::size_t kSharedBytes = 8_MiB;

std::uint64_t to_value(BufferRecord* record) noexcept { return reinterpret_cast<std::uintptr_t>(record); }
BufferRecord* to_record(std::uint64_t value) noexcept { return reinterpret_cast<BufferRecord*>(value); }

// Of a packed buffer, in its shared block.
PageRange pages_of(const BufferRecord& record) noexcept {
  return {static_cast<std::uint32_t>(record.offset / kPageBytes),
          static_cast<std::uint32_t>(record.extent.end() / kPageBytes)};
}

}  // namespace

Result<std::unique_ptr<BufferTable>> BufferTable::create(const Options& options, Residency& residency) {
  VMEM_ASSIGN_OR_RETURN(auto space, PoolAddressSpace::create({options.address_bytes, options.fit}));
  const std::size_t shared = std::min(options.block_bytes, std::max(kSharedBytes, options.granularity));
  return std::unique_ptr<BufferTable>(new BufferTable(options, shared, std::move(space), residency));
}

BufferTable::BufferTable(const Options& options, std::size_t shared_bytes, std::unique_ptr<PoolAddressSpace> space,
                         Residency& residency)
    : options_(options),
      shared_bytes_(shared_bytes),
      space_(std::move(space)),
      residency_(residency),
      table_(space_->base(), space_->bytes()) {}

BufferTable::~BufferTable() {
  for_each_block([](Block& block) { Residency::drop_pins(block); });
  for (const AddressEntry& entry : table_.snapshot()) {
    std::unique_ptr<BufferRecord> record(to_record(entry.value));
    if (record->shared == nullptr) VMEM_CHECK(residency_.retire(*record->region).is_ok());
  }
  MutexLock lock(mutex_);
  for (const auto& shared : shared_) VMEM_CHECK(residency_.retire(shared->region).is_ok());
}

bool BufferTable::is_acquired() {
  bool acquired = false;
  for_each_block([&](Block& block) {
    MutexLock lock(block.mutex);
    acquired |= !block.holds.empty();
  });
  return acquired;
}

BufferRecord* BufferTable::find(PoolAddress address) const noexcept {
  return to_record(table_.value_containing(address));
}

Result<PoolAddress> BufferTable::allocate(std::size_t bytes, bool zeroed, std::optional<DeviceIndex> preferred) {
  if (bytes == 0) return Status(StatusCode::kInvalidValue, "0 bytes asked: a buffer has at least one");
  if (!checked_align_up(bytes, options_.block_bytes)) {
    return Status(StatusCode::kOutOfAddresses, format("{} bytes asked: more than any address range holds", bytes));
  }
  std::unique_ptr<BufferRecord> record;
  MutexLock lock(mutex_);
  if (bytes <= shared_bytes_ / 2 && !preferred) {
    VMEM_ASSIGN_OR_RETURN(record, make_packed(bytes, zeroed));
  } else {
    VMEM_ASSIGN_OR_RETURN(record, make_own(bytes, zeroed));
    record->region->prefer(preferred);
  }
  const PoolAddress address = record->address;
  try {
    VMEM_CHECK(table_.insert({address, bytes, to_value(record.get())}));
  } catch (...) {  // out of memory
    give_addresses_back(*record);
    throw;
  }
  static_cast<void>(record.release());  // the table's now
  allocated_bytes_ += bytes;
  return address;
}

void BufferTable::give_addresses_back(BufferRecord& record) {
  if (record.shared != nullptr) {
    leave_shared(record);
  } else {
    VMEM_CHECK(space_->deallocate(record.range));
  }
}

Result<std::unique_ptr<BufferRecord>> BufferTable::make_own(std::size_t bytes, bool zeroed) {
  auto record = std::make_unique<BufferRecord>();
  VMEM_ASSIGN_OR_RETURN(record->range, space_->allocate(bytes, options_.block_bytes));
  record->address = record->range.address;
  record->bytes = bytes;
  try {
    record->own = std::make_unique<Region>(record->address, align_up(bytes, kPageBytes), options_.block_bytes, zeroed,
                                           residency_.num_devices());
  } catch (...) {  // out of memory
    VMEM_CHECK(space_->deallocate(record->range));
    throw;
  }
  record->region = record->own.get();
  return record;
}

Result<std::unique_ptr<BufferRecord>> BufferTable::make_packed(std::size_t bytes, bool zeroed) {
  auto record = std::make_unique<BufferRecord>();
  VMEM_ASSIGN_OR_RETURN(record->shared, shared_with_room(bytes, record->extent));
  // From here on nothing fails.
  record->region = &record->shared->region;
  record->offset = record->extent.offset;
  record->address = record->region->address() + record->offset;
  record->bytes = bytes;
  ++record->shared->num_buffers;
  const PageRange pages = pages_of(*record);
  // Nobody can hold the pages: the buffer before was freed, and this one has not been handed out.
  VMEM_CHECK(Residency::check_unused(record->region->block(0), pages));
  residency_.forget(record->region->block(0), pages, zeroed);
  return record;
}

Result<SharedRegion*> BufferTable::shared_with_room(std::size_t bytes, Extent& extent) {
  for (const auto& shared : shared_) {
    if (auto found = shared->extents.allocate(bytes)) {
      extent = *found;
      return shared.get();
    }
  }
  VMEM_ASSIGN_OR_RETURN(auto extents, ExtentAllocator::create({shared_bytes_, kPageBytes, options_.fit}));
  shared_.reserve(shared_.size() + 1);
  VMEM_ASSIGN_OR_RETURN(const PoolRange range, space_->allocate(shared_bytes_, shared_bytes_));
  try {
    std::unique_ptr<SharedRegion> made(new SharedRegion{
        range, {range.address, shared_bytes_, shared_bytes_, false, residency_.num_devices()}, std::move(extents), 0});
    made->region.block(0);  // its only one
    extent = *made->extents.allocate(bytes);
    shared_.push_back(std::move(made));
  } catch (...) {  // out of memory
    VMEM_CHECK(space_->deallocate(range));
    throw;
  }
  return shared_.back().get();
}

Status BufferTable::free(PoolAddress address) {
  MutexLock lock(mutex_);
  while (undecided_ != 0 && !table_.find(address)) decided_.wait(mutex_);
  const auto entry = table_.erase(address);
  if (!entry) {
    const bool interior = table_.find_containing(address).has_value();
    return {StatusCode::kInvalidValue,
            format("{:#x} {}", address,
                   interior ? "lies inside a buffer: free takes the buffer's own address"
                            : "is no buffer of this pool: it was freed already or never allocated here")};
  }
  ++undecided_;
  ++num_frees_;
  // The record is this thread's alone now; allocations go on while its work is waited for.
  lock.unlock();
  sections_.wait_for_readers();
  std::unique_ptr<BufferRecord> record(to_record(entry->value));
  const Status unused = without_exceptions([&] { return begin_end(*record); });
  lock.lock();
  if (!unused) {
    residency_.reserve().finish([&] { VMEM_CHECK(table_.insert(*entry)); });
    static_cast<void>(record.release());
  }
  if (--undecided_ == 0) decided_.notify_all();
  if (!unused) return unused;
  lock.unlock();
  finish_end(*record);
  record->own.reset();  // gives its windows back before the addresses can be used again
  lock.lock();
  allocated_bytes_ -= record->bytes;
  give_addresses_back(*record);
  return {};
}

std::uint64_t BufferTable::wait_until_decided() {
  MutexLock lock(mutex_);
  while (undecided_ != 0) decided_.wait(mutex_);
  return num_frees_;
}

Status BufferTable::begin_end(BufferRecord& record) {
  if (record.num_claims.load() != 0) return {StatusCode::kBusy, "an acquire of the buffer is waiting for its holders"};
  if (record.shared == nullptr) return residency_.begin_retire(*record.region);
  return Residency::check_unused(record.region->block(0), pages_of(record));
}

void BufferTable::finish_end(BufferRecord& record) {
  if (record.shared == nullptr) {
    residency_.finish_retire(*record.region);
  } else {
    residency_.forget(record.region->block(0), pages_of(record), false);
  }
}

void BufferTable::leave_shared(BufferRecord& record) {
  SharedRegion& shared = *record.shared;
  VMEM_CHECK(shared.extents.deallocate(record.extent));
  if (--shared.num_buffers != 0) return;
  const auto empty = std::count_if(shared_.begin(), shared_.end(), [](const auto& s) { return s->num_buffers == 0; });
  // A claim that has just looked a freed buffer up may still be there: then it stays, empty.
  if (empty < 2 || !without_exceptions([&] { return residency_.retire(shared.region); })) return;
  const PoolRange range = shared.range;
  std::erase_if(shared_, [&](const auto& s) { return s.get() == &shared; });
  VMEM_CHECK(space_->deallocate(range).is_ok());
}

void BufferTable::for_each_block(const std::function<void(Block&)>& visit) {
  MutexLock lock(mutex_);
  for (const AddressEntry& entry : table_.snapshot()) {
    const BufferRecord* record = to_record(entry.value);
    if (record->own) record->own->for_each_block(visit);
  }
  for (const auto& shared : shared_) shared->region.for_each_block(visit);
}

BufferTable::Figures BufferTable::figures() {
  Figures figures;
  for_each_block([&](Block& block) {
    MutexLock block_lock(block.mutex);
    ++figures.blocks_touched;
    figures.bookkeeping_bytes += block.bookkeeping_bytes();
  });
  MutexLock lock(mutex_);
  figures.buffers = table_.size();
  figures.allocated_bytes = allocated_bytes_;
  figures.bookkeeping_bytes += table_.bookkeeping_bytes();
  for (const AddressEntry& entry : table_.snapshot()) {
    const BufferRecord* record = to_record(entry.value);
    figures.bookkeeping_bytes += sizeof(BufferRecord) + (record->own ? record->own->bookkeeping_bytes() : 0);
  }
  for (const auto& shared : shared_)
    figures.bookkeeping_bytes += sizeof(SharedRegion) + shared->region.bookkeeping_bytes();
  figures.address_fragmentation = space_->fragmentation().external();
  return figures;
}

}  // namespace vmem
