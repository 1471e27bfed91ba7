// The rows of the table of page states in block.hpp, and what a block answers about its holds and instances.
#include "runtime/residency/block.hpp"

#include <gtest/gtest.h>

#include "tests/unit/residency/block_fixture.hpp"

namespace vmem {
namespace {

class BlockTest : public test::BlockFixture {};

// -- Transitions -----------------------------------------------------------------------------------------------------

TEST_F(BlockTest, AWriteToUnwrittenPagesMakesThemPresentOnItsDeviceAlone) {
  MutexLock lock(block_.mutex);
  block_.commit_write(1, {2, 6});
  EXPECT_EQ(at(1).valid, pages({2, 6}));
  EXPECT_EQ(at(1).dirty, pages({2, 6}));
  EXPECT_EQ(block_.present(), pages({2, 6}));
  expect_consistent();
}

TEST_F(BlockTest, AWriteTakesThePagesAwayFromAllOthers) {
  MutexLock lock(block_.mutex);
  set(0, kAllPages, kAllPages);
  set(2, {4, 12}, {0, 0});
  block_.commit_write(1, {2, 6});
  EXPECT_EQ(at(0).valid, pages(kAllPages) - pages({2, 6}));
  EXPECT_EQ(at(0).dirty, pages(kAllPages) - pages({2, 6}));
  EXPECT_EQ(at(1).dirty, pages({2, 6}));
  EXPECT_EQ(at(2).valid, pages({6, 12}));
  expect_consistent();
}

TEST_F(BlockTest, AWriteMakesLostAndZeroedPagesPresent) {
  MutexLock lock(block_.mutex);
  block_.lost = pages({0, 4});
  block_.zeroed = pages({4, 8});
  block_.commit_write(0, {2, 6});
  EXPECT_EQ(block_.lost, pages({0, 2}));
  EXPECT_EQ(block_.zeroed, pages({6, 8}));
  EXPECT_EQ(at(0).dirty, pages({2, 6}));
  expect_consistent();
}

TEST_F(BlockTest, AWriteBesideALeavingInstanceOfItsDeviceIsCommittedOnTheOther) {
  MutexLock lock(block_.mutex);
  set(0, kAllPages, kAllPages);
  at(0).leaving = true;
  FrameSpan second;
  second.device = 0;
  Instance instance;
  instance.span = &second;
  instance.device = 0;
  instance.valid = PageMask(kPages);
  instance.dirty = PageMask(kPages);
  block_.instances.push_back(std::move(instance));
  EXPECT_EQ(block_.find(DeviceIndex{0})->span, &second);
  block_.commit_write(0, {0, 4});
  EXPECT_EQ(block_.find(second)->dirty, pages({0, 4}));
  EXPECT_EQ(at(0).valid, pages({4, kPages}));
  expect_consistent();
}

TEST_F(BlockTest, AnEvictionHandsOverWhatWasValidAndOwned) {
  MutexLock lock(block_.mutex);
  set(0, {0, 10}, {0, 6});
  set(1, {6, 10}, {6, 10});
  block_.hand_over(at(0), at(2), pages({0, 10}));
  EXPECT_EQ(at(2).valid, pages({0, 10}));
  EXPECT_EQ(at(2).dirty, pages({0, 6})) << "who did not own can't give ownership";
  EXPECT_TRUE(at(0).dirty.none());
  EXPECT_EQ(at(1).dirty, pages({6, 10}));
  expect_consistent();
}

TEST_F(BlockTest, AnEvictionLeavesPagesThatWereOverwrittenElsewhereMeanwhile) {
  MutexLock lock(block_.mutex);
  set(0, {0, 10}, {0, 10});
  block_.commit_write(1, {2, 4});  // while the copy of [0, 10) to device 2 was under way
  block_.hand_over(at(0), at(2), pages({0, 10}));
  EXPECT_EQ(at(2).valid, pages({0, 10}) - pages({2, 4}));
  EXPECT_EQ(at(1).dirty, pages({2, 4}));
  expect_consistent();
}

TEST_F(BlockTest, ADroppedInstanceGivesItsPagesToOthersThatHaveThem) {
  MutexLock lock(block_.mutex);
  set(0, kAllPages, kAllPages);
  set(1, {0, 8}, {0, 0});
  set(2, {6, 16}, {0, 0});
  EXPECT_TRUE(block_.give_up(at(0)).none());
  EXPECT_TRUE(at(0).dirty.none());
  EXPECT_EQ(at(1).dirty | at(2).dirty, pages(kAllPages));
  expect_consistent();
}

TEST_F(BlockTest, GiveUpAnswersWhatNobodyElseHas) {
  MutexLock lock(block_.mutex);
  set(0, kAllPages, {0, 12});
  set(2, {0, kPages}, {12, kPages});
  at(2).valid = pages({4, 6}) | pages({12, kPages});
  EXPECT_EQ(block_.give_up(at(0)), pages({0, 4}) | pages({6, 12}));
  EXPECT_EQ(at(2).dirty, pages({4, 6}) | pages({12, kPages}));
  expect_consistent();
}

TEST_F(BlockTest, PagesAreNotGivenToWhoLeavesOrWaitsForThem) {
  MutexLock lock(block_.mutex);
  set(0, kAllPages, kAllPages);
  set(1, kAllPages, {0, 0});
  at(1).leaving = true;
  const auto copy = arrive(2, {0, 8});
  EXPECT_EQ(block_.give_up(at(0)), pages(kAllPages));
  EXPECT_TRUE(at(1).dirty.none());
  EXPECT_TRUE(at(2).dirty.none());
  copy->complete();
  EXPECT_TRUE(block_.settle(kAllPages));
  EXPECT_EQ(block_.give_up(at(0)), pages({8, kPages}));
  EXPECT_EQ(at(2).dirty, pages({0, 8}));
}

TEST_F(BlockTest, TheFirstReadOwnsWhateverIsThere) {
  MutexLock lock(block_.mutex);
  set(1, {0, 4}, {0, 4});
  block_.lost = pages({4, 6});
  block_.zeroed = pages({6, 8});
  block_.commit_first_use(at(0), {2, 10});
  EXPECT_EQ(at(0).valid, pages({6, 10})) << "neither what another has nor what is lost";
  EXPECT_EQ(at(0).dirty, pages({6, 10}));
  EXPECT_TRUE(block_.zeroed.none());
  EXPECT_EQ(block_.lost, pages({4, 6}));
  expect_consistent();
}

TEST_F(BlockTest, ForgottenPagesAreUnwritten) {
  MutexLock lock(block_.mutex);
  set(0, kAllPages, {0, 8});
  set(1, {8, 12}, {8, 12});
  at(0).valid = pages({0, 8});
  block_.lost = pages({12, 16});
  block_.faults.push_back({{5, 6}, 1, Status(StatusCode::kIoError, "earlier")});
  block_.faults.push_back({{15, 16}, 1, Status(StatusCode::kInternal, "beyond")});
  block_.forget({4, 14}, false);
  EXPECT_EQ(block_.present(), pages({0, 4}));
  EXPECT_EQ(block_.lost, pages({14, 16}));
  EXPECT_TRUE(block_.zeroed.none());
  EXPECT_TRUE(block_.fault_of({4, 14}).is_ok());
  EXPECT_EQ(block_.fault_of({15, 16}).code(), StatusCode::kInternal);
  expect_consistent();
}

TEST_F(BlockTest, ForgottenPagesCanReadAsZero) {
  MutexLock lock(block_.mutex);
  set(0, kAllPages, kAllPages);
  block_.forget({4, 8}, true);
  EXPECT_EQ(block_.zeroed, pages({4, 8}));
  block_.forget({6, 8}, false);
  EXPECT_EQ(block_.zeroed, pages({4, 6}));
  expect_consistent();
}

TEST_F(BlockTest, AnAbortedWriteKeepsOnlyWhatNobodyElseHas) {
  MutexLock lock(block_.mutex);
  set(0, {0, 8}, {0, 8});    // the bytes from before
  set(1, {0, 12}, {8, 12});  // the writer's: [8, 12) were new
  block_.abort_write(1, {0, 12}, Status(StatusCode::kIoError, "the fetch failed"));
  EXPECT_EQ(at(1).valid, pages({8, 12}));
  EXPECT_EQ(at(1).dirty, pages({8, 12}));
  EXPECT_EQ(at(0).dirty, pages({0, 8}));
  expect_consistent();
}

TEST_F(BlockTest, AnAbortedWriteOfTheOwnerLeavesThePagesToAnotherCopy) {
  MutexLock lock(block_.mutex);
  set(0, {0, 8}, {0, 8});
  set(1, {0, 4}, {0, 0});
  block_.abort_write(0, {0, 8}, Status(StatusCode::kIoError, "the fetch failed"));
  EXPECT_EQ(at(0).valid, pages({4, 8}));
  EXPECT_EQ(at(1).dirty, pages({0, 4})) << "the bytes from before are its now";
  expect_consistent();
}

TEST_F(BlockTest, AnAbortedWriteOnADeviceWithoutTheBlockChangesNothing) {
  MutexLock lock(block_.mutex);
  set(0, kAllPages, kAllPages);
  block_.abort_write(7, kAllPages, Status(StatusCode::kIoError, "the fetch failed"));
  EXPECT_EQ(at(0).dirty, pages(kAllPages));
}

// -- Queries ---------------------------------------------------------------------------------------------------------

TEST_F(BlockTest, ReadersShareAndAWriterIsAlone) {
  const int reader = 0;
  const int other = 0;
  MutexLock lock(block_.mutex);
  block_.holds.push_back({&reader, {4, 8}, 0, false});
  EXPECT_FALSE(block_.conflicts({4, 8}, false, &other));
  EXPECT_TRUE(block_.conflicts({7, 9}, true, &other));
  EXPECT_FALSE(block_.conflicts({8, 9}, true, &other)) << "pages beside it";
  EXPECT_FALSE(block_.conflicts({0, 4}, true, &other));
  EXPECT_FALSE(block_.conflicts({4, 8}, true, &reader)) << "a claim does not stand against itself";
  block_.holds.push_back({&other, {10, 12}, 1, true});
  EXPECT_TRUE(block_.conflicts({11, 13}, false, &reader));
  EXPECT_TRUE(block_.conflicts({11, 13}, true, &reader));
  EXPECT_FALSE(block_.conflicts({12, 13}, true, &reader));
}

TEST_F(BlockTest, AnInstanceMayLeaveUnlessItIsHeldPinnedLeavingOrRetired) {
  MutexLock lock(block_.mutex);
  set(0, kAllPages, kAllPages);
  EXPECT_TRUE(block_.may_leave(at(0)));
  at(0).num_holds = 1;
  EXPECT_FALSE(block_.may_leave(at(0)));
  at(0).num_holds = 0;
  at(0).num_pins = 1;
  EXPECT_FALSE(block_.may_leave(at(0)));
  at(0).num_pins = 0;
  at(0).leaving = true;
  EXPECT_FALSE(block_.may_leave(at(0)));
  at(0).leaving = false;
  block_.retired = true;
  EXPECT_FALSE(block_.may_leave(at(0)));
  block_.retired = false;
  EXPECT_TRUE(block_.may_leave(at(0)));
}

TEST_F(BlockTest, TheBytesFromBeforeStayWhileAWriterElsewhereHoldsThem) {
  const int writer = 0;
  const int reader = 0;
  MutexLock lock(block_.mutex);
  set(0, {0, 8}, {0, 4});
  block_.holds.push_back({&reader, kAllPages, 1, false});
  EXPECT_TRUE(block_.may_leave(at(0))) << "a reader elsewhere needs nothing here";
  block_.holds.push_back({&writer, {2, 3}, 1, true});
  EXPECT_FALSE(block_.may_leave(at(0)));
  EXPECT_TRUE(block_.may_leave(at(0), &writer)) << "a writer that has not begun may move them itself";
  at(0).dirty = pages({4, 8});
  EXPECT_TRUE(block_.may_leave(at(0))) << "it owns none of the pages";
}

TEST_F(BlockTest, AnInstanceIsRedundantWhereOthersHaveWhatItOwns) {
  MutexLock lock(block_.mutex);
  set(0, kAllPages, {0, 8});
  EXPECT_FALSE(block_.is_redundant(at(0)));
  set(1, {0, 5}, {0, 0});
  EXPECT_FALSE(block_.is_redundant(at(0)));
  set(2, {5, 8}, {0, 0});
  EXPECT_TRUE(block_.is_redundant(at(0)));
  at(2).leaving = true;
  EXPECT_FALSE(block_.is_redundant(at(0))) << "who leaves keeps nothing";
  at(2).leaving = false;
  at(2).arriving.push_back({pages({7, 8}), Event(test::ManualEvent::create())});
  EXPECT_FALSE(block_.is_redundant(at(0))) << "what has not arrived may still fail";
  at(0).dirty = PageMask(kPages);
  EXPECT_TRUE(block_.is_redundant(at(0)));
}

TEST_F(BlockTest, WhatCanBeObtainedIsWhatOthersHaveOrZerosGive) {
  MutexLock lock(block_.mutex);
  set(0, {0, 2}, {0, 2});
  set(1, {1, 6}, {2, 6});
  block_.zeroed = pages({6, 8});
  block_.lost = pages({8, 10});
  EXPECT_EQ(block_.obtainable(at(0), kAllPages), pages({2, 8}));
  EXPECT_EQ(block_.obtainable(at(0), {5, 7}), pages({5, 7}));
  EXPECT_EQ(block_.obtainable(at(2), kAllPages), pages({0, 8}));
}

TEST_F(BlockTest, AFaultLastsUntilItsPagesAreClearedOrWritten) {
  MutexLock lock(block_.mutex);
  block_.faults.push_back({{2, 6}, 1, Status(StatusCode::kIoError, "a")});
  block_.faults.push_back({{8, 9}, 2, Status(StatusCode::kInternal, "b")});
  EXPECT_TRUE(block_.fault_of({6, 8}).is_ok());
  for (int i = 0; i < 2; ++i) EXPECT_EQ(block_.fault_of({3, 5}).code(), StatusCode::kIoError);
  block_.clear_faults({3, 5});
  EXPECT_TRUE(block_.fault_of({3, 5}).is_ok());
  EXPECT_EQ(block_.fault_of({0, 3}).code(), StatusCode::kIoError) << "of its pages, those before";
  EXPECT_EQ(block_.fault_of({5, 6}).code(), StatusCode::kIoError) << "and those behind stay";
  EXPECT_EQ(block_.fault_of({6, 16}).code(), StatusCode::kInternal);
  block_.commit_write(0, {0, 9});
  EXPECT_TRUE(block_.fault_of(kAllPages).is_ok());
}

TEST_F(BlockTest, UsesOfOneReleaseSideBySideBecomeOne) {
  int native = 0;
  const Stream stream(&native);
  const Event first(test::ManualEvent::create());
  const Event second(test::ManualEvent::create());
  MutexLock lock(block_.mutex);
  for (std::uint32_t page = 0; page < 4; ++page) {
    block_.add_use({{page, page + 1}, 0, stream, true, first});
    block_.add_use({{page, page + 2}, 0, stream, false, first});
  }
  ASSERT_EQ(block_.uses.size(), 2U) << "of reads and of writes";
  EXPECT_EQ(block_.uses[0].pages, (PageRange{0, 4}));
  EXPECT_EQ(block_.uses[1].pages, (PageRange{0, 5}));
  block_.add_use({{8, 9}, 0, stream, true, first});
  block_.add_use({{4, 5}, 0, stream, true, second});
  EXPECT_EQ(block_.uses.size(), 4U) << "what lies apart, and another release's";
  std::vector<Event> events;
  block_.collect_uses({0, 4}, true, 1, Stream(), events);
  ASSERT_EQ(events.size(), 1U) << "one event is waited for once";
  block_.collect_uses({0, 5}, true, 1, Stream(), events);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1].state(), second.state());
}

TEST_F(BlockTest, UsesOrderWhoConflictsButNotTheirOwnStream) {
  int native = 0;
  const Stream stream(&native);
  const Stream other(&native + 1);
  const auto read = test::ManualEvent::create();
  const auto written = test::ManualEvent::create();
  MutexLock lock(block_.mutex);
  block_.uses.push_back({{0, 4}, 0, stream, false, Event(read)});
  block_.uses.push_back({{4, 8}, 0, stream, true, Event(written)});
  const auto num_events = [&](PageRange range, bool writes, DeviceIndex device, Stream asker) {
    block_.mutex.assert_held();
    std::vector<Event> events;
    block_.collect_uses(range, writes, device, asker, events);
    return events.size();
  };
  EXPECT_EQ(num_events(kAllPages, true, 0, stream), 0U) << "the stream keeps its own order";
  EXPECT_EQ(num_events(kAllPages, true, 0, other), 2U);
  EXPECT_EQ(num_events(kAllPages, false, 0, other), 1U) << "readers do not wait for readers";
  EXPECT_EQ(num_events(kAllPages, true, 1, stream), 2U) << "the same handle of another device is another stream";
  EXPECT_EQ(num_events(kAllPages, true, 0, Stream()), 2U);
  EXPECT_EQ(num_events({8, 9}, true, 0, other), 0U);
  EXPECT_EQ(num_events({3, 4}, true, 0, other), 1U);
}

TEST_F(BlockTest, BookkeepingCountsInstancesAndTheirMasks) {
  MutexLock lock(block_.mutex);
  const std::size_t before = block_.bookkeeping_bytes();
  EXPECT_GE(before, sizeof(Block));
  block_.commit_write(0, {1, 3});
  EXPECT_GT(block_.bookkeeping_bytes(), before) << "a mask that is neither empty nor full takes memory";
  block_.commit_write(0, kAllPages);
  EXPECT_EQ(block_.bookkeeping_bytes(), before);
}

}  // namespace
}  // namespace vmem
