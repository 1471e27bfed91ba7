// The block table: who holds what, where every page is, and what must move. It decides and keeps the books; it moves no
// byte itself (runtime/pool runs its plans).
//
// LOCK ORDER: the plan lock, then one block's mutex, then a FrameStore's (a leaf). An acquire of resident pages takes
// only the blocks' mutexes, one after the other; everything that changes where pages are goes through the plan lock.
#pragma once

#include <vmem/status.hpp>
#include <vmem/topology.hpp>
#include <vmem/types.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/residency/access_observer.hpp"
#include "runtime/residency/block.hpp"
#include "runtime/residency/claim.hpp"
#include "runtime/residency/device_memory.hpp"
#include "runtime/residency/eviction_policy.hpp"
#include "runtime/residency/patience.hpp"
#include "runtime/residency/plan.hpp"
#include "runtime/residency/region.hpp"
#include "runtime/support/memory_reserve.hpp"
#include "runtime/support/thread_annotations.hpp"

namespace vmem {

// Thread contract: every member may be called from any thread; a Claim and its Plan are one thread's at a time.
class Residency {
 public:
  struct Options {
    std::size_t block_bytes = kDefaultBlockBytes;
    PlacementStrategy placement = PlacementStrategy::kLocalityFirst;
    FitStrategy fit = FitStrategy::kBestFit;
    std::vector<std::uint64_t> limits;           // for each device, bytes; 0: takes no frames
    HostRegistrations* registrations = nullptr;  // of host memory, for quick copies; null: none. Outlives the residency
  };
  struct Counters {
    std::uint64_t evictions = 0;
    std::uint64_t waits = 0;
  };

  // Devices are in the topology's order. All arguments outlive the residency; `observer` may be null.
  static Result<std::unique_ptr<Residency>> create(const Topology& topology, const std::vector<Device*>& devices,
                                                   const Options& options, EvictionPolicy& policy,
                                                   AccessObserver* observer);
  // REQUIRES: all regions have been retired.
  ~Residency();
  Residency(const Residency&) = delete;
  Residency& operator=(const Residency&) = delete;

  // -- Holds ---------------------------------------------------------------------------------------------------------

  // Registers the claim's holds, block by block in the order of addresses, waiting for conflicting holders (kBusy,
  // kCancelled); on an error none is left. Sets claim.resident, claim.waits and claim.arrivals where all is there.
  // kInvalidValue where the buffer is being freed; the fault of pages whose fetch failed before.
  // REQUIRES: the regions are kept from being retired (`num_claims`).
  Status hold(Claim& claim, Patience& patience);
  // The same without waiting: false, and no hold is left, where it would have to wait.
  Result<bool> try_hold(Claim& claim);
  // Takes a granted claim's holds away. What it wrote is committed if all it needs has arrived, or when it arrives;
  // `use` remains for later holders to come after. Success, or why what was written is not taken over.
  Status release(Claim& claim, const std::optional<Event>& use);
  // Why something that a granted claim needs did not arrive, as far as it is known by now. Never blocks.
  static Status arrival_failure(const Claim& claim);
  // The claim's pages were fetched again: what had failed before is forgotten.
  void clear_faults(const Claim& claim) noexcept;
  // Unmaps the blocks of a released claim that nobody holds any more, when the work on them is over (debug mode).
  void hide(const Claim& claim) noexcept;
  // Takes the holds of a claim away that was not granted. Nothing is committed.
  void drop(Claim& claim) noexcept;

  // -- Plans ---------------------------------------------------------------------------------------------------------

  // Makes a plan for a held claim that is not resident, waiting for plans and holders in its way; meanwhile what the
  // claim has there already may leave. Where `makes_room` is set, another plan has to be made after it. `excluded` are
  // devices that nothing is evicted to.
  // Errors: kOutOfDeviceMemory (the claim can't fit at all: at once), kOutOfHostMemory (nowhere to evict to), kBusy,
  // kCancelled, kDataLost, kDeviceFailed.
  Result<Plan> plan(Claim& claim, const std::vector<bool>& excluded, bool evict_all, Patience& patience);
  // For a device without windows whose memory was free but in pieces also after all that may leave had left. Success
  // where it is worth another try; `reason` where nobody's release would help; kBusy, kCancelled.
  Status wait_for_gaps_to_close(Claim& claim, Patience& patience, const Status& reason);
  // One block's departure: gives up what others own already, makes room at its destination, answers the copy that is
  // left (no pages: none). Waits for arrivals on it.
  Result<Move> begin_departure(const Eviction& eviction, Departure& departure);
  void commit_departure(const Move& move);
  // Every block of the span has departed: its memory goes to the plan's reservation.
  void end_eviction(Plan& plan, Eviction& eviction);
  // The span stays: it could not leave. Gives the unused reservations of its departures back.
  void abort_eviction(Eviction& eviction);
  // Makes the frames of one entry out of the plan's reservation, and the blocks' instances.
  // Blocks that have an instance elsewhere on the device (without virtual memory) answer a copy each, which
  // commit_departure takes in; end_relocation then takes the old instance away, or the new one where the copy failed.
  Result<std::vector<Move>> make_frames(Plan& plan, const Arriving& arriving);
  void end_relocation(const Move& move, bool copied);
  // The copies that one piece still needs, those of pages `under_way` (may be null) apart. Its instance must exist.
  // kDataLost where pages are lost.
  Result<std::vector<Move>> begin_fetch(Claim& claim, Piece& piece, const PageMask* under_way);
  // The bytes have arrived.
  void commit_fetch(const Move& move);
  // The bytes will have arrived with the event. False where nobody will wait for it, because the device has failed: the
  // caller does, as the copy reads another's memory.
  bool commit_fetch_later(const Move& move, const Event& event);
  // All pieces are there: counts them in, marks what is read for the first time. Fills claim.waits and claim.arrivals.
  // kDeviceFailed, kDataLost where the device failed meanwhile.
  Status grant(Claim& claim);
  // Gives reservations that were not used back and lets go of the blocks.
  void finish(Plan& plan) noexcept;

  // -- Regions, pins, devices ----------------------------------------------------------------------------------------

  // Frees all memory of the region; kBusy, and nothing changed, if a block is held or pinned. Waits for uses, plans and
  // arrivals. Afterwards the region may be destroyed once no look-up can find it.
  Status retire(Region& region);
  // The same in two steps: whether it may go, which is known at once, and the rest.
  Status begin_retire(Region& region);
  void finish_retire(Region& region);
  // kBusy if pages of the block are held or pinned.
  static Status check_unused(Block& block, PageRange pages);
  // Makes pages of one block unwritten (for packed buffers). Waits for uses and arrivals. REQUIRES: they are unused.
  void forget(Block& block, PageRange pages, bool zero);
  // Keeps (or stops keeping) the pages' instances on a device. REQUIRES for pin: the claim is granted.
  void pin(const Claim& claim) noexcept;
  // kInvalidValue if a block of the claim is not pinned on the claim's device.
  Status unpin(const Claim& claim);
  // All pins of a block go, whoever made them.
  static void drop_pins(Block& block) noexcept;
  // The device takes part no longer: its pages are owned by others from now on, or lost.
  void fail_device(DeviceIndex device, const Status& status);
  Status device_status(DeviceIndex device) const;

  // Names the live claims and the pins on the pages, each by a number of its own; one may be named by several blocks.
  static void collect_references(Block& block, PageRange pages, std::vector<std::uint64_t>& references);
  // Waits until nothing that overlaps the pages is under way, then takes it in.
  static void settle(Block& block, PageRange pages);
  // The device that owns a page, if any.
  static std::optional<DeviceIndex> owner_of(Block& block, std::uint32_t page);

  const DeviceMemory& memory(DeviceIndex device) const noexcept { return memories_[device]; }
  std::size_t num_devices() const noexcept { return memories_.size(); }
  // Spans on the device, and their bytes that are held or pinned now.
  struct Usage {
    std::size_t instances = 0;
    std::size_t pinned_bytes = 0;
  };
  Usage usage(DeviceIndex device) const;
  // For the steps that must not fail.
  MemoryReserve& reserve() noexcept { return reserve_; }
  Counters counters() const noexcept;

 private:
  struct Attempt;

  Residency(const Topology& topology, const Options& options, EvictionPolicy& policy, AccessObserver* observer,
            std::size_t num_devices);

  // residency.cpp
  enum class Hold : std::uint8_t { kHeld, kWouldWait };
  Result<Hold> hold_piece(Claim& claim, Piece& piece, Patience* patience);
  Result<bool> hold_all(Claim& claim, Patience* patience);
  Status wait_for_holders(Block& block, const Piece& piece, const Claim& claim, Patience& patience)
      VMEM_REQUIRES(block.mutex);
  bool check_resident(Claim& claim, Piece& piece, Block& block) VMEM_REQUIRES(block.mutex);
  void check_contiguous(Claim& claim);
  void observe(const Claim& claim, const Piece& piece) noexcept;
  void remove_hold(Claim& claim, Piece& piece, Block& block) VMEM_REQUIRES(block.mutex);
  void wake_memory_waiters() noexcept;

  // planner.cpp
  void touch(const Claim& claim) noexcept;
  bool let_go(Claim& claim) VMEM_REQUIRES(plan_mutex_);
  Status try_plan(Claim& claim, Attempt& attempt) VMEM_REQUIRES(plan_mutex_);
  Status list_frames(Claim& claim, Attempt& attempt) VMEM_REQUIRES(plan_mutex_);
  Status list_windowed(Claim& claim, Attempt& attempt) VMEM_REQUIRES(plan_mutex_);
  Status list_extents(Claim& claim, Attempt& attempt) VMEM_REQUIRES(plan_mutex_);
  Status list_relocations(Claim& claim, std::uint32_t first_piece, std::uint32_t end_piece, Attempt& attempt)
      VMEM_REQUIRES(plan_mutex_);
  void keep_relocations(Plan& plan) VMEM_REQUIRES(plan_mutex_);
  Status inspect(Claim& claim, Piece& piece, Attempt& attempt, bool& has_instance) VMEM_REQUIRES(plan_mutex_);
  Status reserve(Claim& claim, Attempt& attempt) VMEM_REQUIRES(plan_mutex_);
  Status choose_victims(Claim& claim, Attempt& attempt, std::size_t shortfall) VMEM_REQUIRES(plan_mutex_);
  std::vector<FrameSpan*> candidates(DeviceIndex device, std::vector<EvictionCandidate>& figures)
      VMEM_REQUIRES(plan_mutex_);
  bool inspect_candidate(FrameSpan& span, EvictionCandidate& figures) VMEM_REQUIRES(plan_mutex_);
  bool is_held_by_others(const Claim& claim, std::span<const DeviceMemory> memories) VMEM_REQUIRES(plan_mutex_);
  bool claim_victim(FrameSpan& span, Attempt& attempt) VMEM_REQUIRES(plan_mutex_);
  void abandon_victim(Plan& plan, std::size_t first_moving) VMEM_REQUIRES(plan_mutex_);
  static void stop_moving(Block& block);
  std::optional<Departure> find_room(Block& block, DeviceIndex from, Attempt& attempt) VMEM_REQUIRES(plan_mutex_);
  std::vector<DeviceIndex> rank_destinations(const Region& region, DeviceIndex from, std::size_t bytes,
                                             const Attempt& attempt) const VMEM_REQUIRES(plan_mutex_);
  bool reclaim(DeviceIndex device, std::size_t bytes, Attempt& attempt) VMEM_REQUIRES(plan_mutex_);
  void drop_if_idle(FrameSpan& span, Attempt& attempt) VMEM_REQUIRES(plan_mutex_);
  Status show_instances(Block& block) VMEM_REQUIRES(plan_mutex_, block.mutex);
  bool make_room(Attempt& attempt) VMEM_REQUIRES(plan_mutex_);
  void undo(Attempt& attempt) VMEM_REQUIRES(plan_mutex_);
  void mark_moving(Block& block, Plan& plan) VMEM_REQUIRES(plan_mutex_);
  std::size_t frame_bytes(const DeviceMemory& memory, const Block& block) const;

  // plan_steps.cpp
  Status make_departure_instance(Departure& departure);
  static void reserve_instance(Block& block);
  void add_instance(Block& block, FrameSpan& span) VMEM_REQUIRES(block.mutex);
  void remove_instance(Block& block, const FrameSpan& span) VMEM_REQUIRES(block.mutex);
  void release_memory(Region& region) VMEM_REQUIRES(plan_mutex_);

  // retire.cpp
  static void fail_instance(Block& block, Instance& instance, const Status& why) VMEM_REQUIRES(block.mutex);

  MemoryReserve reserve_;
  const Topology& topology_;
  const Options options_;
  EvictionPolicy& policy_;
  AccessObserver* const observer_;
  const std::unique_ptr<DeviceMemory[]> storage_;
  const std::span<DeviceMemory> memories_;  // what is not a device's store is guarded by plan_mutex_
  std::atomic<std::uint64_t> epoch_{1};
  std::atomic<std::uint64_t> pins_{0};
  std::atomic<std::uint64_t> evictions_{0};
  std::atomic<std::uint64_t> waits_{0};

  mutable Mutex plan_mutex_;
  CondVar memory_changed_;  // a plan ended, or a hold that kept memory
  std::atomic<std::uint32_t> memory_waiters_{0};
  std::size_t active_plans_ VMEM_GUARDED_BY(plan_mutex_) = 0;
};

}  // namespace vmem
