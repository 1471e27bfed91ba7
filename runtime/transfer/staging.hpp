// The memory that bytes rest in between two hops: buffers of one size, in host memory or on a relaying peer, registered
// with the devices that copy from and to them, never more of them than the limit over all routes.
#pragma once

#include <vmem/backend.hpp>
#include <vmem/status.hpp>
#include <vmem/topology.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/support/host_registrations.hpp"
#include "runtime/support/log.hpp"
#include "runtime/support/thread_annotations.hpp"

namespace vmem {

struct StagingBuffer {
  DeviceIndex place = 0;
  std::byte* address = nullptr;
};

// What one chunk needs on its way: a buffer at each place between its first and its last device. Also the token that
// bounds how many chunks are under way on a route; a route without places has lanes without buffers.
struct Lane {
  std::vector<StagingBuffer*> buffers;
  // Copies that a device may still be doing on the buffers, timed out ones included.
  std::atomic<unsigned> busy{0};
};
using LanePtr = std::shared_ptr<Lane>;  // shared with the completions of copies on its buffers

// Which places a lane needs, and which devices use the buffer at each.
struct LaneShape {
  std::vector<DeviceIndex> places;
  std::vector<std::vector<DeviceIndex>> users;
};

// CONCURRENCY: one mutex, held over the driver's calls that make, register and free a buffer; these come from the
// engine's threads or a caller, never from a completion. A chunk takes all its buffers at once or none, so chunks never
// wait for each other's.
class StagingRing {
 public:
  // Waits for a lane. Called back outside the ring's mutex.
  class Waiter {
   public:
    virtual ~Waiter() = default;
    virtual void lane_available() = 0;
  };

  // All arguments outlive the ring.
  StagingRing(std::vector<Device*> devices, std::size_t limit_bytes, HostRegistrations& registrations, Logger& logger);
  // Frees the buffers, except those that a hung device may still write.
  ~StagingRing();
  StagingRing(const StagingRing&) = delete;
  StagingRing& operator=(const StagingRing&) = delete;

  // The largest chunk: the size of every buffer.
  std::size_t buffer_bytes() const noexcept { return buffer_bytes_; }

  // A lane, or kBusy when the limit is reached: then `waiter` (may be null) is called once when that may have changed.
  // Other errors: memory that the device has not, or that only hung copies hold.
  Result<LanePtr> take(const LaneShape& shape, Waiter* waiter);
  // The same for a copy that does not wait: kBusy also while many lanes linger.
  Result<LanePtr> take_now(const LaneShape& shape);
  // Whether copies by way of the place get on: it has a buffer, or has room for one. May make one.
  bool has_room_at(DeviceIndex place);
  // A busy lane lingers until its copies have ended.
  void give_back(const LanePtr& lane);
  const HostRegistrations& registrations() const noexcept { return registrations_; }
  bool has_waiters() const noexcept { return has_waiters_.load(std::memory_order_relaxed); }

  std::size_t allocated_bytes() const;
  std::size_t peak_bytes() const;
  std::size_t idle_buffers() const;

 private:
  Result<LanePtr> assemble(const LaneShape& shape) VMEM_REQUIRES(mutex_);
  Result<StagingBuffer*> obtain(DeviceIndex place) VMEM_REQUIRES(mutex_);
  Result<StagingBuffer*> allocate(DeviceIndex place) VMEM_REQUIRES(mutex_);
  void register_with(const StagingBuffer& buffer, DeviceIndex user) VMEM_REQUIRES(mutex_);
  bool make_room(DeviceIndex place) VMEM_REQUIRES(mutex_);
  void free_buffer(StagingBuffer& buffer) VMEM_REQUIRES(mutex_);
  void reclaim_ended() VMEM_REQUIRES(mutex_);
  void put_back(Lane& lane) VMEM_REQUIRES(mutex_);
  std::size_t footprint(DeviceIndex place) const;

  const std::vector<Device*> devices_;
  const std::size_t limit_bytes_;
  const std::size_t buffer_bytes_;
  HostRegistrations& registrations_;
  Logger& logger_;

  mutable Mutex mutex_;
  std::vector<std::unique_ptr<StagingBuffer>> buffers_ VMEM_GUARDED_BY(mutex_);
  std::vector<std::vector<StagingBuffer*>> idle_
      VMEM_GUARDED_BY(mutex_);                              // by place; the last used first: it is cached
  std::vector<LanePtr> lingering_ VMEM_GUARDED_BY(mutex_);  // given back while a device may still copy
  std::vector<Waiter*> waiters_ VMEM_GUARDED_BY(mutex_);
  std::size_t num_taken_ VMEM_GUARDED_BY(mutex_) = 0;  // lanes that will come back
  std::size_t allocated_bytes_ VMEM_GUARDED_BY(mutex_) = 0;
  std::size_t peak_bytes_ VMEM_GUARDED_BY(mutex_) = 0;
  std::atomic<bool> has_waiters_{false};
};

// Gives a lane back when it goes.
class LaneGuard {
 public:
  LaneGuard(StagingRing& ring, const LanePtr& lane) noexcept : ring_(ring), lane_(lane) {}
  LaneGuard(const LaneGuard&) = delete;
  LaneGuard& operator=(const LaneGuard&) = delete;
  ~LaneGuard() { ring_.give_back(lane_); }

 private:
  StagingRing& ring_;
  const LanePtr& lane_;
};

}  // namespace vmem
