// The order of streams: an acquire comes after what was released before it, and nobody waits who need not.
#include <atomic>

#include "tests/pool/pool_test.hpp"

namespace vmem::test {
namespace {

class PoolStreamTest : public PoolTest {
 protected:
  Device& inner(DeviceIndex device) { return machine().device(device).inner(); }

  // Enqueues a copy of a range to `found`, which must outlive it.
  Event enqueue_read(DeviceIndex device, const Acquired& acquired, Bytes& found, Stream stream) {
    auto event = inner(device).copy_to_host(found.data(), acquired.data(), found.size(), stream);
    EXPECT_TRUE(event.has_value());
    return event ? *event : Event();
  }
  // Acquires, fills on the stream, releases; none of it waits for the stream.
  void fill_on(const HeldStream& held, const Buffer& buffer, DeviceIndex device, std::uint8_t value) {
    auto acquired = acquire(buffer.all(Access::kWriteDiscard), device, held.stream());
    ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
    fill(device, acquired->data(), value, buffer.bytes(), held.stream());
    ASSERT_TRUE(acquired->release().is_ok());
    EXPECT_FALSE(held.is_open());
  }
};

TEST_F(PoolStreamTest, AnAcquireOnAStreamReturnsWhileTheStreamIsHeldAndComesAfterItsFetch) {
  PoolMachineSpec spec;
  spec.adjust = [](SimulatedDevice& device) {
    device.enforce_links = true;
    device.bandwidth_peer = 20e6;  // bytes are on their way for long enough to be read too early
  };
  make(spec);
  const Buffer buffer = filled_on(0, 2 * kBlock, 1);
  HeldStream held(inner(1));
  auto acquired = acquire(buffer.all(Access::kRead), 1, held.stream());
  ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
  Bytes found(buffer.bytes());
  const Event read = enqueue_read(1, *acquired, found, held.stream());
  EXPECT_FALSE(read.is_done());
  held.open();
  EXPECT_TRUE(read.wait().is_ok());
  expect_same(found, test_pattern(buffer.bytes(), 1));
  EXPECT_TRUE(acquired->wait().is_ok());
  EXPECT_TRUE(acquired->status().is_ok());
  EXPECT_TRUE(acquired->release().is_ok());
}

TEST_F(PoolStreamTest, AcrossVendorsAStreamAlsoComesAfterAllHops) {
  for (const std::uint32_t caps : {kAllCaps, kNoWindows}) {
    make(spec_of(caps, true));
    {
      const Buffer buffer = filled_on(0, 5 * kBlock, 1);
      HeldStream held(inner(1));
      auto acquired = acquire(buffer.all(Access::kRead), 1, held.stream());
      ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
      Bytes found(buffer.bytes());
      const Event read = enqueue_read(1, *acquired, found, held.stream());
      held.open();
      EXPECT_TRUE(read.wait().is_ok());
      expect_same(found, test_pattern(buffer.bytes(), 1));
      EXPECT_TRUE(acquired->wait().is_ok());
    }
    machine_.reset();
  }
}

TEST_F(PoolStreamTest, AHolderOnTheSameStreamComesAfterByTheStreamsOrder) {
  make();
  const Buffer buffer = filled(2 * kBlock, 1);
  HeldStream held(inner(0));
  fill_on(held, buffer, 0, 7);
  auto second = acquire(buffer.range(0, kBlock, Access::kWrite), 0, held.stream());
  ASSERT_TRUE(second.has_value()) << second.error().to_string();
  fill(0, second->data(), 8, kBlock, held.stream());
  ASSERT_TRUE(second->release().is_ok());
  held.open();
  Bytes expected(buffer.bytes(), 7);
  std::fill_n(expected.begin(), kBlock, std::uint8_t{8});
  expect_same(bytes_of(buffer), expected);
}

TEST_F(PoolStreamTest, AHolderOnAnotherStreamOfTheDeviceComesAfterWithoutWaiting) {
  make();
  const Buffer buffer = filled(2 * kBlock, 1);
  HeldStream held(inner(0));
  fill_on(held, buffer, 0, 7);
  auto other = inner(0).create_stream();
  ASSERT_TRUE(other.has_value());
  auto reader = acquire(buffer.all(Access::kRead), 0, *other);
  ASSERT_TRUE(reader.has_value()) << reader.error().to_string();
  Bytes found(buffer.bytes());
  const Event read = enqueue_read(0, *reader, found, *other);
  EXPECT_FALSE(read.is_done());
  held.open();
  EXPECT_TRUE(read.wait().is_ok());
  expect_same(found, Bytes(buffer.bytes(), 7));
  EXPECT_TRUE(reader->release().is_ok());
  EXPECT_TRUE(inner(0).destroy_stream(*other).is_ok());
}

TEST_F(PoolStreamTest, AHolderWithoutAStreamWaitsUntilTheWorkIsOver) {
  make();
  const Buffer buffer = filled(kBlock, 1);
  HeldStream held(inner(0));
  fill_on(held, buffer, 0, 7);
  EXPECT_EQ(acquire(buffer.all(Access::kRead), 0).error().code(), StatusCode::kBusy);
  EXPECT_EQ(acquire(buffer.range(3, 1, Access::kWriteDiscard), 0).error().code(), StatusCode::kBusy);
  EXPECT_EQ(references(buffer), 0U) << "who was refused holds nothing";
  std::thread reader([&] {
    auto acquired = acquire(buffer.all(Access::kRead), 0, {}, std::chrono::hours(1));
    ASSERT_TRUE(acquired.has_value());
    EXPECT_TRUE(held.is_open());
    expect_same(read(0, acquired->data(), kBlock), Bytes(kBlock, 7));
  });
  wait_until([&] { return references(buffer) != 0; });
  held.open();
  reader.join();
}

TEST_F(PoolStreamTest, ReadersDoNotWaitForReadersThatWereReleasedOnAStream) {
  make();
  const Buffer buffer = filled(kBlock, 1);
  HeldStream held(inner(0));
  auto reader = acquire(buffer.all(Access::kRead), 0, held.stream());
  ASSERT_TRUE(reader.has_value());
  ASSERT_TRUE(reader->release().is_ok());
  EXPECT_TRUE(fetch(buffer.all(Access::kRead), 0).is_ok());
  EXPECT_EQ(fetch(buffer.all(Access::kWrite), 0).code(), StatusCode::kBusy);
  held.open();
  auto writer = acquire(buffer.all(Access::kWrite), 0, {}, std::chrono::hours(1));
  EXPECT_TRUE(writer.has_value());
}

TEST_F(PoolStreamTest, AHolderOnAnotherDeviceFetchesWhenTheWorkIsOver) {
  for (const bool two_vendors : {false, true}) {
    make(spec_of(kAllCaps, two_vendors));
    {
      const Buffer buffer = filled(2 * kBlock, 1);
      HeldStream held(inner(0));
      fill_on(held, buffer, 0, 7);
      std::atomic<bool> early{false};
      machine().faults(0).set_hook([&](std::string_view call) {
        if ((call == "copy_to_peer" || call == "copy_to_host") && !held.is_open()) early = true;
      });
      std::thread reader([&] {
        auto acquired = acquire(buffer.all(Access::kRead), 1);
        ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
        EXPECT_TRUE(held.is_open());
        expect_same(read(1, acquired->data(), buffer.bytes()), Bytes(buffer.bytes(), 7));
      });
      wait_until([&] { return references(buffer) != 0; });
      held.open();
      reader.join();
      machine().faults(0).set_hook(nullptr);
      EXPECT_FALSE(early) << "the bytes were copied before they were written";
    }
    machine_.reset();
  }
}

TEST_F(PoolStreamTest, AnEvictionComesAfterTheWorkOnWhatLeaves) {
  make(one_gpu());
  const Buffer a = allocate(kUsableBlocks * kBlock);
  const Buffer b = filled(kUsableBlocks * kBlock, 2);
  {
    HeldStream held(inner(0));
    fill_on(held, a, 0, 7);
    std::thread reader([&] {
      auto acquired = acquire(b.all(Access::kRead), 0, {}, std::chrono::hours(1));
      ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
      EXPECT_TRUE(held.is_open()) << "a's frames were given to b while a was still written";
      expect_same(read(0, acquired->data(), b.bytes()), test_pattern(b.bytes(), 2));
    });
    wait_until([&] { return references(b) != 0; });
    held.open();
    reader.join();
  }
  expect_same(bytes_of(a), Bytes(a.bytes(), 7));
}

TEST_F(PoolStreamTest, AFreeComesAfterTheWorkOnTheBuffer) {
  make();
  for (const std::size_t bytes : {std::size_t{300}, 2 * kBlock}) {
    Buffer buffer = allocate(bytes);
    HeldStream held(inner(0));
    fill_on(held, buffer, 0, 7);
    const PoolAddress address = buffer.address();
    std::thread freeing([&] {
      EXPECT_TRUE(buffer.free().is_ok());
      EXPECT_TRUE(held.is_open()) << "the memory was given back under the work";
    });
    wait_until([&] { return !pool().translate(address).has_value(); });
    held.open();
    freeing.join();
  }
}

// Case C7: the last writer's bytes are there, whoever had the memory before and on whatever stream.
TEST_F(PoolStreamTest, ThreeStreamsOneAfterTheOtherLeaveTheLastOnesBytes) {
  make();
  const Buffer buffer = filled(kBlock, 1);
  HeldStream held(inner(0));
  fill_on(held, buffer, 0, 1);
  std::vector<Stream> streams;
  for (std::uint8_t i = 2; i < 5; ++i) {
    auto stream = inner(0).create_stream();
    ASSERT_TRUE(stream.has_value());
    streams.push_back(*stream);
    auto acquired = acquire(buffer.all(Access::kWrite), 0, *stream);
    ASSERT_TRUE(acquired.has_value());
    fill(0, acquired->data(), i, kBlock, *stream);
    ASSERT_TRUE(acquired->release().is_ok());
  }
  held.open();
  expect_same(bytes_of(buffer), Bytes(kBlock, 4));
  for (const Stream stream : streams) EXPECT_TRUE(inner(0).destroy_stream(stream).is_ok());
}

// Case C8.
TEST_F(PoolStreamTest, StreamsMayEndBeforeTheBuffersThatWereUsedOnThem) {
  make();
  const Buffer buffer = filled(kBlock, 1);
  for (std::uint8_t i = 0; i < 8; ++i) {
    auto stream = inner(0).create_stream();
    ASSERT_TRUE(stream.has_value());
    auto acquired = acquire(buffer.all(Access::kWrite), 0, *stream);
    ASSERT_TRUE(acquired.has_value());
    fill(0, acquired->data(), i, kBlock, *stream);
    ASSERT_TRUE(acquired->release().is_ok());
    ASSERT_TRUE(inner(0).destroy_stream(*stream).is_ok());
  }
  expect_same(bytes_of(buffer), Bytes(kBlock, 7));
}

TEST_F(PoolStreamTest, AStreamOfAnotherDeviceIsInvalid) {
  make();
  const Buffer buffer = filled(kBlock, 1);
  auto stream = inner(1).create_stream();
  ASSERT_TRUE(stream.has_value());
  const Status status = acquire(buffer.all(Access::kRead), 0, *stream).error();
  EXPECT_EQ(status.code(), StatusCode::kInvalidValue);
  EXPECT_EQ(status.device(), name_of(0));
  int foreign = 0;
  EXPECT_EQ(acquire(buffer.all(Access::kRead), 0, Stream(&foreign)).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(references(buffer), 0U);
  EXPECT_TRUE(inner(1).destroy_stream(*stream).is_ok());
}

// Case C9, as far as acquires go.
TEST_F(PoolStreamTest, ACapturingStreamIsRefusedAndNothingIsMoved) {
  make();
  const Buffer buffer = filled(kBlock, 1);
  auto stream = inner(0).create_stream();
  ASSERT_TRUE(stream.has_value());
  machine().faults(0).set_capturing(*stream);
  EXPECT_EQ(acquire(buffer.all(Access::kRead), 0, *stream).error().code(), StatusCode::kUnsupported);
  EXPECT_EQ(resident(buffer, 0), 0U);
  EXPECT_EQ(references(buffer), 0U);
  machine().faults(0).set_capturing(Stream());
  EXPECT_TRUE(acquire(buffer.all(Access::kRead), 0, *stream).has_value());
  EXPECT_TRUE(inner(0).destroy_stream(*stream).is_ok());
}

}  // namespace
}  // namespace vmem::test
