// One of the parts that the topology file splits a card into: a Device with a capacity of its own.
#pragma once

#include <vmem/backend.hpp>

#include <cstdint>
#include <unordered_map>

#include "runtime/support/thread_annotations.hpp"

namespace vmem {

// Counts what is taken through it and hands everything else to the card's device. Streams are the card's: valid on each
// of its parts. It has no peer access, so that parts stand for cards that can't see each other.
//
// Thread contract: as Device.
class LogicalDevice final : public Device {
 public:
  // `card` outlives it. `info` is the topology's: name, partition and total_bytes (the capacity) are the part's.
  LogicalDevice(Device& card, DeviceInfo info);

  const DeviceInfo& info() const noexcept override { return info_; }
  Result<MemoryInfo> memory_info() override;
  Status health() noexcept override { return card_.health(); }

  Result<void*> allocate(std::size_t bytes) override;
  Status deallocate(void* address) override;

  Result<Event> copy_from_host(void* destination, const void* host, std::size_t bytes, Stream stream) override;
  Result<Event> copy_to_host(void* host, const void* source, std::size_t bytes, Stream stream) override;
  Result<Event> copy_within(void* destination, const void* source, std::size_t bytes, Stream stream) override;
  Result<Event> fill(void* destination, std::uint8_t value, std::size_t bytes, Stream stream) override;

  Result<Stream> create_stream() override { return card_.create_stream(); }
  Status destroy_stream(Stream stream) override { return card_.destroy_stream(stream); }
  Status check_stream(Stream stream) override { return card_.check_stream(stream); }
  Result<Event> record(Stream stream) override { return card_.record(stream); }
  Status wait_event(Stream stream, const Event& event) override { return card_.wait_event(stream, event); }
  Result<bool> is_capturing(Stream stream) override { return card_.is_capturing(stream); }

  Result<Chunk> create_chunk(std::size_t bytes) override;
  Status destroy_chunk(const Chunk& chunk) override;
  Result<void*> reserve_window(std::size_t bytes) override { return card_.reserve_window(bytes); }
  Status release_window(void* window, std::size_t bytes) override { return card_.release_window(window, bytes); }
  Status map(void* address, const Chunk& chunk) override { return card_.map(address, chunk); }
  Status unmap(void* address, std::size_t bytes) override { return card_.unmap(address, bytes); }

  Result<void*> register_host(void* host, std::size_t bytes) override { return card_.register_host(host, bytes); }
  Status unregister_host(void* host) override { return card_.unregister_host(host); }

  Status add_kernel(const KernelImage& image) override { return card_.add_kernel(image); }
  Result<Event> launch(const KernelLaunch& launch, Stream stream) override { return card_.launch(launch, stream); }

  Status write_signal(Stream stream, std::uint32_t* word, std::uint32_t value) override;
  Status wait_signal(Stream stream, std::uint32_t* word, std::uint32_t value) override;

  Status inject(const Fault& fault) override { return card_.inject(fault); }
  Status clear_faults() override { return card_.clear_faults(); }

 private:
  // Counts bytes in before the card is asked, so that two threads can't both get the last of them; answers with how
  // many.
  Result<std::size_t> take(std::size_t bytes) VMEM_EXCLUDES(mutex_);
  void give_back(std::size_t taken) VMEM_EXCLUDES(mutex_);

  Device& card_;
  const DeviceInfo info_;
  Mutex mutex_;
  std::uint64_t used_ VMEM_GUARDED_BY(mutex_) = 0;
  std::unordered_map<void*, std::size_t> allocations_ VMEM_GUARDED_BY(mutex_);
  std::unordered_map<std::uint64_t, std::size_t> chunks_ VMEM_GUARDED_BY(mutex_);
};

}  // namespace vmem
