// A device whose memory is the machine's: a NUMA node, or a simulated GPU.
//
// The two differ in what `DeviceSpec` says: who may follow its addresses, what its errors call the tier, which groups
// of calls it has, and whether its copies take the time that a link would.
//
// CONCURRENCY: every member may be called from any thread. No mutex is held across a system call that can be long, nor
// while a task runs. Lock order: none of these mutexes is taken while another is held.
#pragma once

#include <vmem/backend.hpp>
#include <vmem/backend_config.hpp>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/host/fault_plan.hpp"
#include "backends/host/link_clock.hpp"
#include "backends/host/machine.hpp"
#include "backends/host/memory_file.hpp"
#include "backends/host/work_queue.hpp"

namespace vmem {

struct LinkSpec {
  double bandwidth_in;
  double bandwidth_out;
  double bandwidth_peer;
  std::chrono::nanoseconds latency;
};

struct DeviceSpec {
  DeviceInfo info;
  std::optional<LinkSpec> links;    // enforced, where there are any
  std::optional<unsigned> bind_to;  // the NUMA node that pages are taken from; empty: the system decides
  std::uint64_t alias_offset = 0;
  std::vector<Fault> faults;
};

class MemoryDevice final : public Device {
 public:
  // `machine` is shared by all devices of a backend; the last of them ends it.
  static Result<std::unique_ptr<MemoryDevice>> create(std::shared_ptr<HostMachine> machine, DeviceSpec spec);
  ~MemoryDevice() override;

  const DeviceInfo& info() const noexcept override { return spec_.info; }
  Result<MemoryInfo> memory_info() override;
  Status health() noexcept override;

  Result<void*> allocate(std::size_t bytes) override;
  Status deallocate(void* address) override;

  Result<Event> copy_from_host(void* destination, const void* host, std::size_t bytes, Stream stream) override;
  Result<Event> copy_to_host(void* host, const void* source, std::size_t bytes, Stream stream) override;
  Result<Event> copy_within(void* destination, const void* source, std::size_t bytes, Stream stream) override;
  Result<Event> fill(void* destination, std::uint8_t value, std::size_t bytes, Stream stream) override;

  Result<Stream> create_stream() override;
  Status destroy_stream(Stream stream) override;
  Status check_stream(Stream stream) override;
  Result<Event> record(Stream stream) override;
  Status wait_event(Stream stream, const Event& event) override;
  Result<bool> is_capturing(Stream stream) override;

  Result<Chunk> create_chunk(std::size_t bytes) override;
  Status destroy_chunk(const Chunk& chunk) override;
  Result<void*> reserve_window(std::size_t bytes) override;
  Status release_window(void* window, std::size_t bytes) override;
  Status map(void* address, const Chunk& chunk) override;
  Status unmap(void* address, std::size_t bytes) override;

  bool can_access_peer(const Device& peer) const noexcept override;
  Result<Event> copy_to_peer(Device& peer, void* destination, const void* source, std::size_t bytes,
                             Stream stream) override;

  Result<void*> register_host(void* host, std::size_t bytes) override;
  Status unregister_host(void* host) override;

  Status add_kernel(const KernelImage& image) override;
  Result<Event> launch(const KernelLaunch& launch, Stream stream) override;

  Status write_signal(Stream stream, std::uint32_t* word, std::uint32_t value) override;
  Status wait_signal(Stream stream, std::uint32_t* word, std::uint32_t value) override;

  Status inject(const Fault& fault) override;
  Status clear_faults() override;

 private:
  struct LiveChunk {
    std::uint64_t offset;
    std::size_t bytes;
    std::uint32_t num_mappings;
  };
  struct Registered {
    std::uintptr_t device_address;
    HostPins::Kind kind;
  };
  struct Transfer {
    TrackedRange destination;
    TrackedRange source;
    std::size_t bytes;
    // Shared with the peer whose link it is: the peer may be gone when the copy runs.
    std::shared_ptr<LinkClock> link;
    std::shared_ptr<LinkClock> peer_link;
  };
  using Faulted = std::optional<Fault>;

  MemoryDevice(std::shared_ptr<HostMachine> machine, DeviceSpec spec, std::unique_ptr<MemoryFile> file);

  Status error(StatusCode code, const std::string& message) const;
  Status lost() const;
  Status fault_status(const Fault& fault) const;
  bool has(DeviceCap cap) const noexcept { return spec_.info.caps.has(cap); }
  bool is_host() const noexcept { return spec_.info.tier == Tier::kHost; }

  // What begins every call: the device must be there, and the call's fault is decided. `enter` answers with a fault
  // that concerns the call itself, `enter_work` hands out one that is to happen when the work runs.
  Status enter(const char* call);
  Result<Faulted> enter_work(const char* call, CallKind kind);
  void lose() noexcept;

  // memory_device.cpp: capacity
  Status charge(std::size_t bytes);
  void refund(std::size_t bytes) { used_bytes_.fetch_sub(bytes); }
  // memory_device_map.cpp: addresses
  Result<std::uintptr_t> reserve_addresses(std::size_t bytes);
  Status place(std::uintptr_t address, const MappedBytes& memory);
  void place_nothing(std::uintptr_t address, std::size_t bytes);
  Result<void*> alias(std::uintptr_t host, std::size_t bytes);
  void remove_alias(std::uintptr_t address);
  HostPins::Kind pin_kind(std::uintptr_t begin, std::size_t bytes) const;

  // memory_device_work.cpp: streams
  Result<TrackedRange> locate(const void* address, std::size_t bytes) const;
  Result<TrackedRange> locate_host(const void* address, std::size_t bytes) const;
  Result<std::shared_ptr<WorkQueue>> queue_of(Stream stream);
  // Runs the task on the stream, or at once where there is none.
  Result<Event> submit(Stream stream, const Faulted& fault, WorkQueue::Task task);
  Result<Event> submit_transfer(Transfer transfer, Stream stream, const Faulted& fault);
  Status run_transfer(WorkContext& context, const Transfer& transfer, bool corrupt);
  Event hanging_event();
  // A word that the device can touch: its own memory or registered host memory.
  Result<TrackedRange> find_signal(const std::uint32_t* word) const;
  std::vector<std::shared_ptr<WorkQueue>> queues();

  const std::shared_ptr<HostMachine> machine_;
  const DeviceSpec spec_;
  const std::unique_ptr<MemoryFile> file_;
  const OwnerId owner_;
  // Null where links are not enforced.
  std::shared_ptr<LinkClock> link_in_, link_out_, peer_in_, peer_out_;
  std::atomic<double> copy_rate_{5e9};  // of this machine's memcpy, bytes per second; kept by run_transfer

  std::atomic<std::uint64_t> used_bytes_{0};
  std::atomic<bool> lost_{false};
  FaultPlan faults_;

  Mutex chunks_mutex_;
  std::uint64_t next_chunk_ VMEM_GUARDED_BY(chunks_mutex_) = 1;
  std::unordered_map<std::uint64_t, LiveChunk> chunks_ VMEM_GUARDED_BY(chunks_mutex_);
  std::unordered_map<std::uintptr_t, std::uint64_t> mapped_chunks_ VMEM_GUARDED_BY(chunks_mutex_);  // by address

  Mutex host_mutex_;
  std::map<std::uintptr_t, Registered> registered_ VMEM_GUARDED_BY(host_mutex_);  // by host address

  Mutex streams_mutex_;
  // Shared: a call may be enqueueing while another destroys the stream.
  std::unordered_map<void*, std::shared_ptr<WorkQueue>> streams_ VMEM_GUARDED_BY(streams_mutex_);
  // Events of calls without a stream that hang.
  std::vector<std::shared_ptr<Completion>> hanging_ VMEM_GUARDED_BY(streams_mutex_);

  Mutex kernels_mutex_;
  std::unordered_map<std::string, KernelBody> kernels_ VMEM_GUARDED_BY(kernels_mutex_);
};

}  // namespace vmem
