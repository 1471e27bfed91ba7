// Kernels that update scattered ranges of a buffer larger than any device, on streams, with nobody waiting in between:
// what one kernel wrote must be there for the next, wherever it runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>

#include "tests/support/pool_machine.hpp"

namespace vmem {
namespace {

// Adds one to every byte of a range: parameters (address, bytes).
void add_one(const KernelContext& context) {
  std::uint8_t* bytes = nullptr;
  std::uint64_t count = 0;
  std::memcpy(&bytes, context.arguments[0], sizeof(bytes));
  std::memcpy(&count, context.arguments[1], sizeof(count));
  for (std::uint64_t i = 0; i < count; ++i) ++bytes[i];
}

constexpr KernelImage kAddOne{"add_one", add_one, nullptr};

struct UpdateCase {
  const char* name;
  std::size_t blocks_on_host;
  bool two_vendors;
  std::size_t num_ranges;
  std::size_t most_bytes;  // of a range
};

class AsyncUpdatesTest : public ::testing::TestWithParam<UpdateCase> {
 protected:
  AsyncUpdatesTest() : random_(7) {
    PoolMachineSpec spec;
    spec.gpu_bytes = {16 * 256_KiB, 16 * 256_KiB, 16 * 256_KiB};
    if (GetParam().two_vendors) spec.vendors = {"one", "another", "one"};
    spec.host_bytes = 32_MiB;
    spec.pool.block_bytes = 256_KiB;
    spec.pool.limits["host:0"] = GetParam().blocks_on_host * 256_KiB;
    machine_.emplace(spec);
    for (DeviceIndex i = 0; i < machine_->num_devices(); ++i) {
      EXPECT_TRUE(machine_->device(i).add_kernel(kAddOne).is_ok());
      streams_.push_back(*machine_->device(i).create_stream());
    }
  }

  void finish() {
    for (DeviceIndex i = 0; i < machine_->num_devices(); ++i) {
      ASSERT_TRUE(machine_->device(i).destroy_stream(streams_[i]).is_ok());
    }
    machine_->end_pool();
  }

  std::vector<AcquireRange> ranges_of(const Buffer& buffer) {
    std::vector<std::size_t> cuts;
    const UpdateCase& param = GetParam();
    // Ranges near one another, so that several fall into one block and one page.
    const std::size_t window = std::min(buffer.bytes(), param.num_ranges * 2 * param.most_bytes);
    const std::size_t base = random_() % (buffer.bytes() - window + 1);
    for (std::size_t i = 0; i < 2 * param.num_ranges; ++i) cuts.push_back(base + random_() % window);
    std::sort(cuts.begin(), cuts.end());
    std::vector<AcquireRange> ranges;
    for (std::size_t i = 0; i + 1 < cuts.size(); i += 2) {
      const std::size_t bytes = std::min(cuts[i + 1] - cuts[i], param.most_bytes);
      if (bytes != 0) ranges.push_back(buffer.range(cuts[i], bytes, Access::kWrite));
    }
    return ranges;
  }

  void update(const std::vector<AcquireRange>& ranges, DeviceIndex device) {
    AcquireOptions options;
    options.device = device;
    options.stream = streams_[device];
    auto acquired = machine_->pool().acquire(ranges, options);
    ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      void* const address = acquired->data(i);
      const std::uint64_t bytes = ranges[i].bytes;
      KernelLaunch launch;
      launch.name = "add_one";
      launch.arguments = {{&address, sizeof(address)}, {&bytes, sizeof(bytes)}};
      ASSERT_TRUE(machine_->device(device).launch(launch, streams_[device]).has_value());
    }
    ASSERT_TRUE(acquired->release().is_ok());
  }

  std::mt19937_64 random_;
  std::optional<PoolMachine> machine_;
  std::vector<Stream> streams_;
};

TEST_P(AsyncUpdatesTest, EveryUpdateIsThereForTheNext) {
  constexpr std::size_t kBytes = 48 * 256_KiB;
  auto buffer = machine_->pool().allocate(kBytes);
  ASSERT_TRUE(buffer.has_value());
  std::vector<std::uint8_t> model = test_pattern(kBytes, 3);
  ASSERT_TRUE(machine_->pool().copy_in(buffer->address(), model.data(), kBytes).is_ok());
  for (int phase = 0; phase < 6 && !HasFailure(); ++phase) {
    for (int step = 0; step < 60 && !HasFailure(); ++step) {
      // Some phases stay on one device, as a worker does; in the others every step may be elsewhere.
      const DeviceIndex device = phase % 2 == 0 ? static_cast<DeviceIndex>(phase / 2 + 1) : random_() % streams_.size();
      const auto ranges = ranges_of(*buffer);
      if (ranges.empty()) continue;
      update(ranges, device);
      for (const AcquireRange& range : ranges) {
        for (std::size_t i = 0; i < range.bytes; ++i) ++model[range.address - buffer->address() + i];
      }
    }
    std::vector<std::uint8_t> found(kBytes);
    ASSERT_TRUE(machine_->pool().copy_out(found.data(), buffer->address(), kBytes).is_ok());
    for (std::size_t i = 0; i < kBytes; ++i) {
      ASSERT_EQ(int{found[i]}, int{model[i]}) << "byte " << i << " (block " << i / 256_KiB << ") in phase " << phase;
    }
  }
  ASSERT_TRUE(buffer->free().is_ok());
  finish();
}

INSTANTIATE_TEST_SUITE_P(Shapes, AsyncUpdatesTest,
                         ::testing::Values(UpdateCase{"FewLongRanges", 20, false, 3, 512_KiB},
                                           UpdateCase{"ManyShortRanges", 20, false, 40, 6000},
                                           UpdateCase{"OverTheHost", 20, true, 3, 512_KiB},
                                           UpdateCase{"ManyShortRangesOverTheHost", 20, true, 40, 6000},
                                           UpdateCase{"LittleHostMemory", 14, true, 6, 100'000}),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace vmem
