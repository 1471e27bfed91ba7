// Bytes that fail to arrive after their acquire has returned: everybody is told until they are fetched again or
// discarded, and nothing computed on them counts.
#include "tests/pool/pool_test.hpp"

namespace vmem::test {
namespace {

constexpr std::chrono::milliseconds kHour = std::chrono::hours(1);

class PoolLateFailureTest : public PoolTest {
 protected:
  void SetUp() override {
    make();
    for (DeviceIndex i = 0; i < 2; ++i) streams_[i] = *inner(i).create_stream();
  }
  void TearDown() override {
    if (machine_ == nullptr) return;
    for (DeviceIndex i = 0; i < 2; ++i) EXPECT_TRUE(inner(i).destroy_stream(streams_[i]).is_ok());
  }

  Device& inner(DeviceIndex device) { return machine().device(device).inner(); }
  // The device itself does it, so that a stream can wait on the work that goes wrong.
  void misbehave(DeviceIndex device, Fault::Kind kind, const std::string& call, std::uint64_t after = 0) {
    Fault fault;
    fault.kind = kind;
    fault.call = call;
    fault.after = after;
    fault.code = StatusCode::kIoError;
    ASSERT_TRUE(inner(device).inject(fault).is_ok());
  }
  // The copy that hangs on a device ends, and not well, also where the device comes to it only now.
  void end_hung_copy(DeviceIndex device) {
    wait_until([&] {
      EXPECT_TRUE(inner(device).clear_faults().is_ok());
      return !pool().status().is_ok();
    });
  }
  // Writes a value over the ranges on device 1, whose fetches from device 0 may fail; the outcome of the release.
  Status work_on(const std::vector<AcquireRange>& ranges, std::uint8_t value) {
    auto acquired = acquire(ranges, 1, streams_[1]);
    if (!acquired) return acquired.error();
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      if (ranges[i].access != Access::kRead) fill(1, acquired->data(i), value, ranges[i].bytes, streams_[1]);
    }
    static_cast<void>(acquired->wait());
    return acquired->release();
  }
  // Everybody is told, as often as they ask, wherever they are.
  void expect_told(const Buffer& buffer, StatusCode code) {
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(pool().status().code(), code);
      for (DeviceIndex device = 0; device < machine().num_devices(); ++device) {
        for (const Access access : {Access::kRead, Access::kWrite}) {
          const Status status = fetch(buffer.all(access), device);
          EXPECT_EQ(status.code(), code) << "on device " << device;
          EXPECT_NE(status.message().find("prefetch"), std::string_view::npos) << status.to_string();
        }
      }
      Bytes found(buffer.bytes());
      EXPECT_EQ(pool().copy_out(found.data(), buffer.address(), found.size()).code(), code);
      EXPECT_EQ(pool().advise(buffer.address(), buffer.bytes(), Advice::kPin, 1).code(), code);
    }
    EXPECT_EQ(references(buffer), 0U);
  }
  Status prefetch(const Buffer& buffer, DeviceIndex device) {
    VMEM_ASSIGN_OR_RETURN(const Prefetch handle, pool().prefetch(buffer.address(), buffer.bytes(), device));
    return handle.wait();
  }

  Stream streams_[2];
};

TEST_F(PoolLateFailureTest, IsToldByTheAcquireAndNothingIsCommitted) {
  const Buffer buffer = filled_on(0, kBlock, 1);
  misbehave(0, Fault::Kind::kFail, "copy_to_peer");
  auto acquired = acquire(buffer.all(Access::kWrite), 1, streams_[1]);
  ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
  fill(1, acquired->data(), 9, buffer.bytes(), streams_[1]);
  EXPECT_EQ(acquired->wait().code(), StatusCode::kIoError);
  EXPECT_EQ(acquired->status().code(), StatusCode::kIoError);
  EXPECT_EQ(acquired->release().code(), StatusCode::kIoError);
  EXPECT_EQ(acquired->size(), 0U) << "given back all the same";
  EXPECT_EQ(resident(buffer, 1), 0U);
  EXPECT_EQ(resident(buffer, 0), buffer.bytes()) << "the old instance stays valid";
  expect_told(buffer, StatusCode::kIoError);
}

TEST_F(PoolLateFailureTest, IsOverOnceTheRangeIsFetchedAgainAnywhere) {
  for (const DeviceIndex device : {DeviceIndex{1}, DeviceIndex{0}, host()}) {
    SCOPED_TRACE(device);
    const Buffer buffer = filled_on(0, 2 * kBlock, 1);
    misbehave(0, Fault::Kind::kFail, "copy_to_peer");
    EXPECT_EQ(work_on({buffer.all(Access::kWrite)}, 9).code(), StatusCode::kIoError);
    expect_told(buffer, StatusCode::kIoError);
    ASSERT_TRUE(prefetch(buffer, device).is_ok());
    EXPECT_TRUE(pool().status().is_ok());
    expect_pattern(buffer, 1);
    EXPECT_TRUE(work_on({buffer.all(Access::kWrite)}, 9).is_ok());
    expect_same(bytes_of(buffer), Bytes(buffer.bytes(), 9));
  }
}

TEST_F(PoolLateFailureTest, APrefetchThatFailsTooChangesNothing) {
  const Buffer buffer = filled_on(0, kBlock, 1);
  misbehave(0, Fault::Kind::kFail, "copy_to_peer");
  EXPECT_EQ(work_on({buffer.all(Access::kWrite)}, 9).code(), StatusCode::kIoError);
  misbehave(0, Fault::Kind::kFail, "copy_to_peer");
  EXPECT_EQ(prefetch(buffer, 1).code(), StatusCode::kIoError);
  expect_told(buffer, StatusCode::kIoError);
}

TEST_F(PoolLateFailureTest, IsOverForThePagesThatAreDiscarded) {
  const Buffer buffer = filled_on(0, kBlock, 1);
  misbehave(0, Fault::Kind::kFail, "copy_to_peer");
  EXPECT_EQ(work_on({buffer.all(Access::kWrite)}, 9).code(), StatusCode::kIoError);
  const std::size_t half = kBlock / 2;
  EXPECT_EQ(fetch(buffer.range(100, half - 100, Access::kWriteDiscard), 0).code(), StatusCode::kIoError)
      << "the bytes around it would be needed";
  EXPECT_TRUE(pool().fill(buffer.address(), 7, half).is_ok());
  Bytes found(half);
  EXPECT_TRUE(pool().copy_out(found.data(), buffer.address(), half).is_ok());
  expect_same(found, Bytes(half, 7));
  EXPECT_EQ(pool().copy_out(found.data(), buffer.address() + half, half).code(), StatusCode::kIoError);
  EXPECT_EQ(pool().status().code(), StatusCode::kIoError);
  const Bytes fresh = test_pattern(half, 2);
  EXPECT_TRUE(pool().copy_in(buffer.address() + half, fresh.data(), half).is_ok());
  EXPECT_TRUE(pool().status().is_ok());
  EXPECT_TRUE(fetch(buffer.all(Access::kWrite), 1).is_ok());
}

TEST_F(PoolLateFailureTest, IsOverWhenTheBufferIsFreed) {
  for (const std::size_t bytes : {std::size_t{3000}, kBlock}) {
    Buffer buffer = filled_on(0, bytes, 1);
    const Buffer neighbour = filled(3000, 2);
    misbehave(0, Fault::Kind::kFail, "copy_to_peer");
    EXPECT_EQ(work_on({buffer.all(Access::kWrite)}, 9).code(), StatusCode::kIoError);
    expect_pattern(neighbour, 2);
    EXPECT_TRUE(buffer.free().is_ok());
    EXPECT_TRUE(pool().status().is_ok());
    EXPECT_TRUE(fetch(allocate(bytes).all(Access::kWrite), 0).is_ok()) << "whoever gets the addresses next";
  }
}

TEST_F(PoolLateFailureTest, AfterTheReleaseItIsToldToWhoComesNext) {
  const Buffer buffer = filled_on(0, kBlock, 1);
  misbehave(0, Fault::Kind::kHang, "copy_to_peer");
  auto acquired = acquire(buffer.all(Access::kWrite), 1, streams_[1]);
  ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
  EXPECT_TRUE(acquired->status().is_ok()) << "nothing is known yet";
  fill(1, acquired->data(), 9, kBlock, streams_[1]);
  EXPECT_TRUE(acquired->release().is_ok());
  end_hung_copy(0);
  expect_told(buffer, pool().status().code());
  EXPECT_TRUE(prefetch(buffer, 1).is_ok());
  expect_pattern(buffer, 1);
}

TEST_F(PoolLateFailureTest, AWriterThatDiscardsNeedsNotWhatDidNotArriveBeforeIt) {
  const Buffer buffer = filled_on(0, kBlock, 1);
  misbehave(0, Fault::Kind::kHang, "copy_to_peer");
  auto reader = acquire(buffer.all(Access::kRead), 1, streams_[1]);
  ASSERT_TRUE(reader.has_value());
  EXPECT_TRUE(reader->release().is_ok());
  auto writer = acquire(buffer.all(Access::kWriteDiscard), 1, streams_[1]);
  ASSERT_TRUE(writer.has_value()) << writer.error().to_string();
  fill(1, writer->data(), 9, kBlock, streams_[1]);
  end_hung_copy(0);
  EXPECT_TRUE(writer->wait().is_ok());
  EXPECT_TRUE(writer->release().is_ok());
  EXPECT_TRUE(pool().status().is_ok());
  auto after = acquire(buffer.all(Access::kRead), host(), {}, kHour);
  ASSERT_TRUE(after.has_value()) << after.error().to_string();
  expect_same(read(host(), after->data(), kBlock), Bytes(kBlock, 9));
}

// What is computed from bytes that did not arrive is worth no more than they are.
TEST_F(PoolLateFailureTest, NothingWrittenUnderTheSameListIsTakenOver) {
  const Buffer input = filled_on(0, kBlock, 1);
  const Buffer on_host = filled(kBlock, 2);
  const Buffer here = filled_on(1, kBlock, 3);
  const Buffer unwritten = allocate(kBlock);
  misbehave(0, Fault::Kind::kFail, "copy_to_peer");
  EXPECT_EQ(work_on({input.all(Access::kRead), on_host.all(Access::kWrite), here.all(Access::kWrite),
                     unwritten.all(Access::kWriteDiscard)},
                    9)
                .code(),
            StatusCode::kIoError);
  for (const Buffer* buffer : {&input, &on_host, &here, &unwritten}) expect_told(*buffer, StatusCode::kIoError);
  ASSERT_TRUE(prefetch(on_host, 1).is_ok());
  expect_pattern(on_host, 2);
  ASSERT_TRUE(prefetch(input, 1).is_ok());
  expect_pattern(input, 1);
  // Of these there was no other copy: what lies there is the kernel's, and only who asks for it gets it.
  for (const Buffer* buffer : {&here, &unwritten}) {
    ASSERT_TRUE(prefetch(*buffer, 1).is_ok());
    EXPECT_TRUE(fetch(buffer->all(Access::kRead), 0).is_ok());
  }
}

TEST_F(PoolLateFailureTest, AListReleasedBeforeItIsKnownIsTakenOverAsAWholeOrNot) {
  const Buffer input = filled_on(0, kBlock, 1);
  const Buffer output = filled(kBlock, 2);
  misbehave(0, Fault::Kind::kHang, "copy_to_peer");
  auto acquired = acquire({input.all(Access::kRead), output.all(Access::kWrite)}, 1, streams_[1]);
  ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
  fill(1, acquired->data(1), 9, kBlock, streams_[1]);
  EXPECT_TRUE(acquired->release().is_ok());
  EXPECT_EQ(resident(output, host()), kBlock) << "not yet taken over";
  std::thread next([&] {
    EXPECT_FALSE(acquire(output.all(Access::kRead), 0, {}, kHour).has_value());  // waits until it is known
  });
  end_hung_copy(0);
  next.join();
  ASSERT_TRUE(prefetch(output, 0).is_ok());
  expect_pattern(output, 2);
}

TEST_F(PoolLateFailureTest, OtherHoldersReleaseWell) {
  const Buffer buffer = filled_on(0, kBlock, 1);
  auto at_the_source = acquire(buffer.all(Access::kRead), 0);
  ASSERT_TRUE(at_the_source.has_value());
  misbehave(0, Fault::Kind::kFail, "copy_to_peer");
  EXPECT_EQ(work_on({buffer.all(Access::kRead)}, 9).code(), StatusCode::kIoError);
  expect_same(read(0, at_the_source->data(), kBlock), test_pattern(kBlock, 1));
  EXPECT_TRUE(at_the_source->release().is_ok()) << "its bytes were there";
}

// The release was told nothing, so that the bytes from before must not pass for those that were written.
TEST_F(PoolLateFailureTest, ADeviceThatDiesBeforeTheFetchArrivedTakesTheWriteWithItAndEverybodyIsTold) {
  const Buffer buffer = filled_on(0, kBlock, 1);
  misbehave(0, Fault::Kind::kHang, "copy_to_peer");
  auto acquired = acquire(buffer.all(Access::kWrite), 1, streams_[1]);
  ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
  EXPECT_TRUE(acquired->release().is_ok());
  auto after_the_fetch = inner(1).record(streams_[1]);
  ASSERT_TRUE(after_the_fetch.has_value());
  machine().faults(1).vanish();
  ASSERT_FALSE(fetch(filled_on(0, kBlock, 2).all(Access::kRead), 1).is_ok());
  ASSERT_TRUE(pool().stats().devices[1].failed);
  wait_until([&] { return inner(0).clear_faults().is_ok() && after_the_fetch->is_done(); });
  const Status status = fetch(buffer.all(Access::kRead), 0);
  EXPECT_EQ(status.code(), StatusCode::kDeviceFailed) << status.to_string();
  EXPECT_EQ(fetch(buffer.all(Access::kRead), host()).code(), StatusCode::kDeviceFailed);
  ASSERT_TRUE(prefetch(buffer, 0).is_ok());
  expect_pattern(buffer, 1);
}

}  // namespace
}  // namespace vmem::test
