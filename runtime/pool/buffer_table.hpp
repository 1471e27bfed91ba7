// The buffers of a pool: addresses, regions, and how small buffers are packed.
#pragma once

#include <vmem/status.hpp>
#include <vmem/types.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/memory/address_space.hpp"
#include "runtime/memory/address_table.hpp"
#include "runtime/memory/extent_allocator.hpp"
#include "runtime/residency/residency.hpp"
#include "runtime/support/read_sections.hpp"
#include "runtime/support/thread_annotations.hpp"

namespace vmem {

// One block that small buffers share, page-aligned.
struct SharedRegion {
  PoolRange range;
  Region region;
  ExtentAllocator extents;
  std::size_t num_buffers = 0;
};

struct BufferRecord {
  PoolAddress address = 0;
  std::size_t bytes = 0;  // as asked for
  Region* region = nullptr;
  std::size_t offset = 0;          // in the region
  PoolRange range;                 // of a region of its own
  SharedRegion* shared = nullptr;  // where it is packed, else null
  Extent extent;                   // in there
  std::unique_ptr<Region> own;     // where it is not packed
  // Claims on it that wait for their holds outside a read section: it must not be freed meanwhile.
  std::atomic<std::uint32_t> num_claims{0};
};

// STRUCTURE: every buffer has a record, found by any of its addresses in the address table. A buffer above half a
// shared block has a region of its own, aligned to the block; smaller ones are packed into shared blocks of up to 8
// MiB, in whole pages. One empty shared block is kept.
//
// CONCURRENCY: look-ups take no lock and happen in a read section (`sections`), in which the record stays alive. A
// buffer is freed in this order: its entry is taken out of the table, readers end, and it is decided whether somebody
// has it: then the entry is put back, else its region is retired, or its pages are forgotten. Until the decision
// look-ups miss a buffer that may come back: who finds none waits for it and looks again (Pool::Impl::look_up).
class BufferTable {
 public:
  struct Options {
    std::size_t address_bytes = PoolAddressSpace::kDefaultBytes;
    std::size_t block_bytes = kDefaultBlockBytes;
    std::size_t granularity = kPageBytes;  // the devices' largest
    FitStrategy fit = FitStrategy::kBestFit;
  };

  static Result<std::unique_ptr<BufferTable>> create(const Options& options, Residency& residency);
  // Retires everything, pins included. REQUIRES: no claim is live.
  ~BufferTable();
  BufferTable(const BufferTable&) = delete;
  BufferTable& operator=(const BufferTable&) = delete;

  Result<PoolAddress> allocate(std::size_t bytes, bool zeroed, std::optional<DeviceIndex> preferred);
  Status free(PoolAddress address);

  // True if a claim is live.
  bool is_acquired();

  bool contains(PoolAddress address) const noexcept { return space_->contains(address); }

  ReadSections& sections() noexcept { return sections_; }
  // Waits until no buffer is hidden by a free that may yet be refused; answers how many frees have begun. Outside of
  // read sections.
  std::uint64_t wait_until_decided();
  // The record of the buffer that holds the address; null if there is none. In a read section.
  BufferRecord* find(PoolAddress address) const noexcept;

  struct Figures {
    std::size_t buffers = 0;
    std::size_t allocated_bytes = 0;
    std::size_t blocks_touched = 0;
    std::size_t bookkeeping_bytes = 0;
    double address_fragmentation = 0;
  };
  Figures figures();
  // Calls visit(Block&) for every block with bookkeeping, while no buffer is freed.
  void for_each_block(const std::function<void(Block&)>& visit);

 private:
  BufferTable(const Options& options, std::size_t shared_bytes, std::unique_ptr<PoolAddressSpace> space,
              Residency& residency);

  Result<std::unique_ptr<BufferRecord>> make_packed(std::size_t bytes, bool zeroed) VMEM_REQUIRES(mutex_);
  Result<std::unique_ptr<BufferRecord>> make_own(std::size_t bytes, bool zeroed);
  Result<SharedRegion*> shared_with_room(std::size_t bytes, Extent& extent) VMEM_REQUIRES(mutex_);
  void give_addresses_back(BufferRecord& record) VMEM_REQUIRES(mutex_);
  Status begin_end(BufferRecord& record);
  void finish_end(BufferRecord& record);
  void leave_shared(BufferRecord& record) VMEM_REQUIRES(mutex_);

  const Options options_;
  const std::size_t shared_bytes_;
  const std::unique_ptr<PoolAddressSpace> space_;
  Residency& residency_;
  AddressTable table_;
  ReadSections sections_;

  Mutex mutex_;  // taken before the plan lock; allocations and frees
  std::vector<std::unique_ptr<SharedRegion>> shared_ VMEM_GUARDED_BY(mutex_);
  std::size_t allocated_bytes_ VMEM_GUARDED_BY(mutex_) = 0;
  std::size_t undecided_ VMEM_GUARDED_BY(mutex_) = 0;  // frees that may yet be refused
  std::uint64_t num_frees_ VMEM_GUARDED_BY(mutex_) = 0;
  CondVar decided_;
};

}  // namespace vmem
