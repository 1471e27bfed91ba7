// How things end: released, moved from, taken down, forked.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/pool/pool_test.hpp"

namespace vmem::test {
namespace {

class PoolLifetimeTest : public PoolTest {
 protected:
  void SetUp() override { make(); }
};

TEST_F(PoolLifetimeTest, APoolWithEverythingFreeGivesAllMemoryBack) {
  {
    const Buffer a = filled_on(0, 5 * kBlock, 1);
    const Buffer b = filled_on(1, 300, 2);
    ASSERT_TRUE(fetch(a.all(Access::kRead), 1).is_ok());
  }
  for (const DeviceStats& device : pool().stats().devices) {
    if (device.name == name_of(0)) {
      EXPECT_EQ(device.used_bytes, 0U);
    }
  }
  machine().end_pool();  // compares the devices' free memory with that at the start
}

TEST_F(PoolLifetimeTest, BuffersThatNobodyFreedGoWithThePool) {
  filled_on(0, 5 * kBlock, 1).release();
  filled_on(1, 300, 2).release();
  machine().end_pool();
}

TEST_F(PoolLifetimeTest, PinsGoWithThePool) {
  for (const std::size_t bytes : {std::size_t{300}, 3 * kBlock}) {
    const PoolAddress address = filled(bytes, 1).release();
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(pool().advise(address, bytes, Advice::kPin, 0).is_ok());
  }
  machine().end_pool();  // compares the devices' free memory with that at the start
}

TEST_F(PoolLifetimeTest, ABufferMayOutliveItsPool) {
  Buffer small = filled(300, 1);
  Buffer large = filled(3 * kBlock, 2);
  machine().end_pool();  // all memory is back
  EXPECT_TRUE(small.free().is_ok()) << "there is nothing left to free";
  EXPECT_EQ(small.address(), 0U);
}

// A child process ends before anything could be checked for leaks: what is acquired is left as it is, for good.
TEST_F(PoolLifetimeTest, APoolThatEndsWhileSomethingIsAcquiredLeavesItsMemoryAlone) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        Buffer buffer = filled_on(0, 2 * kBlock, 1);
        auto acquired = acquire(buffer.all(Access::kWrite), 0);
        auto prefetch = pool().prefetch(buffer.address(), buffer.bytes(), 1);  // waits for the holder
        machine().drop_pool();
        const bool there = read(0, acquired->data(), buffer.bytes()) == test_pattern(buffer.bytes(), 1);
        const bool cancelled = prefetch->wait().code() == StatusCode::kCancelled;
        const bool refused = acquired->release().code() == StatusCode::kInvalidValue;
        std::_Exit(there && cancelled && refused && buffer.free().is_ok() ? 7 : 1);
      },
      testing::ExitedWithCode(7), "");
}

TEST_F(PoolLifetimeTest, AnAcquiredReleasesWhenItIsDestroyed) {
  const Buffer buffer = filled(kBlock, 1);
  {
    auto acquired = acquire(buffer.all(Access::kWrite), 0);
    ASSERT_TRUE(acquired.has_value());
    EXPECT_EQ(references(buffer), 1U);
  }
  EXPECT_EQ(references(buffer), 0U);
  EXPECT_TRUE(fetch(buffer.all(Access::kWrite), 1).is_ok());
}

TEST_F(PoolLifetimeTest, AnAcquiredMayBeReleasedByAnotherThread) {
  const Buffer buffer = filled(kBlock, 1);
  auto acquired = acquire(buffer.all(Access::kWrite), 0);
  ASSERT_TRUE(acquired.has_value());
  fill(0, acquired->data(), 4, kBlock);
  std::thread([held = std::move(*acquired)]() mutable { EXPECT_TRUE(held.release().is_ok()); }).join();
  EXPECT_EQ(references(buffer), 0U);
  expect_same(bytes_of(buffer), Bytes(kBlock, 4));
}

TEST_F(PoolLifetimeTest, WhatWasReleasedOrMovedFromIsEmpty) {
  const Buffer buffer = filled(kBlock, 1);
  auto acquired = acquire(buffer.all(Access::kRead), 0);
  ASSERT_TRUE(acquired.has_value());
  Acquired moved_to = std::move(*acquired);
  EXPECT_EQ(acquired->size(), 0U);
  EXPECT_EQ(acquired->status().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(acquired->wait().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(acquired->release().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(references(buffer), 1U) << "the right moved along";
  EXPECT_EQ(moved_to.size(), 1U);
  EXPECT_TRUE(moved_to.release().is_ok());
  EXPECT_EQ(moved_to.release().code(), StatusCode::kInvalidValue) << "twice";
  EXPECT_EQ(Acquired().size(), 0U);
}

TEST_F(PoolLifetimeTest, AssigningToAnAcquiredReleasesWhatItHad) {
  const Buffer a = filled(kBlock, 1);
  const Buffer b = filled(kBlock, 2);
  auto first = acquire(a.all(Access::kWrite), 0);
  auto second = acquire(b.all(Access::kWrite), 0);
  ASSERT_TRUE(first.has_value() && second.has_value());
  *first = std::move(*second);
  EXPECT_EQ(references(a), 0U);
  EXPECT_EQ(references(b), 1U);
  expect_same(read(0, first->data(), kBlock), test_pattern(kBlock, 2));
  *first = Acquired();
  EXPECT_EQ(references(b), 0U);
}

TEST_F(PoolLifetimeTest, BuffersMoveAndFreeWhatTheyHad) {
  Buffer a = filled(kBlock, 1);
  const PoolAddress first = a.address();
  Buffer b = std::move(a);
  EXPECT_EQ(a.address(), 0U);
  EXPECT_EQ(a.bytes(), 0U);
  EXPECT_EQ(b.address(), first);
  expect_pattern(b, 1);
  Buffer c = filled(kBlock, 2);
  b = std::move(c);
  EXPECT_FALSE(pool().translate(first).has_value());
  expect_pattern(b, 2);
  EXPECT_EQ(pool().stats().buffers, 1U);
  const PoolAddress kept = b.release();
  EXPECT_EQ(b.address(), 0U);
  EXPECT_TRUE(pool().translate(kept).has_value());
  EXPECT_TRUE(pool().free(kept).is_ok());
}

TEST_F(PoolLifetimeTest, TwoPoolsOnTheSameDevicesDoNotMeet) {
  auto other = machine().make_pool(pool().options());
  ASSERT_TRUE(other.has_value());
  const Buffer a = filled_on(0, 2 * kBlock, 1);
  auto b = (*other)->allocate(2 * kBlock);
  ASSERT_TRUE(b.has_value());
  const Bytes pattern = test_pattern(2 * kBlock, 2);
  AcquireOptions on;
  ASSERT_TRUE((*other)->copy_in(b->address(), pattern.data(), pattern.size()).is_ok());
  {
    auto acquired = (*other)->acquire(b->all(Access::kWrite), on);
    ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
    expect_same(read(0, acquired->data(), pattern.size()), pattern);
  }
  EXPECT_EQ((*other)->acquire(a.all(Access::kRead), on).error().code(), StatusCode::kInvalidValue);
  EXPECT_FALSE((*other)->contains(a.address()));
  EXPECT_TRUE(b->free().is_ok());
  other->reset();
  expect_pattern(a, 1);
}

// A thread of the parent's may hold any lock while it forks, which TSan can't model.
#if !defined(__SANITIZE_THREAD__)

TEST_F(PoolLifetimeTest, AChildAfterForkGetsAnErrorAtOnceAndEndsCleanly) {
  Buffer buffer = filled(2 * kBlock, 1);
  auto held = acquire(buffer.all(Access::kRead), 0);
  ASSERT_TRUE(held.has_value());
  auto prefetch = pool().prefetch(buffer.address(), buffer.bytes(), 1);
  ASSERT_TRUE(prefetch.has_value() && prefetch->wait().is_ok());
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    int failures = 0;
    const auto expect_failed = [&](const Status& status) {
      failures += status.code() == StatusCode::kDeviceFailed ? 0 : 1;
    };
    std::uint8_t byte = 0;
    expect_failed(pool().allocate(1).error());
    expect_failed(pool().free(buffer.address()));
    expect_failed(acquire(buffer.all(Access::kRead), 0).error());
    expect_failed(pool().prefetch(buffer.address(), 1, 0).error());
    expect_failed(pool().advise(buffer.address(), 1, Advice::kPin, 0));
    expect_failed(pool().copy_in(buffer.address(), &byte, 1));
    expect_failed(pool().copy_out(&byte, buffer.address(), 1));
    expect_failed(pool().copy(buffer.address(), buffer.address() + kBlock, 1));
    expect_failed(pool().fill(buffer.address(), 0, 1));
    expect_failed(pool().translate(buffer.address()).error());
    expect_failed(pool().residency(buffer.address(), 1).error());
    expect_failed(pool().status());
    failures += pool().stats().buffers == 0 ? 0 : 1;
    expect_failed(held->release());
    expect_failed(buffer.free());
    ::_exit(failures);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "calls that answered something else";
  EXPECT_TRUE(held->release().is_ok()) << "the parent has not noticed";
  expect_pattern(buffer, 1);
}

#endif

}  // namespace
}  // namespace vmem::test
