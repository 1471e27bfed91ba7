/// The contract between the core and what can reach memory: a `Backend` finds devices, a `Device` does things.
///
/// A backend is a shared object with one C entry point, `vmem_backend_entry`. backends/README.md maps every call to
/// CUDA's and HIP's and tells how to write another. The core knows devices by these two classes alone.
///
/// Thread contract: every call of a Device may be made from any thread at any time; a device sets its own context in
/// each call and restores the caller's. No call throws. Calls on a lost device return kDeviceFailed and never hang.
/// Addresses are device addresses: only a kTierHost device's may be dereferenced by the CPU.
#pragma once

#include <vmem/export.h>
#include <vmem/device_info.hpp>
#include <vmem/event.hpp>
#include <vmem/kernel.hpp>
#include <vmem/status.hpp>
#include <vmem/types.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace vmem {

/// Physical memory from a driver, not yet at any address. A value: `Device::create_chunk`'s caller owns it.
struct Chunk {
  std::uint64_t handle = 0;
  std::size_t bytes = 0;
};

/// A fault on demand (kFaultInjection): the `after`-th call from now (0: the next) of `call` misbehaves, `count` times.
struct Fault {
  enum class Kind : std::uint8_t {
    kFail,    ///< the call returns `code`; asynchronous work completes with it
    kHang,    ///< asynchronous work never completes until faults are cleared
    kVanish,  ///< the device is lost: this and every later call returns kDeviceFailed
    kCorrupt  ///< one byte of what is copied or filled changes
  };
  Kind kind = Kind::kFail;
  std::string call;  ///< a method's name, such as "copy_to_host"; empty: any
  std::uint64_t after = 0;
  std::uint64_t count = 1;
  StatusCode code = StatusCode::kInternal;
};

/// A place that holds bytes and moves them. Streams of a device are valid on that device alone.
class VMEM_API Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  /// Every stream, window, chunk and allocation of the device must have been given back. Stands a driver that is gone.
  virtual ~Device() = default;

  // -- What every device can do ------------------------------------------------------------------------------------

  /// Constant for the device's life.
  virtual const DeviceInfo& info() const noexcept = 0;
  virtual Result<MemoryInfo> memory_info() = 0;
  /// Success while the device works; else why it does not. Cheap: no round trip to the hardware.
  virtual Status health() noexcept = 0;

  /// Memory at an address at once (a slab), aligned to the granularity. Errors: kOutOfDeviceMemory or the tier's own.
  /// REQUIRES: bytes > 0.
  virtual Result<void*> allocate(std::size_t bytes) = 0;
  /// Gives back what `allocate` returned; kInvalidValue for any other pointer. The work on it must be done.
  virtual Status deallocate(void* address) = 0;

  /// Copies between this device and host memory, in stream order. The host range must stay valid until the event is
  /// done. Where it is not registered the call may block until the copy is done.
  virtual Result<Event> copy_from_host(void* destination, const void* host, std::size_t bytes, Stream stream) = 0;
  virtual Result<Event> copy_to_host(void* host, const void* source, std::size_t bytes, Stream stream) = 0;
  /// Copies within the device. The ranges must not overlap.
  virtual Result<Event> copy_within(void* destination, const void* source, std::size_t bytes, Stream stream) = 0;
  /// Sets every byte of a range of this device to `value`.
  virtual Result<Event> fill(void* destination, std::uint8_t value, std::size_t bytes, Stream stream) = 0;

  /// A new non-blocking stream; the caller destroys it.
  virtual Result<Stream> create_stream() = 0;
  /// Waits for the stream's work, then ends it. kInvalidValue for a stream that is not this device's.
  virtual Status destroy_stream(Stream stream) = 0;
  /// Success if the stream is one of this device's (made here or by the application through the same driver); else
  /// kInvalidValue. REQUIRES: not another driver's stream, which a driver may take for a pointer of its own.
  virtual Status check_stream(Stream stream) = 0;
  /// An event that is done when all work enqueued on the stream so far is.
  virtual Result<Event> record(Stream stream) = 0;
  /// Work enqueued on the stream from now on starts after the event. kUnsupported for an event of another backend: the
  /// caller then waits on the CPU. If the event fails, the stream goes on (whoever waits on the event sees the error).
  virtual Status wait_event(Stream stream, const Event& event) = 0;
  /// True while the stream is being captured into a graph.
  virtual Result<bool> is_capturing(Stream stream) = 0;

  // -- kVirtualMemory: chunks mapped into windows ------------------------------------------------------------------

  /// Physical memory without an address. REQUIRES: bytes is a multiple of the granularity, > 0.
  virtual Result<Chunk> create_chunk(std::size_t bytes);
  /// REQUIRES: the chunk is not mapped.
  virtual Status destroy_chunk(const Chunk& chunk);
  /// A contiguous range of addresses with nothing behind it, aligned to the granularity.
  virtual Result<void*> reserve_window(std::size_t bytes);
  /// REQUIRES: nothing is mapped in it.
  virtual Status release_window(void* window, std::size_t bytes);
  /// Puts a whole chunk at an address of a window and makes it accessible to this device (and to peers whose access is
  /// on). A chunk of host memory may be mapped at several addresses at once.
  virtual Status map(void* address, const Chunk& chunk);
  /// Takes a whole mapping away. The work on it must be done.
  virtual Status unmap(void* address, std::size_t bytes);

  // -- kPeerCopy ---------------------------------------------------------------------------------------------------

  /// True if `copy_to_peer` to that device does not pass through host memory. A backend whose driver may be wrong about
  /// it probes with real bytes before it answers true.
  virtual bool can_access_peer(const Device& peer) const noexcept;
  /// Copies from this device to `peer`, in order of a stream of this device.
  virtual Result<Event> copy_to_peer(Device& peer, void* destination, const void* source, std::size_t bytes,
                                     Stream stream);

  // -- kHostRegistration -------------------------------------------------------------------------------------------

  /// Pins host pages for this device (and the others of its address space); answers with their address on it, which may
  /// differ from the host's. kOutOfHostMemory where a limit on locked memory stands in the way: pageable copies still
  /// work.
  virtual Result<void*> register_host(void* host, std::size_t bytes);
  virtual Status unregister_host(void* host);

  // -- kKernels ----------------------------------------------------------------------------------------------------

  /// Makes a kernel launchable by its name on this device; a name that is known is replaced. kernel.hpp says what it
  /// holds.
  virtual Status add_kernel(const KernelImage& image);
  /// kNotFound for a name that neither the backend's built-in kernels nor `add_kernel` gave.
  virtual Result<Event> launch(const KernelLaunch& launch, Stream stream);

  // -- kStreamSignals: opt-in at most, drivers may deadlock on an order that they can't see ------------------------

  /// The stream writes `value` to the word when it gets there.
  virtual Status write_signal(Stream stream, std::uint32_t* word, std::uint32_t value);
  /// The stream goes on when the word is at least `value`.
  virtual Status wait_signal(Stream stream, std::uint32_t* word, std::uint32_t value);

  // -- kFaultInjection ---------------------------------------------------------------------------------------------

  virtual Status inject(const Fault& fault);
  /// Drops all faults and lets what hangs complete with kTimeout. A device that vanished stays lost.
  virtual Status clear_faults();
};

struct BackendConfig;

/// Finds the devices of one driver.
class VMEM_API Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  virtual std::string_view name() const noexcept = 0;
  /// For people and for the cache of measurements: a change of it makes measurements void.
  virtual std::string driver_version() const = 0;
  /// Hands over the devices, in the driver's order. Called once; the devices must be destroyed before the backend.
  virtual Result<std::vector<std::unique_ptr<Device>>> discover() = 0;
};

/// What `vmem_backend_entry` answers. A mismatch of either of the first two makes the backend absent.
struct BackendEntry {
  std::uint32_t contract_version;  ///< kBackendContractVersion of the headers it was built with
  const char* build_id;            ///< VMEM_BUILD_ID: library and backends are built together
  /// A backend, or why it is absent (no driver, a stub, too old). Never throws.
  Result<std::unique_ptr<Backend>> (*create)(const BackendConfig& config);
};

inline constexpr std::uint32_t kBackendContractVersion = 1;

}  // namespace vmem

/// Defined by each backend's shared object, its only exported symbol.
extern "C" const vmem::BackendEntry* vmem_backend_entry();
