// What the tests of a whole pool share: a machine made for the test, buffers with known bytes, a stream that is held.
#pragma once

#include <gtest/gtest.h>
#include <vmem/pool.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/pool_machine.hpp"

namespace vmem::test {

using Bytes = std::vector<std::uint8_t>;

inline constexpr std::size_t kBlock = 64_KiB;
inline constexpr std::size_t kUsableBlocks = 7;  // of a GPU with eight: one is kept spare

inline constexpr std::uint32_t kAllCaps = 0x3F;
inline constexpr std::uint32_t kNoWindows = kAllCaps & ~static_cast<std::uint32_t>(DeviceCap::kVirtualMemory);
inline constexpr std::uint32_t kNoCaps = static_cast<std::uint32_t>(DeviceCap::kFaultInjection);

// Gives other threads the processor until what they do is seen; a test that waits in vain runs into its time limit.
inline void wait_until(const std::function<bool()>& seen) {
  while (!seen()) std::this_thread::yield();
}

class PoolTest : public ::testing::Test {
 protected:
  using Milliseconds = std::chrono::milliseconds;

  static PoolMachineSpec spec_of(std::uint32_t caps, bool two_vendors = false) {
    PoolMachineSpec spec;
    spec.caps = DeviceCaps(caps);
    if (two_vendors) spec.vendors = {"one", "another"};
    return spec;
  }
  static PoolMachineSpec one_gpu() {
    PoolMachineSpec spec;
    spec.gpu_bytes = {8 * kBlock};
    return spec;
  }

  // REQUIRES: called once, before anything else.
  void make(const PoolMachineSpec& spec = {}) { machine_ = std::make_unique<PoolMachine>(spec); }
  PoolMachine& machine() { return *machine_; }
  Pool& pool() { return machine_->pool(); }
  DeviceIndex host() const { return machine_->host(); }
  const std::string& name_of(DeviceIndex device) const { return machine_->topology().devices()[device].info.name; }

  Buffer allocate(std::size_t bytes, const BufferOptions& options = {}) {
    auto buffer = pool().allocate(bytes, options);
    EXPECT_TRUE(buffer.has_value()) << buffer.error().to_string();
    return buffer ? std::move(*buffer) : Buffer();
  }
  // A buffer whose bytes are known.
  Buffer filled(std::size_t bytes, std::uint64_t seed) {
    Buffer buffer = allocate(bytes);
    const Bytes pattern = test_pattern(bytes, seed);
    const Status status = pool().copy_in(buffer.address(), pattern.data(), bytes);
    EXPECT_TRUE(status.is_ok()) << status.to_string();
    return buffer;
  }
  // The same with its bytes on one device alone, where they were written.
  Buffer filled_on(DeviceIndex device, std::size_t bytes, std::uint64_t seed) {
    Buffer buffer = allocate(bytes);
    const Bytes pattern = test_pattern(bytes, seed);
    for (std::size_t offset = 0; offset < bytes; offset += kBlock) {
      const std::size_t count = std::min(kBlock, bytes - offset);
      auto acquired = acquire(buffer.range(offset, count, Access::kWriteDiscard), device);
      EXPECT_TRUE(acquired.has_value()) << acquired.error().to_string();
      if (!acquired) return buffer;
      write(device, acquired->data(), pattern.data() + offset, count);
      EXPECT_TRUE(acquired->release().is_ok());
    }
    return buffer;
  }

  Result<Acquired> acquire(const std::vector<AcquireRange>& ranges, DeviceIndex device, Stream stream = {},
                           Milliseconds deadline = Milliseconds(0)) {
    AcquireOptions options;
    options.device = device;
    options.stream = stream;
    options.deadline = deadline;
    return pool().acquire(ranges, options);
  }
  Result<Acquired> acquire(const AcquireRange& range, DeviceIndex device, Stream stream = {},
                           Milliseconds deadline = Milliseconds(0)) {
    return acquire(std::vector<AcquireRange>{range}, device, stream, deadline);
  }
  // Acquires and releases.
  Status fetch(const AcquireRange& range, DeviceIndex device) {
    VMEM_ASSIGN_OR_RETURN(Acquired acquired, acquire(range, device));
    return acquired.release();
  }

  Bytes read(DeviceIndex device, const void* address, std::size_t bytes) {
    Bytes found(bytes);
    auto event = machine_->device(device).inner().copy_to_host(found.data(), address, bytes, Stream());
    EXPECT_TRUE(event.has_value() && event->wait().is_ok());
    return found;
  }
  void write(DeviceIndex device, void* address, const std::uint8_t* bytes, std::size_t count) {
    auto event = machine_->device(device).inner().copy_from_host(address, bytes, count, Stream());
    EXPECT_TRUE(event.has_value() && event->wait().is_ok());
  }
  void fill(DeviceIndex device, void* address, std::uint8_t value, std::size_t bytes, Stream stream = {}) {
    auto event = machine_->device(device).inner().fill(address, value, bytes, stream);
    ASSERT_TRUE(event.has_value()) << event.error().to_string();
    if (!stream.has_value()) {
      EXPECT_TRUE(event->wait().is_ok());
    }
  }

  Bytes bytes_of(const Buffer& buffer) {
    Bytes found(buffer.bytes());
    const Status status = pool().copy_out(found.data(), buffer.address(), found.size());
    EXPECT_TRUE(status.is_ok()) << status.to_string();
    return found;
  }
  // Names the first byte that differs instead of printing all.
  static void expect_same(const Bytes& found, const Bytes& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(int{found[i]}, int{expected[i]}) << "byte " << i;
  }
  void expect_pattern(const Buffer& buffer, std::uint64_t seed) {
    expect_same(bytes_of(buffer), test_pattern(buffer.bytes(), seed));
  }

  std::uint32_t references(const Buffer& buffer) { return pool().translate(buffer.address())->reference_count; }
  std::size_t resident(const Buffer& buffer, DeviceIndex device) {
    return pool().residency(buffer.address(), buffer.bytes())->at(device);
  }
  // What moved between two devices so far.
  MoveStats moved(DeviceIndex from, DeviceIndex to) {
    for (const MoveStats& move : pool().stats().moves) {
      if (move.from == name_of(from) && move.to == name_of(to)) return move;
    }
    return {};
  }
  std::uint64_t waits() { return pool().stats().waits; }

  std::unique_ptr<PoolMachine> machine_;
};

// A stream whose work waits until the gate is opened.
class HeldStream {
 public:
  explicit HeldStream(Device& device) : device_(device) {
    auto word = device_.allocate(device_.info().granularity);
    EXPECT_TRUE(word.has_value());
    word_ = static_cast<std::uint32_t*>(*word);
    auto cleared = device_.fill(word_, 0, sizeof *word_, Stream());
    EXPECT_TRUE(cleared.has_value() && cleared->wait().is_ok());
    auto stream = device_.create_stream();
    EXPECT_TRUE(stream.has_value());
    stream_ = *stream;
    EXPECT_TRUE(device_.wait_signal(stream_, word_, 1).is_ok());
  }
  ~HeldStream() {
    open();
    EXPECT_TRUE(device_.destroy_stream(stream_).is_ok());
    EXPECT_TRUE(device_.deallocate(word_).is_ok());
  }
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;

  Stream stream() const { return stream_; }
  bool is_open() const { return open_.load(); }
  void open() {
    open_.store(true);
    std::atomic_ref<std::uint32_t>(*word_).store(1, std::memory_order_release);
  }

 private:
  Device& device_;
  std::uint32_t* word_ = nullptr;
  Stream stream_;
  std::atomic<bool> open_{false};
};

// Stops the calls of one name on a device until it is opened.
class CallGate {
 public:
  CallGate(FaultControl& control, std::string call) : control_(control) {
    control_.set_hook([state = state_, call = std::move(call)](std::string_view name) {
      if (name != call) return;
      MutexLock lock(state->mutex);
      state->reached = true;
      state->changed.notify_all();
      while (!state->open) state->changed.wait(state->mutex);
    });
  }
  ~CallGate() {
    open();
    control_.set_hook(nullptr);
  }
  CallGate(const CallGate&) = delete;
  CallGate& operator=(const CallGate&) = delete;

  // Waits until a call has come.
  void wait_for_call() {
    MutexLock lock(state_->mutex);
    while (!state_->reached) state_->changed.wait(state_->mutex);
  }
  bool is_open() const {
    MutexLock lock(state_->mutex);
    return state_->open;
  }
  void open() {
    MutexLock lock(state_->mutex);
    state_->open = true;
    state_->changed.notify_all();
  }

 private:
  struct State {
    Mutex mutex;
    CondVar changed;
    bool reached VMEM_GUARDED_BY(mutex) = false;
    bool open VMEM_GUARDED_BY(mutex) = false;
  };

  FaultControl& control_;
  std::shared_ptr<State> state_ = std::make_shared<State>();  // shared with the hook, which may be running
};

}  // namespace vmem::test
