// Moves bytes between devices: over one hop where hardware has it, else staged through host memory or a peer.
//
// A request is cut into chunks that flow through a oneTBB graph of its route: one node a hop, tokens that bound the
// staging memory in use. README.md beside this file shows the parts.
//
// Thread contract: every member may be called from any thread, also many at once. No call runs a task of the
// application: callers wait on condition variables, and the graphs run on threads that the engine owns.
#pragma once

#include <vmem/backend.hpp>
#include <vmem/event.hpp>
#include <vmem/status.hpp>
#include <vmem/topology.hpp>
#include <vmem/types.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/support/log.hpp"

namespace vmem {

class HostRegistrations;

// Where bytes start or end: an address that is valid on the device.
struct Endpoint {
  DeviceIndex device = 0;
  void* address = nullptr;
};

// Bytes at the same offset from both endpoints' addresses.
struct ByteRange {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

struct TransferRequest {
  Endpoint source;
  Endpoint destination;
  std::vector<ByteRange> ranges;  // disjoint, ascending; empty: nothing to do, complete at once
  // Nothing is read or written before these are done. If one fails, the transfer fails with its status and writes
  // nothing.
  std::vector<Event> after;
};

struct TransferOptions {
  std::size_t staging_bytes = 256_MiB;       // the most staging memory over all routes; at least 256 KiB
  std::size_t small_bytes = 64_KiB;          // copies up to this size, and others as quick, take no graph
  std::chrono::milliseconds timeout{30000};  // a device whose oldest copy gets nowhere for so long has failed
  unsigned copy_threads = 0;                 // threads of the engine's arena, also for memcpy; 0: the cores, at most 8
  std::size_t max_in_flight = 32;            // copies that start hands to one device before it queues the next
};

enum class HopKind : std::uint8_t { kLocal, kHostToHost, kHostToDevice, kDeviceToHost, kPeer };

// "local", "host to host", "host to device", "device to host" or "peer".
const char* to_string(HopKind kind) noexcept;

// What went over one hop, in copies that succeeded.
struct HopStats {
  DeviceIndex from = 0;
  DeviceIndex to = 0;
  HopKind kind = HopKind::kLocal;
  std::uint64_t copies = 0;
  std::uint64_t bytes = 0;
};

struct TransferStats {
  std::vector<HopStats> hops;
  std::uint64_t started = 0;           // transfers with at least one byte
  std::uint64_t completed = 0;         // of them, well
  std::uint64_t failed = 0;            // of them, not
  std::uint64_t bytes = 0;             // of the completed ones, counted once however many hops
  std::size_t staging_bytes = 0;       // allocated now
  std::size_t staging_peak_bytes = 0;  // the most that ever was
};

class TransferEngine {
 public:
  // `devices[i]` is `topology.devices()[i]`; devices, topology and logger outlive the engine.
  static Result<std::unique_ptr<TransferEngine>> create(std::vector<Device*> devices, const Topology& topology,
                                                        Logger& logger, const TransferOptions& options);
  // Drains what is under way, at most as long as the timeout. Events stay usable.
  // REQUIRES: no other call is running.
  ~TransferEngine();
  TransferEngine(const TransferEngine&) = delete;
  TransferEngine& operator=(const TransferEngine&) = delete;

  // Starts a transfer and returns as soon as it is handed over. The event is done when all bytes are at the
  // destination, or with the error. Where the route is one hop on one device, and all of `after` is done, a stream of
  // that device can wait on it (`Device::wait_event`); else it is the host's alone, and wait_event answers
  // kUnsupported. Errors: kInvalidValue (ranges that overflow, overlap or descend, unknown device), kNotFound (no
  // route), kDeviceFailed.
  Result<Event> start(const TransferRequest& request);

  // Starts and waits.
  Status copy(const TransferRequest& request);

  // Copies between pointers from outside the pool, ordered after all work on both streams so far; work enqueued on
  // them later comes after it. Where the streams can't be made to wait (two vendors, staging) the call returns when the
  // bytes are there. A stream without value is no stream: the caller has ordered its work.
  Result<Event> copy_pointers(Endpoint destination, Stream destination_stream, Endpoint source, Stream source_stream,
                              std::size_t bytes);

  // Success, or why the engine takes no more copies for the device.
  Status device_status(DeviceIndex device) const;

  TransferStats stats() const;

  // Memory that it registers is pinned for the engine's copies, too. For as long as the engine lives.
  HostRegistrations& registrations() noexcept;

 private:
  class Impl;
  explicit TransferEngine(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace vmem
