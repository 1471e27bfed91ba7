// Moves that fail, hang or are late: who is told, and that no byte is lost.
#include <atomic>

#include "tests/pool/pool_test.hpp"

namespace vmem::test {
namespace {

class PoolFailureTest : public PoolTest {};

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

TEST_F(PoolFailureTest, MemoryThatTheDriverDoesNotTakeBackIsCountedOut) {
  make(one_gpu());
  {
    Buffer gone = filled_on(0, kBlock, 1);
    Fault fault;
    fault.call = "unmap";
    fault.count = 1000;
    machine().faults(0).inject(fault);
    EXPECT_TRUE(gone.free().is_ok());
    machine().faults(0).clear();
    const Buffer buffer = filled(kUsableBlocks * kBlock, 2);
    auto held = acquire(buffer.range(0, (kUsableBlocks - 1) * kBlock, Access::kRead), 0);
    ASSERT_TRUE(held.has_value()) << held.error().to_string();
    // At once, with an hour to wait and a holder to wait for: it never will.
    const Status status = acquire(buffer.all(Access::kRead), 0, {}, std::chrono::hours(1)).error();
    EXPECT_EQ(status.code(), StatusCode::kOutOfDeviceMemory) << status.to_string();
  }
  machine().faults(0).vanish();  // its memory is not all back
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
