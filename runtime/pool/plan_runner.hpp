// Carries plans out: starts the copies, waits for them in the order that frees memory first, commits each alone.
#pragma once

#include <vmem/backend.hpp>
#include <vmem/status.hpp>
#include <vmem/topology.hpp>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/residency/residency.hpp"
#include "runtime/transfer/transfer_engine.hpp"

namespace vmem {

// Bytes by reason, for each pair of devices. Thread contract: atomic counters.
class MoveCounters {
 public:
  enum class Reason : std::uint8_t { kFetch = 0, kEvict = 1, kCopy = 2 };
  struct Pair {
    std::atomic<std::uint64_t> bytes[3]{};
    std::atomic<std::uint64_t> moves{0};
  };

  explicit MoveCounters(std::size_t num_devices) : num_devices_(num_devices), pairs_(num_devices * num_devices) {}
  void add(DeviceIndex from, DeviceIndex to, Reason reason, std::size_t bytes) noexcept {
    Pair& pair = pairs_[from * num_devices_ + to];
    pair.bytes[static_cast<std::size_t>(reason)].fetch_add(bytes, std::memory_order_relaxed);
    pair.moves.fetch_add(1, std::memory_order_relaxed);
  }
  const Pair& at(DeviceIndex from, DeviceIndex to) const noexcept { return pairs_[from * num_devices_ + to]; }

 private:
  const std::size_t num_devices_;
  std::deque<Pair> pairs_;
};

// One plan's run. Thread contract: one thread's.
class PlanRunner {
 public:
  // `cancelled` may be null.
  PlanRunner(Residency& residency, TransferEngine& transfers, MoveCounters& counters,
             const std::atomic<bool>* cancelled)
      : residency_(residency), transfers_(transfers), counters_(counters), cancelled_(cancelled) {}

  // All bytes of the claim are there, or on their way where its stream waits for them. On an error what was moved stays
  // moved; the caller finishes the plan either way.
  Status run(Plan& plan, Claim& claim);

  // Where an eviction failed: the device that could not take the bytes. Empty for any other error.
  std::optional<DeviceIndex> refused_by() const noexcept { return refused_by_; }
  // Frames could not be made though their bytes were reserved.
  bool frames_failed() const noexcept { return frames_failed_; }

 private:
  struct Copy {
    Move move;
    Event event;
  };
  // An eviction whose copies are under way.
  struct Leaving {
    Eviction* eviction = nullptr;
    std::vector<Copy> copies;
    Status status;
  };

  bool is_cancelled() const noexcept { return cancelled_ != nullptr && cancelled_->load(); }
  Status wait_for(const std::vector<Event>& events) const;
  Status start_all(Plan& plan, Claim& claim);
  Status start_evictions(Plan& plan);
  Status start_departures(const Plan& plan, Leaving& leaving);
  Status finish_next_eviction(Plan& plan) noexcept;
  Status finish_departure(const Copy& copy);
  Status make_frames(Plan& plan, const Arriving& arriving);
  Status relocate(const Move& move);
  Status start_fetches(Claim& claim, Piece& piece);
  Status finish_fetches(Claim& claim) noexcept;
  Status finish_fetch(const Claim& claim, const Copy& copy);
  bool leaves_it_to_the_stream(const Claim& claim, const Copy& copy) noexcept;
  Status fill(const Move& move);
  Result<Event> start(const Move& move);

  Residency& residency_;
  TransferEngine& transfers_;
  MoveCounters& counters_;
  const std::atomic<bool>* const cancelled_;
  std::deque<Leaving> leaving_;
  std::vector<Copy> fetches_;
  std::map<const Block*, PageMask> under_way_;  // of a list: what fetches_ brings
  std::optional<DeviceIndex> refused_by_;
  bool frames_failed_ = false;
};

}  // namespace vmem
