// Random sequences of operations on a pool against a plain model in memory, with and without faults at every backend
// call: no byte is lost, nothing leaks, nothing hangs.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <optional>
#include <random>

#include "tests/support/pool_machine.hpp"

namespace vmem {
namespace {

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t bound) { return random() % bound; }

// What a buffer must hold; a byte that a failed write may have changed is unknown.
struct ModelBuffer {
  Buffer buffer;
  std::vector<std::uint8_t> bytes;
  std::vector<bool> known;
};

// An acquire that is kept for a while, with the bytes written through it.
struct LiveAcquire {
  Acquired acquired;
  ModelBuffer* buffer;
  std::size_t offset;
  std::size_t bytes;
  bool writes;
  DeviceIndex device;
  Stream stream;
};

class PoolModel {
 public:
  PoolModel(PoolMachine& machine, std::uint64_t seed, bool with_faults)
      : machine_(machine), random_(seed), with_faults_(with_faults) {
    for (DeviceIndex i = 0; i < machine_.num_devices(); ++i) {
      auto stream = machine_.device(i).create_stream();
      EXPECT_TRUE(stream.has_value());
      streams_.push_back(*stream);
    }
  }

  void run(int steps) {
    for (step_ = 0; step_ < steps && !::testing::Test::HasFailure(); ++step_) {
      if (with_faults_ && below(random_, 4) == 0) inject();
      one_step();
      if (with_faults_) clear();
    }
    clear();
    while (!live_.empty()) release(0);
    for (ModelBuffer& buffer : buffers_) verify(buffer);
    for (ModelBuffer& buffer : buffers_) EXPECT_TRUE(buffer.buffer.free().is_ok());
    buffers_.clear();
    for (DeviceIndex i = 0; i < machine_.num_devices(); ++i) {
      EXPECT_TRUE(machine_.device(i).destroy_stream(streams_[i]).is_ok());
    }
  }

 private:
  void one_step() {
    const std::size_t what = below(random_, 100);
    if (buffers_.empty() || what < 8) return allocate();
    if (what < 12) return free();
    if (what < 60) return acquire();
    if (what < 70 && !live_.empty()) return release(below(random_, live_.size()));
    if (what < 78) return copy_in();
    if (what < 86) return copy_out();
    if (what < 90) return fill();
    if (what < 94) return copy_within();
    if (what < 98) return prefetch();
    if (const ModelBuffer* buffer = any_buffer()) {
      EXPECT_TRUE(machine_.pool().translate(buffer->buffer.address()).has_value());
    }
  }

  void inject() {
    FaultControl& control = machine_.faults(below(random_, machine_.num_devices()));
    control.set_fail_at(below(random_, 2) == 0 ? FaultControl::FailAt::kCall : FaultControl::FailAt::kCompletion);
    control.fail_call(below(random_, 6));
  }

  void clear() {
    for (DeviceIndex i = 0; i < machine_.num_devices(); ++i) machine_.faults(i).clear();
  }

  // Only faults may make an operation of the model fail, or holders that are still there.
  void expect(const Status& status, const char* what) {
    if (status || with_faults_) return;
    const bool short_of_memory = status.code() == StatusCode::kBusy || status.code() == StatusCode::kOutOfDeviceMemory;
    if (short_of_memory && !live_.empty()) return;
    ADD_FAILURE() << what << " at step " << step_ << ": " << status.to_string();
  }

  void allocate() {
    if (buffers_.size() > 12) return;
    static constexpr std::size_t kSizes[] = {1, 100, 4096, 5000, 20'000, 65'536, 100'000, 200'000, 300'001};
    const std::size_t bytes = kSizes[below(random_, std::size(kSizes))];
    BufferOptions options;
    options.zeroed = below(random_, 2) == 0;
    auto buffer = machine_.pool().allocate(bytes, options);
    if (!buffer) return expect(buffer.error(), "allocate");
    buffers_.push_back(
        {std::move(*buffer), std::vector<std::uint8_t>(bytes, 0), std::vector<bool>(bytes, options.zeroed)});
  }

  void free() {
    const std::size_t index = below(random_, buffers_.size());
    for (const LiveAcquire& live : live_) {
      if (live.buffer != &buffers_[index]) continue;
      EXPECT_EQ(machine_.pool().free(buffers_[index].buffer.address()).code(), StatusCode::kBusy);
      return;
    }
    verify(buffers_[index]);
    const Status status = buffers_[index].buffer.free();
    expect(status, "free");
    if (!status) return;
    // Addresses in `live_` must stay: a deque keeps them when its ends change, so the hole is filled from the back only
    // where nobody points to the back.
    for (const LiveAcquire& live : live_) {
      if (live.buffer == &buffers_.back()) return buffers_[index].bytes.clear();
    }
    std::swap(buffers_[index], buffers_.back());
    buffers_.pop_back();
  }

  ModelBuffer* any_buffer() {
    ModelBuffer& buffer = buffers_[below(random_, buffers_.size())];
    return buffer.bytes.empty() ? nullptr : &buffer;
  }

  struct Range {
    std::size_t offset;
    std::size_t bytes;
  };
  Range any_range(const ModelBuffer& buffer) {
    const std::size_t size = buffer.bytes.size();
    if (below(random_, 4) == 0) return {0, size};
    const std::size_t offset = below(random_, size);
    return {offset, 1 + below(random_, size - offset)};
  }

  bool conflicts(const ModelBuffer& buffer, Range range, bool writes) {
    for (const LiveAcquire& live : live_) {
      if (live.buffer != &buffer || (!live.writes && !writes)) continue;
      const auto page = [&](std::size_t offset) { return (buffer.buffer.address() + offset) / kPageBytes; };
      if (page(range.offset) <= page(live.offset + live.bytes - 1) &&
          page(live.offset) <= page(range.offset + range.bytes - 1)) {
        return true;
      }
    }
    return false;
  }

  void acquire() {
    ModelBuffer* buffer = any_buffer();
    if (buffer == nullptr) return;
    const Range range = any_range(*buffer);
    const auto access = static_cast<Access>(below(random_, 3));
    const bool writes = access != Access::kRead;
    AcquireOptions options;
    options.device = below(random_, machine_.num_devices());
    options.deadline = std::chrono::milliseconds(conflicts(*buffer, range, writes) ? 0 : 5000);
    if (!live_.empty()) options.deadline = std::chrono::milliseconds(0);
    if (below(random_, 2) == 0) options.stream = streams_[options.device];
    const std::vector<AcquireRange> ranges{buffer->buffer.range(range.offset, range.bytes, access)};
    auto acquired = machine_.pool().acquire(ranges, options);
    if (!acquired) return expect(acquired.error(), "acquire");
    EXPECT_FALSE(conflicts(*buffer, range, writes)) << "granted beside a conflicting holder, step " << step_;
    live_.push_back({std::move(*acquired), buffer, range.offset, range.bytes, writes, options.device, options.stream});
    work(live_.back(), access);
    if (live_.size() > 3 || below(random_, 3) != 0) release(live_.size() - 1);
  }

  // Checks what is there, then writes; on the stream where there is one.
  void work(LiveAcquire& live, Access access) {
    Device& device = machine_.device(live.device).inner();
    std::vector<std::uint8_t> found(live.bytes);
    auto copied = device.copy_to_host(found.data(), live.acquired.data(), live.bytes, live.stream);
    ASSERT_TRUE(copied.has_value()) << copied.error().to_string();
    ASSERT_TRUE(copied->wait().is_ok());
    if (access != Access::kWriteDiscard && live.acquired.wait()) compare(*live.buffer, live.offset, found, "acquire");
    if (!live.writes) return;
    written_.push_back(test_pattern(live.bytes, random_()));
    auto sent = device.copy_from_host(live.acquired.data(), written_.back().data(), live.bytes, live.stream);
    ASSERT_TRUE(sent.has_value()) << sent.error().to_string();
    std::copy(written_.back().begin(), written_.back().end(),
              live.buffer->bytes.begin() + static_cast<std::ptrdiff_t>(live.offset));
    set_known(*live.buffer, live.offset, live.bytes, true);
    if (written_.size() > 64) settle_streams();
  }

  void settle_streams() {
    for (DeviceIndex i = 0; i < machine_.num_devices(); ++i) {
      auto event = machine_.device(i).inner().record(streams_[i]);
      ASSERT_TRUE(event.has_value());
      ASSERT_TRUE(event->wait().is_ok());
    }
    written_.clear();
  }

  void release(std::size_t index) {
    const Status status = live_[index].acquired.release();
    expect(status, "release");
    // A fetch under the write failed: nothing of it was taken over, and the kernel's own copy may have been kept.
    if (!status && live_[index].writes) set_known(*live_[index].buffer, live_[index].offset, live_[index].bytes, false);
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  void set_known(ModelBuffer& buffer, std::size_t offset, std::size_t bytes, bool known) {
    for (std::size_t i = 0; i < bytes; ++i) buffer.known[offset + i] = known;
  }

  void compare(const ModelBuffer& buffer, std::size_t offset, const std::vector<std::uint8_t>& found,
               const char* what) {
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!buffer.known[offset + i] || buffer.bytes[offset + i] == found[i]) continue;
      FAIL() << what << ": byte " << offset + i << " of " << buffer.bytes.size() << " at step " << step_ << " is "
             << int{found[i]} << ", expected " << int{buffer.bytes[offset + i]};
    }
  }

  void copy_in() {
    ModelBuffer* buffer = any_buffer();
    if (buffer == nullptr) return;
    const Range range = any_range(*buffer);
    if (conflicts(*buffer, range, true) || !live_.empty()) return;
    const auto bytes = test_pattern(range.bytes, random_());
    const Status status = machine_.pool().copy_in(buffer->buffer.address() + range.offset, bytes.data(), range.bytes);
    expect(status, "copy_in");
    std::copy(bytes.begin(), bytes.end(), buffer->bytes.begin() + static_cast<std::ptrdiff_t>(range.offset));
    set_known(*buffer, range.offset, range.bytes, status.is_ok());
  }

  void copy_out() {
    ModelBuffer* buffer = any_buffer();
    if (buffer == nullptr || !live_.empty()) return;
    const Range range = any_range(*buffer);
    std::vector<std::uint8_t> found(range.bytes);
    const Status status = machine_.pool().copy_out(found.data(), buffer->buffer.address() + range.offset, range.bytes);
    expect(status, "copy_out");
    if (status) compare(*buffer, range.offset, found, "copy_out");
  }

  void fill() {
    ModelBuffer* buffer = any_buffer();
    if (buffer == nullptr || !live_.empty()) return;
    const Range range = any_range(*buffer);
    const auto value = static_cast<std::uint8_t>(random_());
    const Status status = machine_.pool().fill(buffer->buffer.address() + range.offset, value, range.bytes);
    expect(status, "fill");
    std::fill_n(buffer->bytes.begin() + static_cast<std::ptrdiff_t>(range.offset), range.bytes, value);
    set_known(*buffer, range.offset, range.bytes, status.is_ok());
  }

  void copy_within() {
    ModelBuffer* from = any_buffer();
    ModelBuffer* to = any_buffer();
    if (from == nullptr || to == nullptr || from == to || !live_.empty()) return;
    const std::size_t bytes = 1 + below(random_, std::min(from->bytes.size(), to->bytes.size()));
    const std::size_t source = below(random_, from->bytes.size() - bytes + 1);
    const std::size_t destination = below(random_, to->bytes.size() - bytes + 1);
    const Status status =
        machine_.pool().copy(to->buffer.address() + destination, from->buffer.address() + source, bytes);
    expect(status, "copy");
    for (std::size_t i = 0; i < bytes; ++i) {
      to->bytes[destination + i] = from->bytes[source + i];
      to->known[destination + i] = status.is_ok() && from->known[source + i];
    }
  }

  void prefetch() {
    ModelBuffer* buffer = any_buffer();
    if (buffer == nullptr || !live_.empty()) return;
    const Range range = any_range(*buffer);
    auto handle = machine_.pool().prefetch(buffer->buffer.address() + range.offset, range.bytes,
                                           below(random_, machine_.num_devices()));
    if (!handle) return expect(handle.error(), "prefetch");
    if (below(random_, 3) == 0) handle->cancel();
    const Status status = handle->wait();
    if (status.code() != StatusCode::kCancelled) expect(status, "prefetch");
  }

  // A fetch that failed after its acquire had returned stands in the way until it is made again.
  void fetch_again(const ModelBuffer& buffer) {
    auto again = machine_.pool().prefetch(buffer.buffer.address(), buffer.bytes.size(), machine_.host());
    if (again) static_cast<void>(again->wait());
  }

  void verify(ModelBuffer& buffer) {
    if (buffer.bytes.empty() || !live_.empty()) return;
    clear();
    settle_streams();
    std::vector<std::uint8_t> found(buffer.bytes.size());
    if (with_faults_) fetch_again(buffer);
    const Status status = machine_.pool().copy_out(found.data(), buffer.buffer.address(), found.size());
    // A device that answered once that it is unwell is out for good, with what only it had.
    if (with_faults_ && machine_.pool().status().code() == StatusCode::kDeviceFailed) return;
    ASSERT_TRUE(status.is_ok()) << status.to_string();
    compare(buffer, 0, found, "verify");
  }

  PoolMachine& machine_;
  Random random_;
  const bool with_faults_;
  int step_ = 0;
  std::vector<Stream> streams_;
  std::deque<ModelBuffer> buffers_;
  std::vector<LiveAcquire> live_;
  std::deque<std::vector<std::uint8_t>> written_;  // alive until the streams have read them
};

struct ModelCase {
  const char* name;
  std::uint32_t caps;
  bool two_vendors;
  std::uint64_t host_bytes;
  bool faults;
};

class PoolModelTest : public ::testing::TestWithParam<ModelCase> {};

TEST_P(PoolModelTest, AgreesWithAPlainModel) {
  const ModelCase& param = GetParam();
  constexpr int kSeeds = 4;
  for (std::uint64_t seed = 1; seed <= kSeeds && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    PoolMachineSpec spec;
    spec.caps = DeviceCaps(param.caps);
    if (param.two_vendors) spec.vendors = {"one", "another"};
    spec.host_bytes = param.host_bytes;
    PoolMachine machine(spec);
    PoolModel model(machine, seed, param.faults);
    model.run(400);
    machine.end_pool();
  }
}

constexpr std::uint32_t kAll = 0x3F;
constexpr std::uint32_t kNoWindows = kAll & ~static_cast<std::uint32_t>(DeviceCap::kVirtualMemory);
constexpr std::uint32_t kNone = static_cast<std::uint32_t>(DeviceCap::kFaultInjection);

INSTANTIATE_TEST_SUITE_P(Machines, PoolModelTest,
                         ::testing::Values(ModelCase{"Peers", kAll, false, 64_MiB, false},
                                           ModelCase{"TwoVendors", kAll, true, 64_MiB, false},
                                           ModelCase{"WithoutWindows", kNoWindows, true, 64_MiB, false},
                                           ModelCase{"NoCapabilities", kNone, true, 64_MiB, false},
                                           ModelCase{"PeersWithFaults", kAll, false, 64_MiB, true},
                                           ModelCase{"TwoVendorsWithFaults", kAll, true, 64_MiB, true},
                                           ModelCase{"WithoutWindowsWithFaults", kNoWindows, true, 64_MiB, true},
                                           ModelCase{"NoCapabilitiesWithFaults", kNone, true, 64_MiB, true}),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace vmem
