/// One virtual address space over the memory of all devices.
///
/// Buffers here are coherent: a block may have copies on several devices, readers share pages (4 KiB), a writer has its
/// pages alone, and programs say where they use bytes by `acquire`.
///
/// Thread contract: every member may be called from any thread at any time, but for the destructor.
#pragma once

#include <vmem/export.h>
#include <vmem/acquired.hpp>
#include <vmem/buffer.hpp>
#include <vmem/event.hpp>
#include <vmem/options.hpp>
#include <vmem/stats.hpp>
#include <vmem/status.hpp>
#include <vmem/topology.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vmem {

/// How an acquire is made; the ranges come beside it.
struct AcquireOptions {
  DeviceIndex device = 0;
  Stream stream;                                      ///< of that device; none: the call waits for the bytes
  std::optional<std::chrono::milliseconds> deadline;  ///< how long to wait for other holders; empty: the pool's
};

/// Hints and pins on a range (`Pool::advise`).
enum class Advice : std::uint8_t {
  kPreferDevice = 0,  ///< evict to there, place there first; the whole buffer's; kUnsupported for one in a shared block
  kNoPreference = 1,
  kPin = 2,  ///< fetch to the device and keep the frames there until kUnpin; a pin counts as a reference
  kUnpin = 3,
};

/// An address-table entry, as `Pool::translate` answers.
struct Translation {
  PoolAddress virtual_address = 0;     ///< of the buffer that holds the byte
  std::size_t size = 0;                ///< the buffer's, bytes
  std::uint64_t physical_address = 0;  ///< the byte's address on `device`; 0 where no device has it yet
  std::uint64_t chunk = 0;             ///< the driver's handle of the memory behind it
  std::size_t chunk_offset = 0;        ///< the byte's place in that chunk
  std::string device;                  ///< the device that answers for the byte; empty where none has it yet
  std::uint32_t reference_count = 0;   ///< live acquires and pins of the buffer
};

/// An asynchronous fetch, to wait for or to cancel.
class VMEM_API Prefetch {
 public:
  struct State;

  Prefetch() noexcept = default;
  explicit Prefetch(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}

  bool is_done() const noexcept;
  /// The outcome; blocks until there is one.
  Status wait() const;
  /// Stops between two moves; moves that were made stay. `wait` then answers kCancelled, or success where it was done
  /// before.
  void cancel() const noexcept;

 private:
  std::shared_ptr<State> state_;  // shared: with the thread that fetches
};

class VMEM_API Pool {
 public:
  class Impl;

  explicit Pool(std::unique_ptr<Impl> impl);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  /// Cancels prefetches and frees all buffers, pinned ones too. Release what is acquired before: where something still
  /// is, nothing is freed, so that work on it meets no other bytes; its memory stays taken until the process ends, and
  /// the log says so. Its release is kInvalidValue then.
  ~Pool();

  /// A buffer of `bytes` > 0. Memory is taken when it is first used, so more may be allocated than there is.
  /// Errors: kInvalidValue (zero, or an unknown preferred device), kOutOfAddresses.
  Result<Buffer> allocate(std::size_t bytes, const BufferOptions& options = {});
  /// Frees by address. Errors: kInvalidValue (double, foreign or interior address), kBusy (acquired or pinned).
  Status free(PoolAddress address);

  /// Gets all ranges on one device, or none. Ranges may lie in different buffers; two that overlap must both be kRead.
  /// With a stream it returns when the frames are there and the last hop is enqueued (the stream waits for it), or,
  /// where events can't chain the hops, when the bytes are there. Errors: kInvalidValue (unknown device or address,
  /// past the end, another device's stream, overlap), kBusy (holders beyond the deadline), kOutOfDeviceMemory (the list
  /// can't fit at all: at once), kOutOfHostMemory (nowhere to evict to), kUnsupported (the stream is capturing),
  /// kDataLost, kDeviceFailed, and any error with which the bytes did not arrive. If that happens after the call has
  /// returned, `Acquired::release` and `status`, and every acquire that needs the pages, answer with the error until
  /// they are prefetched or discarded; nothing that was written under the list is taken over.
  Result<Acquired> acquire(const std::vector<AcquireRange>& ranges, const AcquireOptions& options);
  /// The same for one range, without a list: the fast way.
  Result<Acquired> acquire(const AcquireRange& range, const AcquireOptions& options);

  /// Starts to bring a range to a device. Errors of the fetch itself are told by the handle. Where it succeeds, a fetch
  /// of the range that failed before no longer stands in the way of acquires.
  Result<Prefetch> prefetch(PoolAddress address, std::size_t bytes, DeviceIndex device);
  /// See Advice. `device` matters for kPreferDevice, kPin and kUnpin.
  Status advise(PoolAddress address, std::size_t bytes, Advice advice, DeviceIndex device);

  /// Copies between the pool and the caller's host memory, and within the pool; returns when the bytes are there.
  Status copy_in(PoolAddress destination, const void* host, std::size_t bytes);
  Status copy_out(void* host, PoolAddress source, std::size_t bytes);
  Status copy(PoolAddress destination, PoolAddress source, std::size_t bytes);
  /// Sets every byte of a range.
  Status fill(PoolAddress address, std::uint8_t value, std::size_t bytes);

  /// True for every address of the pool's reserved range, allocated or not. No pointer of the process lies in it.
  bool contains(PoolAddress address) const noexcept;
  /// The entry of the buffer that holds a byte. Errors: kInvalidValue for an address of no buffer.
  Result<Translation> translate(PoolAddress address) const;
  /// Where the pages of a range are valid: bytes on each device, by index.
  Result<std::vector<std::size_t>> residency(PoolAddress address, std::size_t bytes) const;
  /// Empty where the process is out of memory.
  PoolStats stats() const;
  /// Success, or a failure that lasts: a failed device, or pages that did not arrive for an acquire on a stream and
  /// have been neither fetched again nor discarded since. Looks at every block: for checks, not for hot paths.
  Status status() const;
  const PoolOptions& options() const noexcept;

 private:
  friend class Runtime;
  std::unique_ptr<Impl> impl_;
  std::shared_ptr<Pool*> self_;  // shared: buffers look weakly whether their pool is still there
};

}  // namespace vmem
