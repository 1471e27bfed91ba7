// A device that keeps account of what it gave: for tests of what the frame store takes and gives back.
#pragma once

#include <vmem/backend.hpp>

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace vmem::test {

class FakeDevice final : public Device {
 private:
  template <typename Function>
  auto locked(Function function) const {
    std::lock_guard lock(mutex_);
    return function();
  }

 public:
  struct Options {
    bool has_virtual_memory = true;
    Tier tier = Tier::kDevice;
    std::size_t total_bytes = 0;
    std::size_t granularity = std::size_t{2} << 20U;
  };

  explicit FakeDevice(const Options& options) : free_(options.total_bytes) {
    info_.name = "fake:0";
    info_.tier = options.tier;
    info_.total_bytes = options.total_bytes;
    info_.granularity = options.granularity;
    if (options.has_virtual_memory) info_.caps = info_.caps.with(DeviceCap::kVirtualMemory);
  }

  // The call after `calls` more fails once, with the code.
  void fail_after(std::uint64_t calls, StatusCode code) {
    std::lock_guard lock(mutex_);
    fail_at_ = num_calls_ + calls;
    fail_code_ = code;
  }
  // Another process takes bytes (negative: gives them back).
  void take_outside(std::int64_t bytes) {
    std::lock_guard lock(mutex_);
    free_ -= static_cast<std::size_t>(bytes);
  }
  bool fault_is_pending() const {
    return locked([this] { return fail_at_.has_value(); });
  }
  std::uint64_t num_calls() const {
    return locked([this] { return num_calls_; });
  }
  std::size_t num_chunks() const {
    return locked([this] { return chunks_.size(); });
  }
  std::size_t num_slabs() const {
    return locked([this] { return slabs_.size(); });
  }
  std::size_t num_windows() const {
    return locked([this] { return windows_.size(); });
  }
  std::size_t num_mappings() const {
    return locked([this] { return mappings_.size(); });
  }
  std::size_t most_bytes() const {
    return locked([this] { return most_; });
  }
  std::size_t held_bytes() const {
    return locked([this] { return held_; });
  }

  const DeviceInfo& info() const noexcept override { return info_; }
  Result<MemoryInfo> memory_info() override {
    return MemoryInfo{locked([this] { return free_; }), info_.total_bytes};
  }
  Status health() noexcept override { return {}; }

  Result<void*> allocate(std::size_t bytes) override {
    std::lock_guard lock(mutex_);
    if (Status status = enter(); !status) return status;
    if (bytes > free_) return out_of_memory();
    void* const address = std::aligned_alloc(info_.granularity, bytes);
    slabs_[address] = bytes;
    take(bytes);
    return address;
  }
  Status deallocate(void* address) override {
    std::lock_guard lock(mutex_);
    VMEM_RETURN_IF_ERROR(enter());
    const auto slab = slabs_.find(address);
    if (slab == slabs_.end()) return wrong("no such slab");
    give(slab->second);
    slabs_.erase(slab);
    std::free(address);
    return {};
  }
  Result<Chunk> create_chunk(std::size_t bytes) override {
    std::lock_guard lock(mutex_);
    if (Status status = enter(); !status) return status;
    if (bytes == 0 || bytes % info_.granularity != 0) return wrong("chunk size");
    if (bytes > free_) return out_of_memory();
    take(bytes);
    chunks_[++last_handle_] = bytes;
    return Chunk{last_handle_, bytes};
  }
  Status destroy_chunk(const Chunk& chunk) override {
    std::lock_guard lock(mutex_);
    VMEM_RETURN_IF_ERROR(enter());
    const auto found = chunks_.find(chunk.handle);
    if (found == chunks_.end() || found->second != chunk.bytes) return wrong("no such chunk");
    for (const auto& [address, handle] : mappings_) {
      if (handle == chunk.handle) return wrong("the chunk is mapped");
    }
    give(chunk.bytes);
    chunks_.erase(found);
    return {};
  }
  Result<void*> reserve_window(std::size_t bytes) override {
    std::lock_guard lock(mutex_);
    if (Status status = enter(); !status) return status;
    void* const address = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) return out_of_memory();
    windows_[address] = bytes;
    return address;
  }
  Status release_window(void* window, std::size_t bytes) override {
    std::lock_guard lock(mutex_);
    VMEM_RETURN_IF_ERROR(enter());
    const auto found = windows_.find(window);
    if (found == windows_.end() || found->second != bytes) return wrong("no such window");
    ::munmap(window, bytes);
    windows_.erase(found);
    return {};
  }
  Status map(void* address, const Chunk& chunk) override {
    std::lock_guard lock(mutex_);
    VMEM_RETURN_IF_ERROR(enter());
    if (!chunks_.contains(chunk.handle) || !mappings_.emplace(address, chunk.handle).second) return wrong("map");
    return {};
  }
  Status unmap(void* address, std::size_t bytes) override {
    std::lock_guard lock(mutex_);
    VMEM_RETURN_IF_ERROR(enter());
    const auto found = mappings_.find(address);
    if (found == mappings_.end() || chunks_.at(found->second) != bytes) return wrong("unmap");
    mappings_.erase(found);
    return {};
  }

  Result<Event> copy_from_host(void*, const void*, std::size_t, Stream) override { return wrong("copy"); }
  Result<Event> copy_to_host(void*, const void*, std::size_t, Stream) override { return wrong("copy"); }
  Result<Event> copy_within(void*, const void*, std::size_t, Stream) override { return wrong("copy"); }
  Result<Event> fill(void*, std::uint8_t, std::size_t, Stream) override { return wrong("fill"); }
  Result<Stream> create_stream() override { return wrong("stream"); }
  Status destroy_stream(Stream) override { return wrong("stream"); }
  Status check_stream(Stream) override { return wrong("stream"); }
  Result<Event> record(Stream) override { return wrong("stream"); }
  Status wait_event(Stream, const Event&) override { return wrong("stream"); }
  Result<bool> is_capturing(Stream) override { return false; }

 private:
  Status enter() {
    if (num_calls_++ != fail_at_) return {};
    fail_at_.reset();
    return Status(fail_code_, "injected").with_driver(2, "FAKE_ERROR");
  }
  Status out_of_memory() const {
    return Status(info_.tier == Tier::kHost ? StatusCode::kOutOfHostMemory : StatusCode::kOutOfDeviceMemory, "full")
        .with_driver(2, "FAKE_OUT_OF_MEMORY");
  }
  static Status wrong(const std::string& what) { return Status(StatusCode::kInvalidValue, what); }
  void take(std::size_t bytes) {
    free_ -= bytes;
    held_ += bytes;
    most_ = held_ > most_ ? held_ : most_;
  }
  void give(std::size_t bytes) {
    free_ += bytes;
    held_ -= bytes;
  }

  DeviceInfo info_;
  mutable std::mutex mutex_;
  std::size_t free_;
  std::size_t held_ = 0;
  std::size_t most_ = 0;
  std::map<std::uint64_t, std::size_t> chunks_;
  std::map<void*, std::size_t> slabs_;
  std::map<void*, std::size_t> windows_;
  std::map<void*, std::uint64_t> mappings_;
  std::uint64_t last_handle_ = 0;
  std::uint64_t num_calls_ = 0;
  std::optional<std::uint64_t> fail_at_;
  StatusCode fail_code_ = StatusCode::kInternal;
};

}  // namespace vmem::test
