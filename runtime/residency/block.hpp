// One block of a buffer: where its pages are, who uses them, what is on its way. The state machine of residency.
//
// A page of a block is in one of these states:
//
//   unwritten   no instance has it. Reads are undefined, or zero where `zeroed` has it.
//   present     one or more instances have it valid; exactly one of these has it dirty: the owner, whose bytes must not
//   be
//               dropped before another instance has them and owns them.
//   lost        its owner's device failed and no other instance had it. Acquires that would read it fail with
//   kDataLost.
//
//   event                               before            after
//   write committed on D (release)      any               present: valid and dirty on D alone
//   fetched to D from S                 present           present: also valid on D; S still owns it
//   fetch to D failed                   present           present as before the fetch, with a fault
//   write released on failed pages      any               as before, with a fault; D's own copy goes where another
//                                                         instance has one
//   evicted from S to T                 present           present: T has what S had; where S owned, T owns
//   dropped from S (others have all)    present           present: another instance owns what S owned
//   zeros filled on D                   unwritten,zeroed  present: valid and dirty on D alone
//   first read on D                     unwritten         present: valid and dirty on D alone (whatever is there)
//   device of the owner failed          present           owned by another valid instance; else lost
//   forgotten (free, packed buffers)    any               unwritten
//
// A write is committed when it is released, not when it is granted: until then other instances keep the bytes from
// before, so that a fetch that fails takes nothing with it. Where a fetch of the acquire's list is still under way at
// the release, the commit waits in `pending_commits` for `settle`.
//
// A fault says that a fetch failed after its acquire had been granted, or that a write was not taken over because of
// it. It lasts, and acquires that need the pages are refused with it, until they are fetched again (prefetched),
// overwritten or forgotten.
//
// A hold is a live acquire's claim on pages: readers share, a writer is alone. A use is what remains of a hold that was
// released on a stream: work that may still run, which conflicting holds and moves are ordered after.
//
// `moving`: one plan at a time changes a block's instances. An instance that is `leaving` takes no new holds.
#pragma once

#include <vmem/event.hpp>
#include <vmem/status.hpp>
#include <vmem/topology.hpp>
#include <vmem/types.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/memory/frame.hpp"
#include "runtime/residency/page_mask.hpp"
#include "runtime/support/inline_vector.hpp"
#include "runtime/support/stripes.hpp"
#include "runtime/support/thread_annotations.hpp"

namespace vmem {

class Region;
class Block;

// The frame behind one block's instance, or, on devices without virtual memory, behind those of several blocks in a
// row: an acquired range must be contiguous there. Immutable but for `num_instances`, which the plan lock guards.
struct FrameSpan {
  DeviceIndex device = 0;
  Region* region = nullptr;
  std::size_t first_block = 0;
  std::size_t num_blocks = 1;
  Frame frame;
  void* address = nullptr;        // of the first block, on the device
  std::size_t num_instances = 0;  // blocks that still have an instance here
  std::size_t list_index = 0;     // its place in the device's list of spans
  bool mapped = true;             // false only while unmapped for debugging; guarded by its block's mutex as well

  bool covers(std::size_t first, std::size_t count) const noexcept {
    return first_block <= first && first + count <= first_block + num_blocks;
  }
};

// Pages that a copy in flight will fill. They count as valid; whoever uses them waits for the event.
struct Arrival {
  PageMask pages;
  Event event;
};

struct Instance {
  FrameSpan* span = nullptr;
  DeviceIndex device = 0;
  void* address = nullptr;
  PageMask valid;
  PageMask dirty;  // a subset of valid
  std::vector<Arrival> arriving;
  std::uint32_t num_holds = 0;
  std::uint32_t num_pins = 0;
  bool leaving = false;

  bool is_held() const noexcept { return num_holds + num_pins != 0; }
  // Where copies find the block's first byte: host memory may have a better address for them than the users'.
  void* copy_address() const noexcept {
    void* const base = span->frame.copy_address();
    if (base == nullptr) return address;
    return static_cast<std::byte*>(base) + (static_cast<std::byte*>(address) - static_cast<std::byte*>(span->address));
  }
};

struct Hold {
  const void* owner;  // the grant
  PageRange pages;
  DeviceIndex device;
  bool writes;
};

struct Use {
  PageRange pages;
  DeviceIndex device;
  Stream stream;
  bool writes;
  Event event;
};

// Adds an event unless it is the one that was added last: the pieces of one list meet the same one again and again.
inline void add_event(std::vector<Event>& events, const Event& event) {
  if (events.empty() || events.back().state() != event.state()) events.push_back(event);
}

// A write that was released before all fetches of its acquire had arrived: if one fails, what was computed is worth
// nothing.
struct PendingCommit {
  PageRange pages;
  DeviceIndex device;
  std::shared_ptr<const std::vector<Event>> arrivals;  // shared by all blocks of the acquire; not empty
};

// Keeps the pages' instance on a device.
struct Pin {
  PageRange pages;
  DeviceIndex device;
  std::uint64_t id;  // of the call that pinned: one pin may lie in several blocks
};

struct PageFault {
  PageRange pages;
  DeviceIndex device;  // where the bytes did not arrive
  Status status;
};

// Thread contract: `mutex` guards every member below it. It is taken after the plan lock and before any FrameStore's;
// two blocks' mutexes are never held together. Neighbours share no cache line: threads on blocks of their own don't
// meet.
class alignas(kStripeBytes) Block {
 public:
  Block(Region& region, std::size_t index, std::size_t bytes, bool zeroed);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  Region& region() const noexcept { return region_; }
  std::size_t index() const noexcept { return index_; }
  // Bytes of addresses that it covers; the last block of a buffer may be short.
  std::size_t bytes() const noexcept { return bytes_; }
  std::uint32_t num_pages() const noexcept { return num_pages_; }
  // Bytes of [range] that lie in the block: a last page may be short.
  std::size_t bytes_of(PageRange range) const noexcept;

  // When it was last acquired, in the pool's epochs (Residency); for policies.
  std::atomic<std::uint64_t> last_use{0};

  Mutex mutex;
  CondVar changed;  // a hold ended, or a plan let go of it
  std::uint32_t num_waiters VMEM_GUARDED_BY(mutex) = 0;
  bool moving VMEM_GUARDED_BY(mutex) = false;
  bool retired VMEM_GUARDED_BY(mutex) = false;  // its buffer is being freed: no new holds
  PageMask zeroed VMEM_GUARDED_BY(mutex);
  PageMask lost VMEM_GUARDED_BY(mutex);
  std::vector<Instance> instances VMEM_GUARDED_BY(mutex);
  InlineVector<Hold, 4> holds VMEM_GUARDED_BY(mutex);
  std::vector<Pin> pins VMEM_GUARDED_BY(mutex);
  std::vector<Use> uses VMEM_GUARDED_BY(mutex);
  std::vector<PendingCommit> pending_commits VMEM_GUARDED_BY(mutex);
  std::vector<PageFault> faults VMEM_GUARDED_BY(mutex);

  // The instance on a device that takes holds; null if there is none.
  Instance* find(DeviceIndex device) VMEM_REQUIRES(mutex);
  const Instance* find(DeviceIndex device) const VMEM_REQUIRES(mutex);
  // The one whose pages count on a device: the same, or where there is none the one that leaves.
  Instance* find_any(DeviceIndex device) VMEM_REQUIRES(mutex);
  // The instance on a span, leaving or not.
  Instance* find(const FrameSpan& span) VMEM_REQUIRES(mutex);
  // True if another grant's live hold stands against this access.
  bool conflicts(PageRange pages, bool writes, const void* owner) const VMEM_REQUIRES(mutex);
  // Pages that some instance has valid.
  PageMask present() const VMEM_REQUIRES(mutex);
  // Pages of the range that `instance` lacks and another instance, or a fill with zeros, can give.
  PageMask obtainable(const Instance& instance, PageRange pages) const VMEM_REQUIRES(mutex);
  // False while a plan must leave the instance where it is: it is held, leaves already, its buffer is being freed, or
  // it owns pages that another device's writer (not `owner`, who has not begun) holds: until the release they are the
  // bytes from before.
  bool may_leave(const Instance& instance, const void* owner = nullptr) const VMEM_REQUIRES(mutex);
  // True if all pages that the instance owns are valid, and arrived, elsewhere: it may be dropped without a copy.
  bool is_redundant(const Instance& instance) const VMEM_REQUIRES(mutex);

  // Takes in what has completed since: arrivals (or their failure), commits that waited for them, uses that are over.
  // Never blocks. True if nothing that overlaps `pages` is still under way.
  bool settle(PageRange pages) VMEM_REQUIRES(mutex);
  bool has_pending_commit(PageRange pages) const VMEM_REQUIRES(mutex) {
    return !pending_commits.empty() && finds_pending_commit(pages);
  }
  // One copy that keeps the pages from being settled, for a wait outside the lock. There is one wherever settle
  // answered false, though it may be over by now.
  std::optional<Event> next_arrival(PageRange pages) const VMEM_REQUIRES(mutex);
  // Notes what remains of a hold. Ranges side by side of one release become one: a list may have many in a block.
  void add_use(const Use& use) VMEM_REQUIRES(mutex);
  // Events of uses that a hold or a move must be ordered after; those on the given stream of the device are in order.
  void collect_uses(PageRange pages, bool writes, DeviceIndex device, Stream stream, std::vector<Event>& events) const
      VMEM_REQUIRES(mutex);

  // The page states' transitions; see the table above.
  void commit_write(DeviceIndex device, PageRange pages) VMEM_REQUIRES(mutex);
  // A write that is not taken over, and why: the device keeps only those of its pages that no other instance has.
  void abort_write(DeviceIndex device, PageRange pages, const Status& why) VMEM_REQUIRES(mutex);
  void commit_first_use(Instance& instance, PageRange pages) VMEM_REQUIRES(mutex);
  void hand_over(Instance& from, Instance& to, const PageMask& pages) VMEM_REQUIRES(mutex);
  // Makes others own what `from` owns and they have valid; answers what nobody else has.
  PageMask give_up(Instance& from) VMEM_REQUIRES(mutex);
  void forget(PageRange pages, bool zero) VMEM_REQUIRES(mutex);
  // The first fault that overlaps; success where there is none.
  Status fault_of(PageRange pages) const VMEM_REQUIRES(mutex);
  void clear_faults(PageRange pages) VMEM_REQUIRES(mutex);

  std::size_t bookkeeping_bytes() const VMEM_REQUIRES(mutex);

 private:
  bool finds_pending_commit(PageRange pages) const VMEM_REQUIRES(mutex);
  bool settle_arrivals(Instance& instance, PageRange pages) VMEM_REQUIRES(mutex);
  bool settle_commits(PageRange pages) VMEM_REQUIRES(mutex);
  static void hand_ownership(Instance& from, Instance& to, const PageMask& pages);
  PageMask arrived_elsewhere(const Instance& instance) const VMEM_REQUIRES(mutex);

  Region& region_;
  const std::size_t index_;
  const std::size_t bytes_;
  const std::uint32_t num_pages_;
};

}  // namespace vmem
