// A device that disappears takes with it what was there alone, and nothing else (cases I1 and I3).
#include "tests/pool/pool_test.hpp"

namespace vmem::test {
namespace {

class PoolLostDeviceTest : public PoolTest, public ::testing::WithParamInterface<std::uint32_t> {
 protected:
  void SetUp() override { make(spec_of(GetParam())); }
  // The first to use the device meets its own error; from then on the pool knows.
  void lose(DeviceIndex device, const Buffer& on_it) {
    machine().faults(device).vanish();
    EXPECT_FALSE(fetch(on_it.all(Access::kRead), 1 - device).is_ok());
    EXPECT_TRUE(pool().stats().devices[device].failed);
  }
};

TEST_P(PoolLostDeviceTest, DirtyPagesAreLostAndTheOthersServed) {
  const Buffer buffer = filled_on(1, 4 * kBlock, 1);
  // Of block 1 a part, block 2 wholly; block 3 as a copy alone.
  auto writer = acquire(buffer.range(kBlock + 3 * kPageBytes, kBlock, Access::kWrite), 0);
  ASSERT_TRUE(writer.has_value());
  ASSERT_TRUE(writer->release().is_ok());
  ASSERT_TRUE(fetch(buffer.range(3 * kBlock, kBlock, Access::kRead), 0).is_ok());
  lose(0, buffer);
  const std::size_t lost_begin = kBlock + 3 * kPageBytes;
  const std::size_t lost_end = lost_begin + kBlock;
  const Bytes expected = test_pattern(buffer.bytes(), 1);
  for (std::size_t offset = 0; offset < buffer.bytes(); offset += kPageBytes) {
    for (const DeviceIndex device : {DeviceIndex{1}, host()}) {
      auto acquired = acquire(buffer.range(offset, kPageBytes, Access::kRead), device);
      if (offset >= lost_begin && offset < lost_end) {
        EXPECT_EQ(acquired.error().code(), StatusCode::kDataLost) << offset;
        continue;
      }
      ASSERT_TRUE(acquired.has_value()) << offset << ": " << acquired.error().to_string();
      const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(offset);
      expect_same(read(device, acquired->data(), kPageBytes), Bytes(begin, begin + kPageBytes));
    }
  }
}

TEST_P(PoolLostDeviceTest, LostPagesAreUsableAgainOnceTheyAreDiscarded) {
  Buffer buffer = filled_on(0, 2 * kBlock, 1);
  lose(0, buffer);
  const Bytes fresh = test_pattern(kBlock, 2);
  EXPECT_EQ(pool().copy_in(buffer.address() + 5, fresh.data(), 10).code(), StatusCode::kDataLost)
      << "the bytes around it would be needed";
  ASSERT_TRUE(pool().copy_in(buffer.address(), fresh.data(), kBlock).is_ok());
  Bytes found(kBlock);
  ASSERT_TRUE(pool().copy_out(found.data(), buffer.address(), kBlock).is_ok());
  expect_same(found, fresh);
  EXPECT_EQ(pool().copy_out(found.data(), buffer.address() + kBlock, 1).code(), StatusCode::kDataLost);
  EXPECT_TRUE(buffer.free().is_ok());
}

TEST_P(PoolLostDeviceTest, CleanCopiesLoseNothing) {
  const Buffer a = filled(3 * kBlock, 1);
  const Buffer b = filled_on(1, 2 * kBlock, 2);
  const Buffer witness = filled_on(0, kBlock, 3);
  ASSERT_TRUE(fetch(a.all(Access::kRead), 0).is_ok());
  ASSERT_TRUE(fetch(b.all(Access::kRead), 0).is_ok());
  lose(0, witness);
  expect_pattern(a, 1);
  expect_pattern(b, 2);
  EXPECT_EQ(resident(a, 0) + resident(b, 0), 0U);
  EXPECT_EQ(fetch(witness.all(Access::kRead), 1).code(), StatusCode::kDataLost);
}

TEST_P(PoolLostDeviceTest, AnOwnersCopiesElsewhereTakeItsPlace) {
  const Buffer buffer = filled_on(0, 2 * kBlock, 1);
  const Buffer witness = filled_on(0, kBlock, 3);
  ASSERT_TRUE(fetch(buffer.range(0, kBlock, Access::kRead), 1).is_ok());
  ASSERT_TRUE(fetch(buffer.range(kBlock, kBlock, Access::kRead), host()).is_ok());
  lose(0, witness);
  EXPECT_EQ(pool().translate(buffer.address())->device, name_of(1));
  EXPECT_EQ(pool().translate(buffer.address() + kBlock)->device, name_of(host()));
  expect_pattern(buffer, 1);
}

TEST_P(PoolLostDeviceTest, NothingIsGrantedOnItAnyMore) {
  const Buffer buffer = filled(kBlock, 1);
  const Buffer witness = filled_on(0, kBlock, 3);
  lose(0, witness);
  for (const Access access : {Access::kRead, Access::kWrite, Access::kWriteDiscard}) {
    EXPECT_EQ(acquire(buffer.all(access), 0).error().code(), StatusCode::kDeviceFailed);
    EXPECT_EQ(acquire(witness.all(access), 0).error().code(), StatusCode::kDeviceFailed);
  }
  EXPECT_EQ(pool().advise(buffer.address(), kBlock, Advice::kPin, 0).code(), StatusCode::kDeviceFailed);
  EXPECT_EQ(pool().prefetch(buffer.address(), kBlock, 0)->wait().code(), StatusCode::kDeviceFailed);
  const Status status = pool().status();
  EXPECT_EQ(status.code(), StatusCode::kDeviceFailed);
  EXPECT_EQ(status.device(), name_of(0));
  expect_pattern(buffer, 1);
}

TEST_P(PoolLostDeviceTest, AHolderLearnsItAtTheReleaseAndNothingIsTakenOver) {
  const Buffer buffer = filled(kBlock, 1);
  const Buffer witness = filled_on(0, kBlock, 3);
  auto held = acquire(buffer.all(Access::kWrite), 0);
  ASSERT_TRUE(held.has_value());
  lose(0, witness);
  EXPECT_EQ(held->release().code(), StatusCode::kDeviceFailed);
  expect_pattern(buffer, 1);
}

TEST_P(PoolLostDeviceTest, ItsStreamsAreAnErrorOfTheDeviceNotOfTheCaller) {
  const Buffer buffer = filled(kBlock, 1);
  const Buffer witness = filled_on(0, kBlock, 3);
  auto stream = machine().device(0).inner().create_stream();
  ASSERT_TRUE(stream.has_value());
  auto held = acquire(buffer.all(Access::kWrite), 0, *stream);
  ASSERT_TRUE(held.has_value());
  lose(0, witness);
  EXPECT_EQ(held->release().code(), StatusCode::kDeviceFailed);
  EXPECT_EQ(acquire(buffer.all(Access::kRead), 0, *stream).error().code(), StatusCode::kDeviceFailed);
  EXPECT_TRUE(machine().device(0).inner().destroy_stream(*stream).is_ok());
  expect_pattern(buffer, 1);
}

TEST_P(PoolLostDeviceTest, EveryUseNoticesIt) {
  const Buffer a = filled_on(0, kBlock, 1);
  Bytes found(kBlock);
  machine().faults(0).vanish();
  EXPECT_EQ(pool().fill(a.address(), 1, kBlock).code(), StatusCode::kDeviceFailed);
  EXPECT_TRUE(pool().stats().devices[0].failed);
  EXPECT_EQ(pool().copy_out(found.data(), a.address(), kBlock).code(), StatusCode::kDataLost);
  EXPECT_TRUE(pool().fill(a.address(), 1, kBlock).is_ok()) << "elsewhere now";
  expect_same(bytes_of(a), Bytes(kBlock, 1));
}

TEST_P(PoolLostDeviceTest, WorkThatNeverEndsThereHoldsNobodyUp) {
  if ((GetParam() & static_cast<std::uint32_t>(DeviceCap::kStreamSignals)) == 0) return;  // nothing to hang on
  Buffer buffer = filled_on(1, kBlock, 1);
  const Buffer witness = filled_on(0, kBlock, 3);
  HeldStream stuck(machine().device(0).inner());
  auto reader = acquire(buffer.all(Access::kRead), 0, stuck.stream());
  ASSERT_TRUE(reader.has_value()) << reader.error().to_string();
  ASSERT_TRUE(reader->release().is_ok());
  EXPECT_EQ(fetch(buffer.all(Access::kWrite), 1).code(), StatusCode::kBusy);
  lose(0, witness);
  // With an hour to wait for the copy, which may still read the buffer.
  EXPECT_TRUE(acquire(buffer.all(Access::kWrite), 1, {}, std::chrono::hours(1)).has_value());
  EXPECT_TRUE(buffer.free().is_ok());
}

TEST_P(PoolLostDeviceTest, EvictionsGoElsewhere) {
  const Buffer witness = filled_on(1, kBlock, 3);
  const Buffer a = filled_on(0, kUsableBlocks * kBlock, 1);
  lose(1, witness);
  const Buffer b = filled(4 * kBlock, 2);
  EXPECT_TRUE(fetch(b.all(Access::kRead), 0).is_ok());
  EXPECT_GE(resident(a, host()), 4 * kBlock) << "where pieces are scattered, all leave";
  expect_pattern(a, 1);
}

INSTANTIATE_TEST_SUITE_P(Devices, PoolLostDeviceTest, ::testing::Values(kAllCaps, kNoWindows, kNoCaps),
                         [](const auto& tested) {
                           return tested.param == kAllCaps     ? "WithWindows"
                                  : tested.param == kNoWindows ? "WithoutWindows"
                                                               : "NoCapabilities";
                         });

}  // namespace
}  // namespace vmem::test
