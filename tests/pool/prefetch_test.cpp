// Fetches that nobody waits for at once.
#include "tests/pool/pool_test.hpp"

namespace vmem::test {
namespace {

class PoolPrefetchTest : public PoolTest {
 protected:
  // With an hour to wait: what waits for its deadline runs into the test's time limit.
  void SetUp() override {
    PoolMachineSpec spec = one_gpu();
    spec.pool.acquire_deadline = std::chrono::hours(1);
    make(spec);
  }
  void make_again(const PoolMachineSpec& spec) {
    machine_.reset();
    make(spec);
  }
  Prefetch prefetch(const Buffer& buffer, DeviceIndex device = 0) {
    auto handle = pool().prefetch(buffer.address(), buffer.bytes(), device);
    EXPECT_TRUE(handle.has_value()) << handle.error().to_string();
    return handle ? *handle : Prefetch();
  }
};

TEST_F(PoolPrefetchTest, BringsThePages) {
  const Buffer buffer = filled(5 * kBlock, 1);
  const Prefetch handle = prefetch(buffer);
  EXPECT_TRUE(handle.wait().is_ok());
  EXPECT_TRUE(handle.is_done());
  EXPECT_TRUE(handle.wait().is_ok()) << "as often as one likes";
  EXPECT_EQ(resident(buffer, 0), buffer.bytes());
  EXPECT_EQ(references(buffer), 0U);
  const std::uint64_t fetched = moved(host(), 0).fetched_bytes;
  auto acquired = acquire(buffer.all(Access::kRead), 0);
  ASSERT_TRUE(acquired.has_value());
  expect_same(read(0, acquired->data(), buffer.bytes()), test_pattern(buffer.bytes(), 1));
  EXPECT_EQ(moved(host(), 0).fetched_bytes, fetched) << "they were there";
}

TEST_F(PoolPrefetchTest, IsCancelledBetweenTwoMovesAndWhatMovedStays) {
  const Buffer buffer = filled(5 * kBlock, 1);
  CallGate gate(machine().faults(0), "copy_from_host");
  const Prefetch handle = prefetch(buffer);
  gate.wait_for_call();
  EXPECT_FALSE(handle.is_done());
  handle.cancel();
  gate.open();
  EXPECT_EQ(handle.wait().code(), StatusCode::kCancelled);
  EXPECT_GE(resident(buffer, 0), kBlock);
  EXPECT_LT(resident(buffer, 0), buffer.bytes());
  EXPECT_EQ(references(buffer), 0U);
  handle.cancel();  // too late, and harmless
  EXPECT_EQ(handle.wait().code(), StatusCode::kCancelled);
  expect_pattern(buffer, 1);
  EXPECT_TRUE(prefetch(buffer).wait().is_ok());
  EXPECT_EQ(resident(buffer, 0), buffer.bytes());
}

TEST_F(PoolPrefetchTest, IsCancelledBeforeItBegan) {
  const Buffer first = filled(kBlock, 1);
  const Buffer second = filled(kBlock, 2);
  CallGate gate(machine().faults(0), "copy_from_host");
  const Prefetch running = prefetch(first);
  gate.wait_for_call();
  const Prefetch queued = prefetch(second);
  queued.cancel();
  gate.open();
  EXPECT_EQ(queued.wait().code(), StatusCode::kCancelled);
  EXPECT_TRUE(running.wait().is_ok());
  EXPECT_EQ(resident(first, 0), kBlock);
  EXPECT_EQ(resident(second, 0), 0U);
}

TEST_F(PoolPrefetchTest, IsCancelledWhileItWaitsForAHolder) {
  const Buffer buffer = filled(kBlock, 1);
  auto holder = acquire(buffer.all(Access::kWrite), host());
  ASSERT_TRUE(holder.has_value());
  const std::uint64_t before = waits();
  const Prefetch handle = prefetch(buffer);
  wait_until([&] { return waits() > before; });
  EXPECT_FALSE(handle.is_done());
  handle.cancel();
  EXPECT_EQ(handle.wait().code(), StatusCode::kCancelled) << "not at the deadline of an hour";
  EXPECT_EQ(references(buffer), 1U) << "the holder's alone";
}

TEST_F(PoolPrefetchTest, IsCancelledWhileItWaitsForMemory) {
  const Buffer buffer = filled(kBlock, 1);
  const Buffer full = filled(kUsableBlocks * kBlock, 2);
  auto holder = acquire(full.all(Access::kRead), 0);
  ASSERT_TRUE(holder.has_value());
  const std::uint64_t before = waits();
  const Prefetch handle = prefetch(buffer);
  wait_until([&] { return waits() > before; });
  handle.cancel();
  EXPECT_EQ(handle.wait().code(), StatusCode::kCancelled);
  EXPECT_EQ(references(buffer), 0U);
  EXPECT_EQ(resident(buffer, 0), 0U);
}

TEST_F(PoolPrefetchTest, IsCancelledWhileItWaitsForTheWorkOnWhatStandsInTheWay) {
  PoolMachineSpec spec;
  spec.gpu_bytes = {8 * kBlock, 8 * kBlock, 8 * kBlock};
  spec.pool.limits["host:0"] = 0;
  spec.pool.acquire_deadline = std::chrono::hours(1);
  make_again(spec);
  // Only the copies on device 1 could make place for what must leave device 0, and a stream still reads them.
  const Buffer pinned = filled_on(2, kUsableBlocks * kBlock, 1);
  ASSERT_TRUE(pool().advise(pinned.address(), pinned.bytes(), Advice::kPin, 2).is_ok());
  HeldStream held(machine().device(1).inner());
  auto reader = acquire(pinned.all(Access::kRead), 1, held.stream());
  ASSERT_TRUE(reader.has_value()) << reader.error().to_string();
  ASSERT_TRUE(reader->release().is_ok());
  const Buffer full = filled_on(0, kUsableBlocks * kBlock, 2);
  Buffer buffer = allocate(4 * kBlock);
  const Prefetch handle = prefetch(buffer);
  wait_until([&] { return references(buffer) != 0; });
  EXPECT_TRUE(buffer.free().is_ok());
  EXPECT_EQ(handle.wait().code(), StatusCode::kCancelled);
  EXPECT_FALSE(held.is_open());
  EXPECT_TRUE(pool().advise(pinned.address(), pinned.bytes(), Advice::kUnpin, 2).is_ok());
}

TEST_F(PoolPrefetchTest, AFreeOfAHeldBufferIsBusyAtOnceWhateverWaitsForIt) {
  for (const std::size_t bytes : {std::size_t{300}, 2 * kBlock}) {
    Buffer buffer = filled(bytes, 1);
    auto holder = acquire(buffer.all(Access::kWrite), host());
    ASSERT_TRUE(holder.has_value());
    const std::uint64_t before = waits();
    const Prefetch handle = prefetch(buffer);
    wait_until([&] { return waits() > before; });
    EXPECT_EQ(buffer.free().code(), StatusCode::kBusy);
    EXPECT_EQ(handle.wait().code(), StatusCode::kCancelled);
    EXPECT_TRUE(holder->release().is_ok());
    EXPECT_TRUE(buffer.free().is_ok());
  }
}

TEST_F(PoolPrefetchTest, ManyAreDoneInTheirOrder) {
  std::vector<Buffer> buffers;
  std::vector<Prefetch> handles;
  for (std::uint64_t i = 0; i < 12; ++i) buffers.push_back(filled(kBlock, i));
  for (const Buffer& buffer : buffers) handles.push_back(prefetch(buffer));
  EXPECT_TRUE(handles.back().wait().is_ok());
  for (const Prefetch& handle : handles) EXPECT_TRUE(handle.is_done());
  for (std::uint64_t i = 0; i < 12; ++i) expect_pattern(buffers[i], i);
}

TEST_F(PoolPrefetchTest, AFreeCancelsWhatIsRunningAndQueued) {
  Buffer buffer = filled(5 * kBlock, 1);
  const Buffer neighbour = filled(kBlock, 2);
  CallGate gate(machine().faults(0), "copy_from_host");
  const Prefetch running = prefetch(buffer);
  gate.wait_for_call();
  const Prefetch queued = prefetch(buffer);
  const Prefetch others = prefetch(neighbour);
  std::thread freeing([&] { EXPECT_TRUE(buffer.free().is_ok()); });
  gate.open();
  freeing.join();
  EXPECT_TRUE(running.is_done());
  EXPECT_TRUE(queued.is_done());
  EXPECT_TRUE(others.wait().is_ok());
  EXPECT_EQ(resident(neighbour, 0), kBlock);
  EXPECT_EQ(pool().stats().devices[0].used_bytes, kBlock) << "the freed buffer's memory is back";
}

TEST_F(PoolPrefetchTest, APoolMayEndWithPrefetchesQueued) {
  const PoolAddress address = filled(3 * kBlock, 1).release();
  const PoolAddress other = filled(3 * kBlock, 2).release();
  CallGate gate(machine().faults(0), "copy_from_host");
  auto running = pool().prefetch(address, 3 * kBlock, 0);
  gate.wait_for_call();
  auto queued = pool().prefetch(other, 3 * kBlock, 0);
  ASSERT_TRUE(running.has_value() && queued.has_value());
  std::thread ending([&] { machine().end_pool(); });
  gate.open();
  ending.join();
  EXPECT_TRUE(running->is_done());
  EXPECT_TRUE(queued->is_done());
  const StatusCode code = queued->wait().code();
  EXPECT_TRUE(code == StatusCode::kCancelled || code == StatusCode::kOk);
}

TEST_F(PoolPrefetchTest, TellsWhyItFailed) {
  const Buffer large = allocate((kUsableBlocks + 1) * kBlock);
  EXPECT_EQ(prefetch(large).wait().code(), StatusCode::kOutOfDeviceMemory);
  const Buffer buffer = filled(2 * kBlock, 1);
  Fault fault;
  fault.call = "copy_from_host";
  fault.code = StatusCode::kIoError;
  machine().faults(0).inject(fault);
  EXPECT_EQ(prefetch(buffer).wait().code(), StatusCode::kIoError);
  EXPECT_EQ(references(buffer), 0U);
  EXPECT_TRUE(prefetch(buffer).wait().is_ok());
  expect_pattern(buffer, 1);
}

TEST_F(PoolPrefetchTest, BadRangesAndDevicesAreRefusedAtOnce) {
  const Buffer buffer = filled(kBlock, 1);
  const auto code = [&](PoolAddress address, std::size_t bytes, DeviceIndex device) {
    return pool().prefetch(address, bytes, device).error().code();
  };
  EXPECT_EQ(code(buffer.address(), kBlock + 1, 0), StatusCode::kInvalidValue);
  EXPECT_EQ(code(buffer.address() + 1, SIZE_MAX, 0), StatusCode::kInvalidValue);
  EXPECT_EQ(code(buffer.address(), 0, 0), StatusCode::kInvalidValue);
  EXPECT_EQ(code(buffer.address() - 1, 1, 0), StatusCode::kInvalidValue);
  EXPECT_EQ(code(buffer.address(), 1, 17), StatusCode::kInvalidValue);
}

TEST_F(PoolPrefetchTest, AHandleOfNothingIsDone) {
  const Prefetch handle;
  EXPECT_TRUE(handle.is_done());
  EXPECT_TRUE(handle.wait().is_ok());
  handle.cancel();
}

}  // namespace
}  // namespace vmem::test
