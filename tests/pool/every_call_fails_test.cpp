// One scenario, with a fault at each call that it makes of each device, one after the other.
#include <string>
#include <tuple>

#include "tests/pool/pool_test.hpp"

namespace vmem::test {
namespace {

struct EveryCallCase {
  const char* name;
  std::uint32_t caps;
  bool two_vendors;
  FaultControl::FailAt where;
};

class PoolEveryCallFailsTest : public PoolTest,
                               public ::testing::WithParamInterface<std::tuple<EveryCallCase, DeviceIndex>> {
 protected:
  // Three frames, which is all that a device gives: the two buffers drive each other out.
  static constexpr std::size_t kBytes = 2 * kBlock + 3000;

  static const EveryCallCase& machine_case() { return std::get<0>(GetParam()); }

  // Adds nothing to the bytes, so that they must be the same whatever fails on the way. Goes on after an error.
  void use(const Buffer& buffer, const AcquireRange& range, DeviceIndex device, Stream stream, std::uint64_t seed) {
    auto acquired = acquire(range, device, stream, std::chrono::hours(1));
    if (!acquired) return;
    if (acquired->wait()) {
      const Bytes found = read(device, acquired->data(), range.bytes);
      const Bytes all = test_pattern(buffer.bytes(), seed);
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(range.address - buffer.address());
      expect_same(found, Bytes(begin, begin + static_cast<std::ptrdiff_t>(range.bytes)));
    }
    static_cast<void>(acquired->release());
  }

  void run(const Buffer& a, const Buffer& b, const Buffer& small) {
    use(a, a.all(Access::kRead), 0, {}, 1);
    use(b, b.all(Access::kWrite), 1, {}, 2);
    use(a, a.range(kBlock - 9, kBlock, Access::kWrite), 1, streams_[1], 1);
    use(b, b.all(Access::kWrite), 0, streams_[0], 2);
    use(small, small.all(Access::kWrite), 0, {}, 3);
    use(a, a.all(Access::kWrite), 0, {}, 1);
    if (pool().advise(b.address(), 2 * kBlock, Advice::kPin, 1)) {
      EXPECT_TRUE(pool().advise(b.address(), 2 * kBlock, Advice::kUnpin, 1).is_ok());
    }
    if (auto prefetch = pool().prefetch(a.address(), a.bytes(), 1)) static_cast<void>(prefetch->wait());
    use(b, b.all(Access::kRead), host(), {}, 2);
    if (auto scratch = pool().allocate(2 * kBlock)) static_cast<void>(pool().fill(scratch->address(), 5, 2 * kBlock));
  }

  // A fetch that failed after its acquire had returned is made again, then it no longer stands in the way.
  void verify(const Buffer& buffer, std::uint64_t seed) {
    auto again = pool().prefetch(buffer.address(), buffer.bytes(), host());
    ASSERT_TRUE(again.has_value());
    const Status fetched = again->wait();
    ASSERT_TRUE(fetched.is_ok()) << fetched.to_string();
    expect_pattern(buffer, seed);
  }

  // True if a fault happened: there was a call with that number.
  bool run_with_fault(DeviceIndex device, std::uint64_t index) {
    PoolMachineSpec spec = spec_of(machine_case().caps, machine_case().two_vendors);
    spec.gpu_bytes = {4 * kBlock, 4 * kBlock};
    make(spec);
    bool happened = false;
    {
      const Buffer a = filled(kBytes, 1);
      const Buffer b = filled(kBytes, 2);
      const Buffer small = filled(300, 3);
      for (DeviceIndex i = 0; i < 2; ++i) streams_[i] = *machine().device(i).inner().create_stream();
      FaultControl& control = machine().faults(device);
      control.set_fail_at(machine_case().where);
      control.reset_counts();
      control.fail_call(index, StatusCode::kIoError);
      run(a, b, small);
      happened = control.num_faults() != 0;
      control.clear();
      for (const DeviceStats& stats : pool().stats().devices) EXPECT_FALSE(stats.failed) << "of one fault";
      for (const Buffer* buffer : {&a, &b, &small}) EXPECT_EQ(references(*buffer), 0U);
      verify(a, 1);
      verify(b, 2);
      verify(small, 3);
      for (DeviceIndex i = 0; i < 2; ++i) EXPECT_TRUE(machine().device(i).inner().destroy_stream(streams_[i]).is_ok());
    }
    machine_.reset();  // checks that all memory is back
    return happened;
  }

  Stream streams_[2];
};

TEST_P(PoolEveryCallFailsTest, NoByteIsLostAndNoMemory) {
  const DeviceIndex device = std::get<1>(GetParam());
  std::uint64_t index = 0;
  while (run_with_fault(device, index)) {
    ASSERT_FALSE(HasFailure()) << "call " << index;
    ++index;
  }
  ASSERT_FALSE(HasFailure()) << "without a fault";
  EXPECT_GE(index, 8U) << "the device was hardly used";
}

constexpr auto kCall = FaultControl::FailAt::kCall;
constexpr auto kCompletion = FaultControl::FailAt::kCompletion;

std::string name_of_case(const ::testing::TestParamInfo<std::tuple<EveryCallCase, DeviceIndex>>& tested) {
  static constexpr const char* kDevices[] = {"OnGpu0", "OnGpu1", "OnHost"};
  return std::get<0>(tested.param).name + std::string(kDevices[std::get<1>(tested.param)]);
}

INSTANTIATE_TEST_SUITE_P(
    Machines, PoolEveryCallFailsTest,
    ::testing::Combine(::testing::Values(EveryCallCase{"PeersAtTheCall", kAllCaps, false, kCall},
                                         EveryCallCase{"PeersAtCompletion", kAllCaps, false, kCompletion},
                                         EveryCallCase{"TwoVendorsAtTheCall", kAllCaps, true, kCall},
                                         EveryCallCase{"TwoVendorsAtCompletion", kAllCaps, true, kCompletion},
                                         EveryCallCase{"WithoutWindowsAtTheCall", kNoWindows, false, kCall},
                                         EveryCallCase{"NoCapabilitiesAtTheCall", kNoCaps, true, kCall}),
                       ::testing::Values(DeviceIndex{0}, DeviceIndex{1}, DeviceIndex{2})),
    name_of_case);

}  // namespace
}  // namespace vmem::test
