// Many threads that do whatever they like to the same buffers, with arguments that are often wrong: each call answers
// with a status that fits, nobody's own bytes change, and in the end everything can be freed.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <deque>
#include <optional>
#include <random>
#include <thread>

#include "runtime/support/thread_annotations.hpp"
#include "tests/support/pool_machine.hpp"

namespace vmem {
namespace {

using Random = std::mt19937_64;
constexpr std::size_t kBlock = 64_KiB;

struct HostileCase {
  const char* name;
  std::uint32_t caps;
  bool two_vendors;
  bool faults;
};

// What the threads share: addresses that may be freed by now, and acquires that any of them may release.
class Commons {
 public:
  struct Entry {
    PoolAddress address = 0;
    std::size_t bytes = 0;
  };

  Entry entry(std::size_t slot) {
    MutexLock lock(mutex_);
    return entries_[slot % kSlots];
  }
  void put(std::size_t slot, Entry entry) {
    MutexLock lock(mutex_);
    std::swap(entries_[slot % kSlots], entry);
    if (entry.address != 0) replaced_.push_back(entry);
  }
  void put(Acquired acquired) {
    MutexLock lock(mutex_);
    acquired_.push_back(std::move(acquired));
  }
  std::optional<Acquired> take(std::size_t most) {
    MutexLock lock(mutex_);
    if (acquired_.size() <= most) return std::nullopt;
    Acquired acquired = std::move(acquired_.front());
    acquired_.pop_front();
    return acquired;
  }
  std::vector<Entry> all() {
    MutexLock lock(mutex_);
    std::vector<Entry> all = replaced_;
    all.insert(all.end(), entries_.begin(), entries_.end());
    return all;
  }

 private:
  static constexpr std::size_t kSlots = 6;
  Mutex mutex_;
  std::array<Entry, kSlots> entries_ VMEM_GUARDED_BY(mutex_);
  std::vector<Entry> replaced_ VMEM_GUARDED_BY(mutex_);  // nobody looks for them any more, but for their free
  std::deque<Acquired> acquired_ VMEM_GUARDED_BY(mutex_);
};

class HostileThread {
 public:
  HostileThread(PoolMachine& machine, Commons& commons, std::uint64_t seed, bool faults)
      : machine_(machine), pool_(machine.pool()), commons_(commons), random_(seed), faults_(faults) {
    for (DeviceIndex i = 0; i < machine.num_devices(); ++i) {
      streams_.push_back(*machine.device(i).inner().create_stream());
    }
    for (const std::size_t bytes : {std::size_t{3000}, kBlock, 2 * kBlock + 77}) {
      auto buffer = pool_.allocate(bytes);
      EXPECT_TRUE(buffer.has_value());
      own_.push_back({std::move(*buffer), test_pattern(bytes, random_())});
      EXPECT_TRUE(pool_.copy_in(own_.back().buffer.address(), own_.back().bytes.data(), bytes).is_ok());
    }
  }
  ~HostileThread() {
    for (DeviceIndex i = 0; i < machine_.num_devices(); ++i) {
      EXPECT_TRUE(machine_.device(i).inner().destroy_stream(streams_[i]).is_ok());
    }
  }

  void run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) step();
  }

 private:
  std::size_t below(std::size_t bound) { return random_() % bound; }

  void step() {
    if (faults_ && below(8) == 0) inject();
    switch (below(16)) {
      case 0:
      case 1:
        return allocate();
      case 2:
        return expect(pool_.free(any_range().address), "free");
      case 3:
      case 4:
      case 5:
      case 6:
        return acquire();
      case 7:
        if (auto acquired = commons_.take(0)) expect(acquired->release(), "release");
        return;
      case 8:
        return prefetch();
      case 9:
        return advise();
      case 10:
        return copies();
      case 11:
        return look_at_own();
      default:
        return look();
    }
  }

  // Not those that give back: a driver that refuses to take memory back keeps it.
  void inject() {
    static constexpr const char* kCalls[] = {"copy_from_host", "copy_to_host", "copy_to_peer",   "copy_within",
                                             "fill",           "create_chunk", "allocate",       "map",
                                             "record",         "wait_event",   "reserve_window", "launch",
                                             "check_stream"};
    Fault fault;
    fault.call = kCalls[below(std::size(kCalls))];
    fault.after = below(4);
    fault.code = StatusCode::kIoError;
    machine_.faults(below(machine_.num_devices())).inject(fault);
  }

  // What a status may say where arguments are arbitrary, buffers vanish and memory is short.
  void expect(const Status& status, const char* what) {
    switch (status.code()) {
      case StatusCode::kOk:
      case StatusCode::kInvalidValue:
      case StatusCode::kBusy:
      case StatusCode::kCancelled:
      case StatusCode::kOutOfDeviceMemory:
      case StatusCode::kOutOfHostMemory:
      case StatusCode::kOutOfAddresses:
      case StatusCode::kUnsupported:
        return;
      default:
        if (!faults_) ADD_FAILURE() << what << ": " << status.to_string();
    }
  }

  AcquireRange any_range() {
    static constexpr std::size_t kOdd[] = {0, 1, SIZE_MAX, std::size_t{1} << 63U, SIZE_MAX - kPageBytes};
    const Commons::Entry entry = commons_.entry(below(8));
    AcquireRange range{entry.address, entry.bytes, static_cast<Access>(below(3))};
    if (entry.bytes != 0 && below(3) != 0) {
      const std::size_t offset = below(entry.bytes);
      range.address += offset;
      range.bytes = 1 + below(entry.bytes - offset);
    }
    if (below(20) == 0) range.bytes = kOdd[below(std::size(kOdd))];
    if (below(20) == 0) range.address += random_();
    if (below(40) == 0) range.access = static_cast<Access>(random_());
    return range;
  }
  DeviceIndex any_device() { return below(30) == 0 ? random_() : below(machine_.num_devices()); }

  void allocate() {
    static constexpr std::size_t kSizes[] = {0, 1, 5000, 20'000, kBlock / 2 + 1, kBlock, 3 * kBlock - 5, SIZE_MAX};
    BufferOptions options;
    options.zeroed = below(2) == 0;
    auto buffer = pool_.allocate(kSizes[below(std::size(kSizes))], options);
    if (!buffer) return expect(buffer.error(), "allocate");
    const std::size_t bytes = buffer->bytes();
    commons_.put(below(8), {buffer->release(), bytes});
  }

  void acquire() {
    std::vector<AcquireRange> ranges;
    const std::size_t count = below(4);
    for (std::size_t i = 0; i <= count; ++i) ranges.push_back(any_range());
    AcquireOptions options;
    options.device = any_device();
    options.deadline = std::chrono::milliseconds(below(4));
    if (below(2) == 0) options.stream = streams_[options.device % streams_.size()];
    auto acquired = pool_.acquire(ranges, options);
    if (!acquired) return expect(acquired.error(), "acquire");
    Device& device = machine_.device(options.device).inner();
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      if (ranges[i].access == Access::kRead) continue;
      auto event =
          device.fill(acquired->data(i), static_cast<std::uint8_t>(below(256)), ranges[i].bytes, options.stream);
      ASSERT_TRUE(event.has_value()) << event.error().to_string();
      if (!options.stream.has_value()) {
        EXPECT_TRUE(event->wait().is_ok());
      }
    }
    if (below(3) == 0) return commons_.put(std::move(*acquired));
    expect(acquired->release(), "release");
    while (auto other = commons_.take(3)) expect(other->release(), "release of another's");
  }

  void prefetch() {
    const AcquireRange range = any_range();
    auto handle = pool_.prefetch(range.address, range.bytes, any_device());
    if (!handle) return expect(handle.error(), "prefetch");
    const std::size_t then = below(4);
    if (then == 0) handle->cancel();
    if (then <= 1) expect(handle->wait(), "prefetch");
  }

  void advise() {
    const AcquireRange range = any_range();
    const DeviceIndex device = any_device();
    const Status pinned = pool_.advise(range.address, range.bytes, Advice::kPin, device);
    expect(pinned, "pin");
    // Once more a pin of the same pages by another thread may be the one that this takes away.
    if (pinned) {
      const Status unpinned = pool_.advise(range.address, range.bytes, Advice::kUnpin, device);
      EXPECT_TRUE(unpinned.is_ok()) << unpinned.to_string();
    }
    expect(pool_.advise(range.address, range.bytes, static_cast<Advice>(below(2)), device), "prefer");
    expect(pool_.advise(range.address, range.bytes, static_cast<Advice>(4 + below(252)), device), "no advice");
  }

  void copies() {
    const AcquireRange from = any_range();
    const AcquireRange to = any_range();
    const std::size_t bytes = std::min({from.bytes, to.bytes, scratch_.size()});
    expect(pool_.copy_in(to.address, scratch_.data(), bytes), "copy_in");
    expect(pool_.copy_out(scratch_.data(), from.address, bytes), "copy_out");
    expect(pool_.copy(to.address, from.address, bytes), "copy");
    expect(pool_.fill(to.address, 3, to.bytes), "fill");
  }

  // Buffers that no other thread knows, and that lived before all others', keep their bytes whatever happens.
  void look_at_own() {
    const OwnBuffer& own = own_[below(own_.size())];
    AcquireOptions options;
    options.device = below(machine_.num_devices());
    options.deadline = std::chrono::milliseconds(2);
    if (auto acquired = pool_.acquire(own.buffer.all(Access::kWrite), options)) {
      expect(acquired->release(), "release");
    } else {
      expect(acquired.error(), "acquire of an own buffer");
    }
    std::vector<std::uint8_t> found(own.bytes.size());
    const Status read = pool_.copy_out(found.data(), own.buffer.address(), found.size());
    expect(read, "copy_out of an own buffer");
    if (read) {
      EXPECT_TRUE(found == own.bytes) << "bytes that nobody else knows have changed";
    }
  }

  void look() {
    const AcquireRange range = any_range();
    expect(pool_.translate(range.address).error(), "translate");
    expect(pool_.residency(range.address, std::min(range.bytes, 8 * kBlock)).error(), "residency");
    static_cast<void>(pool_.contains(range.address));
    expect(pool_.status(), "status");
    EXPECT_LE(pool_.stats().devices[0].used_bytes, 8 * kBlock);
  }

  struct OwnBuffer {
    Buffer buffer;
    std::vector<std::uint8_t> bytes;
  };

  PoolMachine& machine_;
  Pool& pool_;
  Commons& commons_;
  Random random_;
  const bool faults_;
  std::vector<Stream> streams_;
  std::vector<OwnBuffer> own_;
  std::vector<std::uint8_t> scratch_ = std::vector<std::uint8_t>(4 * kBlock);
};

class HostileThreadsTest : public ::testing::TestWithParam<HostileCase> {};

TEST_P(HostileThreadsTest, EveryCallAnswersAndEverythingCanBeFreedInTheEnd) {
  PoolMachineSpec spec;
  spec.caps = DeviceCaps(GetParam().caps);
  if (GetParam().two_vendors) spec.vendors = {"one", "another"};
  spec.host_bytes = 32_MiB;
  spec.pool.acquire_deadline = std::chrono::milliseconds(3);
  PoolMachine machine(spec);
  Commons commons;
  {
    std::deque<HostileThread> workers;
    for (std::uint64_t seed = 0; seed < 4; ++seed) workers.emplace_back(machine, commons, seed, GetParam().faults);
    std::vector<std::thread> threads;
    for (HostileThread& worker : workers) threads.emplace_back([&worker] { worker.run(1500); });
    for (auto& thread : threads) thread.join();
    for (DeviceIndex i = 0; i < machine.num_devices(); ++i) machine.faults(i).clear();
    while (auto acquired = commons.take(0)) static_cast<void>(acquired->release());
  }
  for (const Commons::Entry& entry : commons.all()) {
    if (entry.address == 0 || !machine.pool().translate(entry.address)) continue;
    const Status status = machine.pool().free(entry.address);
    // The same address may have been put there twice, by whoever got it after a free.
    EXPECT_TRUE(status.is_ok() || status.code() == StatusCode::kInvalidValue) << status.to_string();
  }
  const PoolStats stats = machine.pool().stats();
  EXPECT_EQ(stats.buffers, 0U);
  for (const DeviceStats& device : stats.devices) {
    EXPECT_EQ(device.pinned_bytes, 0U) << device.name;
    if (!GetParam().faults) {
      EXPECT_LE(device.used_bytes, kBlock) << device.name << ": at most an empty shared block";
    }
  }
  machine.end_pool();
}

constexpr std::uint32_t kAll = 0x3F;
constexpr std::uint32_t kNoWindows = kAll & ~static_cast<std::uint32_t>(DeviceCap::kVirtualMemory);

INSTANTIATE_TEST_SUITE_P(Machines, HostileThreadsTest,
                         ::testing::Values(HostileCase{"Peers", kAll, false, false},
                                           HostileCase{"WithoutWindows", kNoWindows, true, false},
                                           HostileCase{"PeersWithFaults", kAll, false, true},
                                           HostileCase{"WithoutWindowsWithFaults", kNoWindows, true, true}),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace vmem
