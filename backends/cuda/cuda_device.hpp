// One NVIDIA GPU (or MIG instance) through the driver API.
//
// Chunks are the driver's physical allocations, windows its address reservations, streams its streams. Work is followed
// by an event of a stock that is recorded behind it. A call without a stream uses one of the device's own and asks for
// its end.
//
// CONCURRENCY: every member may be called from any thread. No mutex is held across a call of the driver, but for the
// host registry's and that of an event whose order is set.
#pragma once

#include <vmem/backend.hpp>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backends/cuda/driver_call.hpp"
#include "backends/cuda/kernel_set.hpp"
#include "backends/cuda/machine.hpp"
#include "backends/cuda/memory_map.hpp"

namespace vmem {

class CudaDevice final : public Device {
 public:
  // The ordinal-th device as the driver counts: CUDA_VISIBLE_DEVICES is the driver's to read.
  static Result<std::unique_ptr<CudaDevice>> create(std::shared_ptr<CudaMachine> machine,
                                                    std::shared_ptr<KernelCompiler> compiler, int ordinal);
  ~CudaDevice() override;

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

  // For the backend, before the device is handed over: this device may follow pointers to the peer's memory, which is
  // what makes it copy there straight. kUnsupported where the driver refuses.
  Status enable_peer(CudaDevice& peer);
  CudaContext& context() const noexcept { return *context_; }

 private:
  CudaDevice(std::shared_ptr<CudaContext> context, std::shared_ptr<KernelCompiler> compiler, DeviceInfo info,
             std::unique_ptr<KernelSet> kernels, bool integrated);

  const CudaDriver& driver() const noexcept { return context_->driver(); }
  bool has(DeviceCap cap) const noexcept { return info_.caps.has(cap); }
  Status error(StatusCode code, std::string message) const;
  Status check(CuResult result, const char* call) const { return context_->check(result, call); }
  CuMemAllocationProp chunk_properties() const noexcept;

  // Success where all of the range is memory that the device may touch: its own, registered host memory, or what the
  // driver knows the application to hold. REQUIRES: the context is current.
  Status locate(const void* address, std::size_t bytes, const char* call);
  Status ask_driver(std::uint64_t address, std::size_t bytes, const char* call);
  // The driver's handle of a stream that work may be enqueued on. REQUIRES: the context is current.
  Result<CuStream> native_of(Stream stream);
  // `native_of`, on a stream that is not being captured.
  Result<CuStream> working(Stream stream);
  Result<bool> capturing(CuStream stream);
  // Enqueues on the stream and answers with the event behind it; without a stream, waits for the end.
  template <typename Work>
  Result<Event> submit(Stream stream, const char* call, const Work& work);
  Result<Event> record_behind(CuStream stream);
  Status drain(CuStream stream, std::chrono::nanoseconds patience);
  Result<CuStream> take_stream();
  // Makes the first stream, and the event by which `health` asks.
  Status start();
  Result<CuDevicePtr> allocate_aligned(std::size_t bytes, CuDevicePtr& base);
  Status out_of_memory(std::size_t bytes, const Status& cause);
  Status grant_access(CuDevicePtr address, std::size_t bytes);
  Status signal(Stream stream, std::uint32_t* word, std::uint32_t value, bool write);
  void release_everything() noexcept;

  const std::shared_ptr<CudaContext> context_;  // shared with the events of its work
  // Shared by the devices of a backend; the kernels' images are the same for all of a kind.
  const std::shared_ptr<KernelCompiler> compiler_;
  const DeviceInfo info_;
  const std::unique_ptr<KernelSet> kernels_;  // null without kKernels
  MemoryMap memory_;
  std::set<const Device*> peers_;    // that this device reaches; constant once the backend has handed it over
  std::vector<CuDevice> mapped_by_;  // devices that reach this one, and this one; constant likewise
  const bool integrated_;            // its memory is the machine's
  CuEvent heartbeat_ = nullptr;      // done since the start: asking for it tells what ails the context
};

}  // namespace vmem
