// Moves that fail, hang or are late: who is told, and that no byte is lost.
#include <atomic>

#include "tests/pool/pool_test.hpp"

namespace vmem::test {
namespace {

class PoolFailureTest : public PoolTest {
 protected:
  Device& inner(DeviceIndex device) { return machine().device(device).inner(); }
  Stream make_stream(DeviceIndex device) {
    auto stream = inner(device).create_stream();
    EXPECT_TRUE(stream.has_value());
    return stream.value_or(Stream());
  }
  // The copy ends, and not well, also where the device comes to it only now.
  void end_hung_copy(DeviceIndex device) {
    wait_until([&] {
      EXPECT_TRUE(inner(device).clear_faults().is_ok());
      return !pool().status().is_ok();
    });
  }
  // The device itself does it, so that a stream can wait on the work that goes wrong.
  void misbehave(DeviceIndex device, Fault::Kind kind, const std::string& call, std::uint64_t after = 0,
                 std::uint64_t count = 1) {
    Fault fault;
    fault.kind = kind;
    fault.call = call;
    fault.after = after;
    fault.count = count;
    fault.code = StatusCode::kIoError;
    ASSERT_TRUE(inner(device).inject(fault).is_ok());
  }
};

TEST_F(PoolFailureTest, AFetchThatFailsAfterAcquireReturnedIsToldByTheAcquireAndNothingIsCommitted) {
  make();
  const Buffer buffer = filled_on(0, 2 * kBlock, 1);
  const Stream stream = make_stream(1);
  misbehave(0, Fault::Kind::kFail, "copy_to_peer");
  auto acquired = acquire(buffer.all(Access::kWrite), 1, stream);
  ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
  fill(1, acquired->data(), 9, buffer.bytes(), stream);
  EXPECT_EQ(acquired->wait().code(), StatusCode::kIoError);
  EXPECT_EQ(acquired->status().code(), StatusCode::kIoError);
  EXPECT_EQ(acquired->release().code(), StatusCode::kIoError);
  EXPECT_EQ(acquired->size(), 0U) << "given back all the same";
  EXPECT_TRUE(pool().status().is_ok()) << "told already";
  // Nothing computed on the failed block is committed; the other block's fetch went well.
  Bytes expected = test_pattern(buffer.bytes(), 1);
  const Bytes found = bytes_of(buffer);
  std::size_t kept = 0;
  for (std::size_t block = 0; block < 2; ++block) {
    const auto begin = static_cast<std::ptrdiff_t>(block * kBlock);
    const auto end = begin + static_cast<std::ptrdiff_t>(kBlock);
    if (std::equal(found.begin() + begin, found.begin() + end, expected.begin() + begin)) {
      ++kept;
    } else {
      expect_same(Bytes(found.begin() + begin, found.begin() + end), Bytes(kBlock, 9));
    }
  }
  EXPECT_GE(kept, 1U);
  EXPECT_TRUE(fetch(buffer.all(Access::kWrite), 1).is_ok());
  EXPECT_TRUE(inner(1).destroy_stream(stream).is_ok());
}

TEST_F(PoolFailureTest, AFetchThatFailsAfterTheReleaseIsToldOnceToTheNextAcquire) {
  make();
  const Buffer buffer = filled_on(0, kBlock, 1);
  const Stream stream = make_stream(1);
  misbehave(0, Fault::Kind::kHang, "copy_to_peer");
  auto acquired = acquire(buffer.all(Access::kWrite), 1, stream);
  ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
  EXPECT_TRUE(acquired->status().is_ok()) << "nothing is known yet";
  fill(1, acquired->data(), 9, kBlock, stream);
  EXPECT_TRUE(acquired->release().is_ok());
  end_hung_copy(0);
  const StatusCode told = pool().status().code();
  EXPECT_EQ(fetch(buffer.all(Access::kRead), 0).code(), told);
  EXPECT_TRUE(pool().status().is_ok());
  auto after = acquire(buffer.all(Access::kRead), 1, {}, std::chrono::hours(1));
  ASSERT_TRUE(after.has_value()) << after.error().to_string();
  expect_same(read(1, after->data(), kBlock), test_pattern(kBlock, 1));
  EXPECT_TRUE(inner(1).destroy_stream(stream).is_ok());
}

TEST_F(PoolFailureTest, AFailedFetchIsForgottenWhereTheRangeIsDiscarded) {
  make();
  const Buffer buffer = filled_on(0, kBlock, 1);
  const Stream stream = make_stream(1);
  misbehave(0, Fault::Kind::kHang, "copy_to_peer");
  auto acquired = acquire(buffer.all(Access::kRead), 1, stream);
  ASSERT_TRUE(acquired.has_value());
  EXPECT_TRUE(acquired->release().is_ok());
  end_hung_copy(0);
  const Bytes fresh = test_pattern(kBlock, 2);
  auto discarding = acquire(buffer.all(Access::kWriteDiscard), 0, {}, std::chrono::hours(1));
  ASSERT_TRUE(discarding.has_value()) << discarding.error().to_string();
  write(0, discarding->data(), fresh.data(), kBlock);
  ASSERT_TRUE(discarding->release().is_ok());
  EXPECT_TRUE(pool().status().is_ok());
  expect_same(bytes_of(buffer), fresh);
  EXPECT_TRUE(inner(1).destroy_stream(stream).is_ok());
}

TEST_F(PoolFailureTest, AFetchThatFailsWithoutAStreamFailsTheAcquire) {
  for (const auto where : {FaultControl::FailAt::kCall, FaultControl::FailAt::kCompletion}) {
    make(one_gpu());
    {
      const Buffer buffer = filled(3 * kBlock, 1);
      machine().faults(0).set_fail_at(where);
      Fault fault;
      fault.call = "copy_from_host";
      fault.after = 1;
      fault.code = StatusCode::kIoError;
      machine().faults(0).inject(fault);
      EXPECT_EQ(fetch(buffer.all(Access::kWrite), 0).code(), StatusCode::kIoError);
      EXPECT_EQ(references(buffer), 0U);
      EXPECT_TRUE(fetch(buffer.all(Access::kWrite), 0).is_ok());
      expect_pattern(buffer, 1);
    }
    machine_.reset();
  }
}

TEST_F(PoolFailureTest, AFailedEvictionLeavesTheOldInstanceValidAndEarlierOnesDone) {
  make(one_gpu());
  const Buffer a = filled_on(0, kUsableBlocks * kBlock, 1);
  const Buffer b = filled(3 * kBlock, 2);
  Fault fault;
  fault.call = "copy_to_host";
  fault.after = 1;  // the first block leaves, those after it can't
  fault.count = 1000;
  fault.code = StatusCode::kIoError;
  machine().faults(0).inject(fault);
  const Status status = fetch(b.all(Access::kRead), 0);
  EXPECT_FALSE(status.is_ok());
  machine().faults(0).clear();
  EXPECT_GE(pool().stats().evictions, 1U) << status.to_string();
  EXPECT_EQ(resident(a, host()), kBlock);
  EXPECT_EQ(resident(a, 0), (kUsableBlocks - 1) * kBlock);
  EXPECT_EQ(references(a) + references(b), 0U);
  expect_pattern(a, 1);
  EXPECT_TRUE(fetch(b.all(Access::kRead), 0).is_ok());
  expect_pattern(a, 1);
  expect_pattern(b, 2);
}

TEST_F(PoolFailureTest, AnEvictionThatOneDeviceRefusesGoesToAnother) {
  make(spec_of(kAllCaps));
  const Buffer a = filled_on(0, kUsableBlocks * kBlock, 1);
  Fault fault;
  fault.call = "copy_to_peer";
  fault.count = 1000;
  machine().faults(0).inject(fault);
  const Buffer b = filled(2 * kBlock, 2);
  EXPECT_TRUE(fetch(b.all(Access::kRead), 0).is_ok());
  machine().faults(0).clear();
  EXPECT_EQ(resident(a, host()) + resident(a, 1), 2 * kBlock);
  expect_pattern(a, 1);
}

// Case E2.
TEST_F(PoolFailureTest, ASecondHopThatIsLateIsWaitedFor) {
  make(spec_of(kAllCaps, true));
  const Buffer buffer = filled_on(0, kBlock, 1);
  // What the other device had there before.
  ASSERT_TRUE(fetch(filled(kBlock, 2).all(Access::kWrite), 1).is_ok());
  CallGate second_hop(machine().faults(1), "copy_from_host");
  std::thread consumer([&] {
    auto acquired = acquire(buffer.all(Access::kRead), 1);
    ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
    EXPECT_TRUE(second_hop.is_open()) << "granted before the bytes were there";
    expect_same(read(1, acquired->data(), kBlock), test_pattern(kBlock, 1));
  });
  second_hop.wait_for_call();
  second_hop.open();
  consumer.join();
}

// Case E3.
TEST_F(PoolFailureTest, WithoutPeersStagingStaysUnderItsCap) {
  for (const std::uint32_t caps : {kAllCaps & ~static_cast<std::uint32_t>(DeviceCap::kPeerCopy), kNoCaps}) {
    PoolMachineSpec spec = spec_of(caps, true);
    spec.gpu_bytes = {16_MiB, 16_MiB};
    spec.pool.block_bytes = 2_MiB;
    make(spec);
    {
      const Buffer buffer = allocate(8_MiB);
      const Bytes pattern = test_pattern(buffer.bytes(), 1);
      auto writer = acquire(buffer.all(Access::kWriteDiscard), 0);
      ASSERT_TRUE(writer.has_value());
      write(0, writer->data(), pattern.data(), pattern.size());
      ASSERT_TRUE(writer->release().is_ok());
      auto reader = acquire(buffer.all(Access::kRead), 1);
      ASSERT_TRUE(reader.has_value()) << reader.error().to_string();
      expect_same(read(1, reader->data(), buffer.bytes()), pattern);
      EXPECT_GT(pool().stats().peak_staging_bytes, 0U);
      EXPECT_LE(pool().stats().peak_staging_bytes, 1_MiB);
    }
    machine_.reset();
  }
}

TEST_F(PoolFailureTest, ACopyThatNeverEndsFailsItsDeviceNotTheProcess) {
  PoolMachineSpec spec = spec_of(kAllCaps, true);
  spec.copy_timeout = std::chrono::milliseconds(200);
  make(spec);
  {
    const Buffer dirty = filled_on(0, kBlock, 1);
    const Buffer elsewhere = filled_on(1, kBlock, 2);
    const Buffer copied = filled(kBlock, 3);
    ASSERT_TRUE(fetch(copied.all(Access::kRead), 0).is_ok());
    Fault fault;
    fault.kind = Fault::Kind::kHang;
    fault.call = "copy_to_host";
    machine().faults(0).inject(fault);
    const Status status = fetch(dirty.all(Access::kRead), 1);
    EXPECT_EQ(status.code(), StatusCode::kDataLost) << status.to_string();
    EXPECT_TRUE(pool().stats().devices[0].failed);
    EXPECT_FALSE(pool().stats().devices[1].failed);
    EXPECT_EQ(pool().status().code(), StatusCode::kDeviceFailed);
    EXPECT_EQ(fetch(copied.all(Access::kRead), 0).code(), StatusCode::kDeviceFailed);
    expect_pattern(elsewhere, 2);
    expect_pattern(copied, 3);
    EXPECT_TRUE(fetch(copied.all(Access::kWrite), 1).is_ok());
  }
}

TEST_F(PoolFailureTest, BytesThatTheDriverCouldNotMapAreNotGranted) {
  make();
  const Buffer buffer = filled(2 * kBlock, 1);
  for (const char* call : {"create_chunk", "reserve_window", "map"}) {
    SCOPED_TRACE(call);
    const Buffer other = filled(2 * kBlock, 2);
    Fault fault;
    fault.call = call;
    fault.code = StatusCode::kInternal;
    machine().faults(0).inject(fault);
    auto acquired = acquire(other.all(Access::kWrite), 0);
    machine().faults(0).clear();
    if (machine().faults(0).num_faults() == 0) continue;  // a chunk of the cache was used
    machine().faults(0).reset_counts();
    EXPECT_FALSE(acquired.has_value());
    EXPECT_EQ(references(other), 0U);
    EXPECT_TRUE(fetch(other.all(Access::kWrite), 0).is_ok());
    expect_pattern(other, 2);
  }
  expect_pattern(buffer, 1);
}

}  // namespace
}  // namespace vmem::test
