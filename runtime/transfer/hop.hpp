// One hop of a chunk: which call of which device moves it, and its completion.
#pragma once

#include <vmem/backend.hpp>
#include <vmem/status.hpp>
#include <vmem/topology.hpp>
#include <vmem/types.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "runtime/support/thread_annotations.hpp"
#include "runtime/transfer/flight.hpp"
#include "runtime/transfer/staging.hpp"
#include "runtime/transfer/transfer_engine.hpp"

namespace vmem {

// Bytes at an offset from the hop's source to an offset from its destination.
struct CopySegment {
  std::size_t from = 0;
  std::size_t to = 0;
  std::size_t bytes = 0;
};

struct HopCopy {
  DeviceIndex from = 0;
  DeviceIndex to = 0;
  HopKind kind = HopKind::kLocal;
  const std::byte* source = nullptr;
  std::byte* destination = nullptr;
  std::vector<CopySegment> segments;
  // The buffer that the bytes lie packed in, at one end; null where both ends are as the caller laid them out.
  const StagingBuffer* packed = nullptr;
  // A buffer for the list of pages that a kernel copies between memory of the device and host memory registered with
  // it; null where it is no such copy.
  const StagingBuffer* page_list = nullptr;
};

// A chunk that a kernel gathers or scatters is at most so large: the pages' offsets lie behind them in the buffer.
constexpr std::size_t most_page_bytes(std::size_t buffer_bytes) noexcept {
  return buffer_bytes / (kPageBytes + sizeof(std::uint64_t)) * kPageBytes;
}

// So many pages can be listed in a buffer.
constexpr std::size_t most_listed_pages(std::size_t buffer_bytes) noexcept {
  return buffer_bytes / sizeof(std::uint64_t);
}

// Counts what went over each hop. Shared with completions, which may come late.
class HopCounters {
 public:
  void add(const HopCopy& copy, std::uint64_t bytes) noexcept;
  std::vector<HopStats> read() const;

 private:
  mutable Mutex mutex_;
  std::map<std::tuple<DeviceIndex, DeviceIndex, HopKind>, HopStats> hops_ VMEM_GUARDED_BY(mutex_);
};

// The streams that the engine copies on: none for host memory, which is copied by the CPU.
struct CopyStreams {
  Stream in;
  Stream out;
};

// The devices as the hops use them. Thread contract: const members may be called from any thread.
class HopExecutor {
 public:
  HopExecutor(std::vector<Device*> devices, std::vector<CopyStreams> streams, Flight& flight, const StagingRing& ring,
              std::shared_ptr<HopCounters> counters);

  Device& device(DeviceIndex index) const { return *devices_[index]; }
  bool is_host(DeviceIndex index) const { return devices_[index]->info().tier == Tier::kHost; }
  HopKind kind_of(DeviceIndex from, DeviceIndex to) const;
  // The device whose call does the copy.
  static DeviceIndex operator_of(const HopCopy& copy) {
    return copy.kind == HopKind::kHostToDevice ? copy.to : copy.from;
  }
  static CopyQueue queue_of(HopKind kind) {
    return kind == HopKind::kHostToDevice || kind == HopKind::kLocal ? CopyQueue::kIn : CopyQueue::kOut;
  }
  Stream stream_of(const HopCopy& copy) const;

  // Whether the device can gather and scatter pages of registered host memory by a kernel.
  bool moves_pages(DeviceIndex index) const;
  // Whether it can do so at this very place of host memory, not only in a staging buffer.
  bool reaches_pages(DeviceIndex index, const void* host, std::size_t bytes) const;

  // Hands one segment to the device, on `stream`. REQUIRES: the kind is not kHostToHost. Never throws.
  Result<Event> issue(const HopCopy& copy, const CopySegment& segment, Stream stream) const noexcept;

  // Copies all segments; `done` is called exactly once, when all have ended or will never (kOutOfHostMemory where there
  // is no memory to start). `lane` (may be null) is busy
  // as long as a device may touch its buffers. Answers with the device's event of the last segment.
  Event run(const HopCopy& copy, const LanePtr& lane, Flight::Done done) const noexcept;

 private:
  class Joined;

  // What starts can't be left alone: where there is no memory to watch it, it is waited for.
  Event issue_all(const HopCopy& copy, const LanePtr& lane, const std::shared_ptr<Joined>& joined) const noexcept;
  void watch(DeviceIndex index, CopyQueue queue, const Event& event, const LanePtr& lane,
             const std::shared_ptr<Joined>& joined) const noexcept;
  struct PageWork;
  bool can_launch(const HopCopy& copy) const;
  PageWork packed_pages(const HopCopy& copy, std::uint64_t count) const;
  PageWork listed_pages(const HopCopy& copy) const;
  Result<Event> launch_pages(const HopCopy& copy, Stream stream) const noexcept;

  std::vector<Device*> devices_;
  std::vector<CopyStreams> streams_;
  Flight& flight_;
  const StagingRing& ring_;
  const std::unique_ptr<std::atomic<bool>[]> kernels_missing_;  // by device
  std::shared_ptr<HopCounters> counters_;                       // shared with completions
};

}  // namespace vmem
