// The simulated driver that the doubles of all vendors share: devices, contexts, memory, streams, events, captures.
//
// STRUCTURE: one `Driver` is one process's driver; vmem_double_reset replaces it. A vendor's double turns its calls
// into calls of this class, and `Error`s into its own numbers. driver_memory.cpp, driver_work.cpp and
// driver_streams.cpp hold the parts of it.
//
// CONCURRENCY: every member may be called from any thread. One mutex guards all state; it outlives every Driver.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/support/thread_annotations.hpp"
#include "runtime/support/unique_fd.hpp"
#include "tests/doubles/driver/address_space.hpp"
#include "tests/doubles/driver/capture.hpp"
#include "tests/doubles/driver/fault_plan.hpp"
#include "tests/doubles/driver/handle_table.hpp"
#include "tests/doubles/driver/kernel_table.hpp"
#include "tests/doubles/driver/scheduler.hpp"
#include "tests/doubles/driver/settings.hpp"

namespace vmem::sim {

// What the vendors' drivers do differently.
struct Vendor {
  const char* name;  // of its devices
  unsigned wave_width;
  // Work that fails takes every device of the process with it, not only its own.
  bool failures_spread;
  int (*code_of)(Error error);
  std::uint32_t pci_bus;  // of the first device
};

struct Context {
  int device = 0;
  bool primary = false;
  bool alive = true;
  unsigned flags = 0;
  std::uint64_t id = 0;
  Handle handle = 0;
  std::shared_ptr<Queue> legacy;
  std::vector<std::weak_ptr<Queue>> queues;
};

struct Event {
  Context* context = nullptr;
  bool timed = true;
  std::shared_ptr<Marker> marker;    // of the last record; null before it
  std::shared_ptr<Capture> capture;  // recorded into it
  Queue* captured_queue = nullptr;
  std::uint64_t captured_step = 0;
};

struct Module {
  Context* context = nullptr;
  std::string image;  // where it is text
  std::map<std::string, Handle> functions;
};

struct Function {
  Handle module = 0;
  Kernel kernel;
};

struct Chunk {
  std::shared_ptr<Backing> backing;
  bool shareable = false;
};

// One side of a copy: an address as the CPU's, or as a device sees it.
struct Place {
  Address address = 0;
  bool host = false;
  int device = 0;
};

enum class Wait : std::uint8_t {
  kNo,          // for nothing
  kAsDriversDo  // until the work is done, as the call is no asynchronous one
};

struct PointerInfo {
  enum class Kind : std::uint8_t { kUnknown, kDevice, kHost } kind = Kind::kUnknown;
  int device = -1;  // kHostLocation for host memory
  Address begin = 0;
  std::size_t bytes = 0;
  Handle context = 0;
  bool allocated = false;      // by `allocate`
  Address reserved_begin = 0;  // 0: not in a reservation
  std::size_t reserved_bytes = 0;
  Address device_address = 0;
  char* host_address = nullptr;
  std::uint64_t id = 0;
};

struct Launch {
  std::array<std::uint32_t, 3> grid{1, 1, 1};
  std::array<std::uint32_t, 3> block{1, 1, 1};
  // Where each parameter's value is; null where `buffer` holds them all at their offsets.
  void** parameters = nullptr;
  std::span<const std::byte> buffer;
};

class Driver {
 public:
  Driver(Settings settings, const Vendor& vendor);
  ~Driver();

  const Settings& settings() const { return settings_; }
  int num_devices() const { return settings_.num_devices; }
  unsigned wave_width() const { return settings_.wave_width != 0 ? settings_.wave_width : vendor_.wave_width; }
  std::uint32_t pci_bus(int device) const { return vendor_.pci_bus + static_cast<std::uint32_t>(device); }
  std::array<std::uint8_t, 16> uuid(int device) const;

  // -- Failures ----------------------------------------------------------------------------------------------------

  // The code that every call answers with, for a device or (-1) for those that need none. 0: it works.
  int failure(int device) VMEM_EXCLUDES(driver_mutex);
  void lose_device(int device, int code) VMEM_EXCLUDES(driver_mutex);
  void fail_all(int code) VMEM_EXCLUDES(driver_mutex);
  void release_hung() VMEM_EXCLUDES(driver_mutex);
  std::uint64_t num_hung() VMEM_EXCLUDES(driver_mutex);
  void set_peer(int device, int peer, vmem_double_peer behaviour) VMEM_EXCLUDES(driver_mutex);
  void occupy(int device, std::size_t bytes) VMEM_EXCLUDES(driver_mutex);
  std::uint64_t count(std::string_view what) VMEM_EXCLUDES(driver_mutex);
  // What the call that this thread is in meets; null for none. It must outlive the call.
  static void set_call_fault(const CallFault* fault);
  static const CallFault* call_fault();
  // This thread is in a callback of a queue, where no call is allowed.
  static bool in_callback();

  // -- Contexts ----------------------------------------------------------------------------------------------------

  Error retain_primary(int device, Handle& context) VMEM_EXCLUDES(driver_mutex);
  Error release_primary(int device) VMEM_EXCLUDES(driver_mutex);
  Error reset_primary(int device) VMEM_EXCLUDES(driver_mutex);
  Error set_primary_flags(int device, unsigned flags) VMEM_EXCLUDES(driver_mutex);
  void primary_state(int device, unsigned& flags, bool& active) VMEM_EXCLUDES(driver_mutex);
  Error create_context(int device, unsigned flags, Handle& context) VMEM_EXCLUDES(driver_mutex);
  Error destroy_context(Handle context) VMEM_EXCLUDES(driver_mutex);
  // Null for a handle that never was one or is none any more; `was_one` tells which.
  std::shared_ptr<Context> context(Handle handle, bool* was_one = nullptr) VMEM_EXCLUDES(driver_mutex);
  Error synchronize(const Context& context) VMEM_EXCLUDES(driver_mutex);

  // -- Peers -------------------------------------------------------------------------------------------------------

  bool can_access_peer(int device, int peer) VMEM_EXCLUDES(driver_mutex);
  Error enable_peer(int device, int peer) VMEM_EXCLUDES(driver_mutex);
  Error disable_peer(int device, int peer) VMEM_EXCLUDES(driver_mutex);

  // -- Memory ------------------------------------------------------------------------------------------------------

  void memory_info(int device, std::size_t& free, std::size_t& total) VMEM_EXCLUDES(driver_mutex);
  Error allocate(const Context& context, std::size_t bytes, Address& address) VMEM_EXCLUDES(driver_mutex);
  // Waits for the device's work first, as drivers do.
  Error deallocate(Address address) VMEM_EXCLUDES(driver_mutex);

  // `location` is a device or kHostLocation.
  Error create_chunk(int location, std::size_t bytes, bool shareable, Handle& chunk) VMEM_EXCLUDES(driver_mutex);
  Error release_chunk(Handle chunk) VMEM_EXCLUDES(driver_mutex);
  Error retain_chunk(Address address, Handle& chunk) VMEM_EXCLUDES(driver_mutex);
  Error export_chunk(Handle chunk, int& fd) VMEM_EXCLUDES(driver_mutex);
  Error import_chunk(int fd, Handle& chunk) VMEM_EXCLUDES(driver_mutex);
  Error chunk_info(Handle chunk, int& location, bool& shareable) VMEM_EXCLUDES(driver_mutex);
  Error reserve(std::size_t bytes, std::size_t alignment, Address hint, Address& address) VMEM_EXCLUDES(driver_mutex);
  Error release(Address address, std::size_t bytes) VMEM_EXCLUDES(driver_mutex);
  Error map(Address address, std::size_t bytes, std::size_t offset, Handle chunk) VMEM_EXCLUDES(driver_mutex);
  Error unmap(Address address, std::size_t bytes) VMEM_EXCLUDES(driver_mutex);
  Error set_access(Address address, std::size_t bytes, int location, Protection protection) VMEM_EXCLUDES(driver_mutex);
  Error access_of(Address address, int location, Protection& protection) VMEM_EXCLUDES(driver_mutex);

  Error allocate_host(const Context& context, std::size_t bytes, unsigned flags, char*& host)
      VMEM_EXCLUDES(driver_mutex);
  Error deallocate_host(char* host) VMEM_EXCLUDES(driver_mutex);
  Error register_host(const Context& context, char* host, std::size_t bytes, unsigned flags)
      VMEM_EXCLUDES(driver_mutex);
  Error unregister_host(char* host) VMEM_EXCLUDES(driver_mutex);
  Error host_device_pointer(const char* host, Address& address) VMEM_EXCLUDES(driver_mutex);
  Error host_flags(const char* host, unsigned& flags) VMEM_EXCLUDES(driver_mutex);

  PointerInfo pointer_info(Address address) VMEM_EXCLUDES(driver_mutex);
  bool is_device_address(Address address) const { return addresses_.contains(address); }

  // -- Streams and events ------------------------------------------------------------------------------------------

  Error create_queue(Context& context, bool blocking, unsigned flags, int priority, Handle& queue)
      VMEM_EXCLUDES(driver_mutex);
  Error destroy_queue(Handle queue) VMEM_EXCLUDES(driver_mutex);
  std::shared_ptr<Queue> queue(Handle handle) VMEM_EXCLUDES(driver_mutex);
  // This thread's default stream in the context.
  std::shared_ptr<Queue> thread_queue(Context& context) VMEM_EXCLUDES(driver_mutex);
  Error synchronize(const std::shared_ptr<Queue>& queue) VMEM_EXCLUDES(driver_mutex);
  Error query(const Queue& queue) VMEM_EXCLUDES(driver_mutex);

  Error create_event(Context& context, bool timed, Handle& event) VMEM_EXCLUDES(driver_mutex);
  Error destroy_event(Handle event) VMEM_EXCLUDES(driver_mutex);
  Error record(Handle event, const std::shared_ptr<Queue>& queue) VMEM_EXCLUDES(driver_mutex);
  Error wait_event(const std::shared_ptr<Queue>& queue, Handle event) VMEM_EXCLUDES(driver_mutex);
  Error query_event(Handle event) VMEM_EXCLUDES(driver_mutex);
  Error synchronize_event(Handle event) VMEM_EXCLUDES(driver_mutex);
  Error elapsed(Handle begin, Handle end, float& milliseconds) VMEM_EXCLUDES(driver_mutex);

  // -- Captures ----------------------------------------------------------------------------------------------------

  Error begin_capture(const std::shared_ptr<Queue>& queue, CaptureMode mode) VMEM_EXCLUDES(driver_mutex);
  Error end_capture(const std::shared_ptr<Queue>& queue, Handle& graph) VMEM_EXCLUDES(driver_mutex);
  enum class CaptureStatus : std::uint8_t { kNone, kActive, kInvalidated };
  Error capture_status(const Queue& queue, CaptureStatus& status, std::uint64_t& id) VMEM_EXCLUDES(driver_mutex);
  static CaptureMode exchange_capture_mode(CaptureMode mode);
  // For the calls that are unsafe during a capture: kNone, or the capture that forbids it is now invalid.
  Error check_captures() VMEM_EXCLUDES(driver_mutex);
  Error instantiate(Handle graph, Handle& instance) VMEM_EXCLUDES(driver_mutex);
  Error launch_graph(Handle instance, const std::shared_ptr<Queue>& queue) VMEM_EXCLUDES(driver_mutex);
  Error destroy_graph(Handle graph) VMEM_EXCLUDES(driver_mutex);
  std::size_t graph_size(Handle graph) VMEM_EXCLUDES(driver_mutex);

  // -- Work --------------------------------------------------------------------------------------------------------

  // Copies by the queue's device. Where both sides are device memory and it does not see one of them, the copy goes
  // through host memory if `staged` allows it and is kInvalidValue otherwise.
  Error copy(const std::shared_ptr<Queue>& queue, Place to, Place from, std::size_t bytes, bool staged, Wait wait)
      VMEM_EXCLUDES(driver_mutex);
  // `count` elements of `width` bytes (1, 2, 4).
  Error fill(const std::shared_ptr<Queue>& queue, Address to, std::uint32_t value, unsigned width, std::size_t count,
             Wait wait) VMEM_EXCLUDES(driver_mutex);
  Error launch(const std::shared_ptr<Queue>& queue, const Function& function, const Launch& launch)
      VMEM_EXCLUDES(driver_mutex);
  Error write_value(const std::shared_ptr<Queue>& queue, Address word, std::uint64_t value, unsigned bytes)
      VMEM_EXCLUDES(driver_mutex);
  enum class Condition : std::uint8_t { kAtLeast, kEqual, kAnd, kNor };
  Error wait_value(const std::shared_ptr<Queue>& queue, Address word, std::uint64_t value, unsigned bytes,
                   Condition condition) VMEM_EXCLUDES(driver_mutex);
  Error call_host(const std::shared_ptr<Queue>& queue, void (*callback)(void*), void* argument)
      VMEM_EXCLUDES(driver_mutex);
  // As the device itself does in stream order, for calls whose work the vendor's double defines.
  Error enqueue(const std::shared_ptr<Queue>& queue, Work work, Wait wait) VMEM_EXCLUDES(driver_mutex);

  Error load_module(Context& context, const void* image, Handle& module) VMEM_EXCLUDES(driver_mutex);
  Error unload_module(Handle module) VMEM_EXCLUDES(driver_mutex);
  Error find_function(Handle module, const char* name, Handle& function) VMEM_EXCLUDES(driver_mutex);
  std::shared_ptr<Function> function(Handle handle) VMEM_EXCLUDES(driver_mutex);

  // Outlive the driver: what a test gave before a reset.
  static KernelTable& kernels();
  static FaultPlan& faults();

 private:
  struct Allocation {
    std::size_t bytes = 0;  // asked for
    std::size_t mapped_bytes = 0;
    Handle context = 0;
    int device = 0;
  };
  struct Pinned {
    std::size_t bytes = 0;
    unsigned flags = 0;
    bool allocated = false;  // by the driver
    Handle context = 0;
    Address device_address = 0;
  };

  Error make_context(int device, bool primary, unsigned flags, Handle& context) VMEM_REQUIRES(driver_mutex);
  void end_context(const std::shared_ptr<Context>& context) VMEM_REQUIRES(driver_mutex);
  bool occupy_exclusively(int device) VMEM_REQUIRES(driver_mutex);
  // Until nothing is enqueued for the device, or it fails.
  void drain(int device) VMEM_REQUIRES(driver_mutex);

  void free_allocation(Address address) VMEM_REQUIRES(driver_mutex);
  Error grant(Address begin, std::size_t bytes, int device, int owner, Protection protection)
      VMEM_REQUIRES(driver_mutex);
  void free_pinned(char* host) VMEM_REQUIRES(driver_mutex);
  Error pin(const Context& context, char* host, std::size_t bytes, unsigned flags, bool allocated)
      VMEM_REQUIRES(driver_mutex);
  const std::pair<char* const, Pinned>* pinned_at(const char* host) const VMEM_REQUIRES(driver_mutex);
  bool is_pinned(const char* host, std::size_t bytes) const VMEM_REQUIRES(driver_mutex);
  PhysicalMemory& memory_at(int location) VMEM_REQUIRES(driver_mutex);

  std::shared_ptr<Queue> make_queue(Context& context, bool blocking, unsigned flags) VMEM_REQUIRES(driver_mutex);
  // Where a queue's device finds a range; null where it may not touch all of it.
  char* reach(const Place& place, std::size_t bytes, bool write) const VMEM_REQUIRES(driver_mutex);
  // In order with the context's default stream; into the graph where the queue is captured, and then there is no
  // marker.
  Error submit(const std::shared_ptr<Queue>& queue, Work work, std::vector<std::shared_ptr<Marker>> after,
               std::shared_ptr<Marker>& marker) VMEM_REQUIRES(driver_mutex);
  Error submit_and_wait(const std::shared_ptr<Queue>& queue, Work work, Wait wait) VMEM_REQUIRES(driver_mutex);
  Error wait_captured_event(const std::shared_ptr<Queue>& queue, const Event& event) VMEM_REQUIRES(driver_mutex);
  void invalidate(Capture& capture) VMEM_REQUIRES(driver_mutex);
  // The capture of a stream that the context's default stream would have to wait for; null where there is none.
  Capture* implicit_capture(const Queue& queue) VMEM_REQUIRES(driver_mutex);
  // What has to be done before the queue's next work, besides its own.
  std::vector<std::shared_ptr<Marker>> implicit_order(const Queue& queue) VMEM_REQUIRES(driver_mutex);
  void leave_capture(Capture& capture) VMEM_REQUIRES(driver_mutex);
  // Settles for a device's side of a copy which device touches it; false where none may.
  bool settle(Place& place, std::size_t bytes, bool write, int device, bool staged) VMEM_REQUIRES(driver_mutex);
  int owner_of(Address address) const VMEM_REQUIRES(driver_mutex);
  WorkEnd run_copy(const Place& to, const Place& from, std::size_t bytes, bool corrupt) VMEM_EXCLUDES(driver_mutex);
  WorkEnd run_kernel(int device, const Kernel& kernel, const Launch& shape, const std::vector<std::byte>& values)
      VMEM_EXCLUDES(driver_mutex);
  // A pointer of the program as the device may follow it; false where the access would be illegal whatever is there.
  bool translate(int device, std::uint64_t& value, bool pointer) VMEM_REQUIRES(driver_mutex);
  // Words in host memory that the driver pinned, or in the device's.
  char* word(int device, Address address, unsigned bytes) VMEM_REQUIRES(driver_mutex);
  vmem_double_peer link(int device, int peer) const VMEM_REQUIRES(driver_mutex);

  Settings settings_;
  const Vendor& vendor_;

  FailureState failures_;  // guarded by driver_mutex, as are the next three; their members say what needs it
  Scheduler scheduler_;
  std::vector<std::unique_ptr<PhysicalMemory>> memories_;  // by device, the host's last; mappings refer to them
  AddressSpace addresses_;
  std::vector<UniqueFd> locks_ VMEM_GUARDED_BY(driver_mutex);  // of exclusive devices

  HandleTable<Context> contexts_ VMEM_GUARDED_BY(driver_mutex);
  std::set<Handle> ended_contexts_ VMEM_GUARDED_BY(driver_mutex);
  struct Primary {
    Handle context = 0;
    unsigned retains = 0;
    unsigned flags = 0;
  };
  std::vector<Primary> primaries_ VMEM_GUARDED_BY(driver_mutex);
  std::set<std::pair<int, int>> peers_ VMEM_GUARDED_BY(driver_mutex);  // (device, the peer that it sees)
  std::uint64_t peer_copies_ VMEM_GUARDED_BY(driver_mutex) = 0;
  std::uint64_t staged_copies_ VMEM_GUARDED_BY(driver_mutex) = 0;

  std::map<Address, Allocation> allocations_ VMEM_GUARDED_BY(driver_mutex);
  HandleTable<Chunk> chunks_ VMEM_GUARDED_BY(driver_mutex);
  std::map<char*, Pinned> pinned_ VMEM_GUARDED_BY(driver_mutex);

  HandleTable<Queue> queues_ VMEM_GUARDED_BY(driver_mutex);
  HandleTable<Event> events_ VMEM_GUARDED_BY(driver_mutex);
  HandleTable<Graph> graphs_ VMEM_GUARDED_BY(driver_mutex);
  std::vector<std::shared_ptr<Capture>> captures_ VMEM_GUARDED_BY(driver_mutex);
  std::uint64_t last_capture_ VMEM_GUARDED_BY(driver_mutex) = 0;
  std::uint64_t last_queue_ VMEM_GUARDED_BY(driver_mutex) = 0;

  HandleTable<Module> modules_ VMEM_GUARDED_BY(driver_mutex);
  HandleTable<Function> functions_ VMEM_GUARDED_BY(driver_mutex);
};

}  // namespace vmem::sim
