// A device around any other that misbehaves on demand and counts its calls.
//
// A test keeps the `FaultControl`; the pool owns the device. With nothing injected, every call goes through unchanged,
// events included.
#pragma once

#include <vmem/backend.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/support/thread_annotations.hpp"

namespace vmem {

class FaultyDevice;
class StuckEvent;

// Thread contract: every member may be called from any thread. Outlives its device.
class FaultControl {
 public:
  // Where kFail of a copy, fill, launch or record shows: drivers report either way.
  enum class FailAt : std::uint8_t { kCall, kCompletion };

  // Faults are backend.hpp's. kHang: work enqueued later on the same stream does not complete either.
  void inject(const Fault& fault) VMEM_EXCLUDES(mutex_);
  // The `index`-th call from now (0: the next) of whatever name fails.
  void fail_call(std::uint64_t index, StatusCode code = StatusCode::kInternal);
  void set_fail_at(FailAt where) VMEM_EXCLUDES(mutex_);
  // Drops faults that have not happened; what hangs completes with kTimeout. A lost device stays lost.
  void clear() VMEM_EXCLUDES(mutex_);
  // The device is lost from now on; what hangs completes with kDeviceFailed.
  void vanish() VMEM_EXCLUDES(mutex_);
  bool lost() const VMEM_EXCLUDES(mutex_);

  // Calls so far, faulted ones included; `info` and `can_access_peer` are not counted.
  std::uint64_t num_calls() const VMEM_EXCLUDES(mutex_);
  std::uint64_t num_calls(std::string_view call) const VMEM_EXCLUDES(mutex_);
  // Faults that happened.
  std::uint64_t num_faults() const VMEM_EXCLUDES(mutex_);
  std::uint64_t num_hanging() const VMEM_EXCLUDES(mutex_);
  void reset_counts() VMEM_EXCLUDES(mutex_);

  // `is_capturing` answers true for the stream; no stream: for none.
  void set_capturing(Stream stream) VMEM_EXCLUDES(mutex_);
  bool is_capturing(Stream stream) const VMEM_EXCLUDES(mutex_);

  // Called before each call is passed on, from the calling thread, with no mutex held: a test may block there, or
  // change the faults.
  void set_hook(std::function<void(std::string_view call)> hook) VMEM_EXCLUDES(mutex_);

 private:
  friend class FaultyDevice;

  struct Decision {
    enum class Kind : std::uint8_t { kNone, kFailCall, kFailEvent, kHang, kCorrupt, kLost } kind = Kind::kNone;
    StatusCode code = StatusCode::kOk;
  };

  Decision enter(std::string_view call, bool is_work, bool is_data) VMEM_EXCLUDES(mutex_);
  Decision decide(std::string_view call, bool is_work, bool is_data) VMEM_REQUIRES(mutex_);
  std::shared_ptr<StuckEvent> add_stuck(Stream stream) VMEM_EXCLUDES(mutex_);
  bool is_stuck(Stream stream) const VMEM_EXCLUDES(mutex_);
  // What the stream waited for is over: it completes and the stream goes on.
  void unstick(const std::shared_ptr<StuckEvent>& event) VMEM_EXCLUDES(mutex_);
  // The events of one stream, or of all, complete with `status`.
  void finish_stuck(Stream stream, const Status& status) VMEM_EXCLUDES(mutex_);

  mutable Mutex mutex_;
  std::vector<Fault> faults_ VMEM_GUARDED_BY(mutex_);
  FailAt fail_at_ VMEM_GUARDED_BY(mutex_) = FailAt::kCompletion;
  bool lost_ VMEM_GUARDED_BY(mutex_) = false;
  std::map<std::string, std::uint64_t, std::less<>> counts_ VMEM_GUARDED_BY(mutex_);
  std::uint64_t num_faults_ VMEM_GUARDED_BY(mutex_) = 0;
  std::function<void(std::string_view)> hook_ VMEM_GUARDED_BY(mutex_);
  Stream capturing_ VMEM_GUARDED_BY(mutex_);
  std::vector<std::pair<Stream, std::shared_ptr<StuckEvent>>> stuck_ VMEM_GUARDED_BY(mutex_);
};

class FaultyDevice final : public Device {
 public:
  // `control` is shared with the test.
  FaultyDevice(std::unique_ptr<Device> device, std::shared_ptr<FaultControl> control);
  ~FaultyDevice() override;

  Device& inner() noexcept { return *device_; }
  const std::shared_ptr<FaultControl>& control() const noexcept { return control_; }

  const DeviceInfo& info() const noexcept override { return info_; }
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
  using Decision = FaultControl::Decision;
  using Corrupt = std::function<Status(const Event& done)>;

  Status failure(const Decision& decision, std::string_view call) const;
  // Status of a call that has no event.
  Status enter(std::string_view call);
  // Passes work on, or does what was decided for it. `corrupt` changes a byte; null for work that moves no bytes.
  Result<Event> work(std::string_view call, Stream stream, const std::function<Result<Event>()>& pass,
                     const Corrupt& corrupt);
  Result<Event> stuck_event(Stream stream);

  const std::unique_ptr<Device> device_;
  const std::shared_ptr<FaultControl> control_;
  DeviceInfo info_;
};

// True while the calling thread is in a call of any of these devices.
bool is_in_device_call() noexcept;

// Wraps a device; without a control it makes one.
std::unique_ptr<FaultyDevice> make_faulty(std::unique_ptr<Device> device,
                                          std::shared_ptr<FaultControl> control = nullptr);

}  // namespace vmem
