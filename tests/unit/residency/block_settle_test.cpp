// How a block takes in what completes: arrivals, commits that wait for them, faults, uses.
#include <gtest/gtest.h>

#include "runtime/residency/block.hpp"
#include "tests/unit/residency/block_fixture.hpp"

namespace vmem {
namespace {

using test::ManualEvent;

Status failed() { return {StatusCode::kIoError, "the copy failed"}; }

class BlockSettleTest : public test::BlockFixture {};

TEST_F(BlockSettleTest, AFetchThatArrivedIsValidAndTheSourceStillOwns) {
  MutexLock lock(block_.mutex);
  set(0, kAllPages, kAllPages);
  const auto copy = arrive(1, {0, 8});
  EXPECT_FALSE(block_.settle(kAllPages));
  EXPECT_FALSE(block_.settle({7, 9}));
  EXPECT_TRUE(block_.settle({8, 16})) << "nothing under way there";
  copy->complete();
  EXPECT_TRUE(block_.settle(kAllPages));
  EXPECT_EQ(at(1).valid, pages({0, 8}));
  EXPECT_TRUE(at(1).dirty.none());
  EXPECT_EQ(at(0).dirty, pages(kAllPages));
  EXPECT_TRUE(at(1).arriving.empty());
  EXPECT_TRUE(block_.fault_of(kAllPages).is_ok());
  expect_consistent();
}

TEST_F(BlockSettleTest, AFetchThatFailedLeavesThePagesAsTheyWereAndAFault) {
  MutexLock lock(block_.mutex);
  set(0, kAllPages, kAllPages);
  set(1, {8, 10}, {0, 0});
  const auto copy = arrive(1, {0, 8});
  copy->complete(failed());
  EXPECT_TRUE(block_.settle(kAllPages));
  EXPECT_EQ(at(1).valid, pages({8, 10}));
  EXPECT_EQ(at(0).valid, pages(kAllPages));
  EXPECT_EQ(at(0).dirty, pages(kAllPages));
  EXPECT_EQ(block_.fault_of({7, 8}), failed());
  EXPECT_EQ(block_.fault_of(kAllPages), failed()) << "also once it was told";
  EXPECT_TRUE(block_.fault_of({8, 10}).is_ok());
  EXPECT_EQ(block_.faults[0].device, DeviceIndex{1});
  expect_consistent();
}

TEST_F(BlockSettleTest, AFetchThatFailedElsewhereIsTakenInWhateverPagesAreAsked) {
  MutexLock lock(block_.mutex);
  set(0, kAllPages, kAllPages);
  arrive(1, {0, 4})->complete(failed());
  EXPECT_TRUE(block_.settle({10, 12}));
  EXPECT_TRUE(at(1).valid.none());
  EXPECT_TRUE(block_.fault_of({10, 12}).is_ok());
  EXPECT_EQ(block_.fault_of({0, 1}), failed());
}

TEST_F(BlockSettleTest, ScatteredPagesThatFailedAreFaultsForEachRun) {
  MutexLock lock(block_.mutex);
  set(0, kAllPages, kAllPages);
  auto copy = ManualEvent::create();
  at(1).valid = pages({0, 2}) | pages({6, 8});
  at(1).arriving.push_back({at(1).valid, Event(copy)});
  copy->complete(failed());
  EXPECT_TRUE(block_.settle(kAllPages));
  EXPECT_TRUE(block_.fault_of({2, 6}).is_ok()) << "the pages between did not fail";
  EXPECT_EQ(block_.fault_of({0, 1}), failed());
  EXPECT_EQ(block_.fault_of({6, 7}), failed());
}

TEST_F(BlockSettleTest, AWriteReleasedBeforeItsFetchArrivedIsCommittedWhenItDoes) {
  MutexLock lock(block_.mutex);
  set(0, kAllPages, kAllPages);
  const auto copy = arrive(1, {0, 8});
  release_write(1, {0, 4}, {copy});
  EXPECT_FALSE(block_.settle(kAllPages));
  EXPECT_TRUE(block_.has_pending_commit({3, 4}));
  EXPECT_FALSE(block_.has_pending_commit({4, 8}));
  EXPECT_EQ(at(0).dirty, pages(kAllPages)) << "until then the bytes from before are kept";
  copy->complete();
  EXPECT_TRUE(block_.settle(kAllPages));
  EXPECT_FALSE(block_.has_pending_commit(kAllPages));
  EXPECT_EQ(at(1).dirty, pages({0, 4}));
  EXPECT_EQ(at(0).valid, pages({4, kPages}));
  EXPECT_EQ(at(1).valid, pages({0, 8}));
  expect_consistent();
}

TEST_F(BlockSettleTest, AWriteWhoseFetchFailedIsNotTakenOver) {
  MutexLock lock(block_.mutex);
  set(0, kAllPages, kAllPages);
  const auto copy = arrive(1, {0, 8});
  release_write(1, {0, 8}, {copy});
  copy->complete(failed());
  EXPECT_TRUE(block_.settle(kAllPages));
  EXPECT_TRUE(block_.pending_commits.empty());
  EXPECT_TRUE(at(1).valid.none());
  EXPECT_EQ(at(0).dirty, pages(kAllPages));
  EXPECT_EQ(block_.fault_of(kAllPages), failed());
  expect_consistent();
}

TEST_F(BlockSettleTest, AWriteHalfOfWhoseFetchFailedIsNotTakenOverAtAll) {
  MutexLock lock(block_.mutex);
  set(0, {0, 8}, {0, 8});
  set(1, {8, 10}, {8, 10});  // its own from before
  const auto good = arrive(1, {0, 4});
  const auto bad = arrive(1, {4, 8});
  release_write(1, {0, 10}, {good, bad});
  good->complete();
  EXPECT_FALSE(block_.settle(kAllPages));
  bad->complete(failed());
  EXPECT_TRUE(block_.settle(kAllPages));
  EXPECT_EQ(at(0).dirty, pages({0, 8}));
  EXPECT_EQ(at(1).valid, pages({8, 10})) << "what nobody else has stays";
  EXPECT_EQ(at(1).dirty, pages({8, 10}));
  expect_consistent();
}

TEST_F(BlockSettleTest, AWriteIsNotTakenOverWhereAFetchOfItsListFailedInAnotherBlock) {
  MutexLock lock(block_.mutex);
  set(0, {0, 8}, {0, 8});
  set(1, {0, 10}, {8, 10});
  const auto here = ManualEvent::create();
  const auto elsewhere = ManualEvent::create();
  release_write(1, {4, 10}, {here, elsewhere});
  here->complete();
  EXPECT_FALSE(block_.settle({9, 10}));
  EXPECT_EQ(block_.next_arrival({9, 10})->state(), elsewhere.get());
  EXPECT_EQ(at(0).dirty, pages({0, 8}));
  elsewhere->complete(failed());
  EXPECT_TRUE(block_.next_arrival({9, 10})->is_done()) << "over by now, and still an answer to wait for";
  EXPECT_TRUE(block_.settle(kAllPages));
  EXPECT_EQ(at(0).dirty, pages({0, 8}));
  EXPECT_EQ(at(1).valid, pages({0, 4}) | pages({8, 10})) << "what it computed goes, where another has the bytes";
  EXPECT_EQ(block_.fault_of({9, 10}), failed()) << "and is not trusted where none has";
  EXPECT_TRUE(block_.fault_of({0, 4}).is_ok());
  expect_consistent();
}

TEST_F(BlockSettleTest, PagesOfAPendingCommitAreNotSettledEvenWhereNothingArrives) {
  MutexLock lock(block_.mutex);
  set(0, kAllPages, kAllPages);
  const auto copy = arrive(1, {0, 2});
  release_write(1, {0, 8}, {copy});
  EXPECT_FALSE(block_.settle({6, 7}));
  const auto arrival = block_.next_arrival({6, 7});
  ASSERT_TRUE(arrival.has_value()) << "there is one to wait for wherever settle answers false";
  EXPECT_EQ(arrival->state(), copy.get());
  EXPECT_FALSE(block_.next_arrival({8, 16}).has_value());
  copy->complete();
  EXPECT_TRUE(block_.settle({6, 7}));
  EXPECT_EQ(at(1).dirty, pages({0, 8}));
}

TEST_F(BlockSettleTest, TwoWritersOneAfterTheOtherAreCommittedInTheirOrder) {
  MutexLock lock(block_.mutex);
  set(0, kAllPages, kAllPages);
  const auto first = arrive(1, {0, 4});
  release_write(1, {0, 4}, {first});
  first->complete();
  const auto second = arrive(2, {4, 8});
  release_write(2, {4, 8}, {second});
  EXPECT_FALSE(block_.settle(kAllPages));
  EXPECT_EQ(at(1).dirty, pages({0, 4}));
  EXPECT_TRUE(block_.has_pending_commit({4, 8}));
  EXPECT_FALSE(block_.has_pending_commit({0, 4}));
  second->complete();
  EXPECT_TRUE(block_.settle(kAllPages));
  EXPECT_EQ(at(2).dirty, pages({4, 8}));
  EXPECT_EQ(at(0).dirty, pages({8, kPages}));
  expect_consistent();
}

TEST_F(BlockSettleTest, UsesThatAreOverAreForgottenHoweverTheyEnded) {
  MutexLock lock(block_.mutex);
  int native = 0;
  const auto running = ManualEvent::create();
  const auto over = ManualEvent::create();
  const auto broken = ManualEvent::create();
  for (const auto& event : {running, over, broken}) {
    block_.uses.push_back({kAllPages, 0, Stream(&native), true, Event(event)});
  }
  over->complete();
  broken->complete(failed());
  EXPECT_TRUE(block_.settle(kAllPages)) << "work that uses pages does not keep them from being settled";
  ASSERT_EQ(block_.uses.size(), 1U);
  EXPECT_EQ(block_.uses[0].event.state(), running.get());
}

TEST_F(BlockSettleTest, AnArrivalThatIsNotOverIsNoReasonToBlock) {
  MutexLock lock(block_.mutex);
  const auto copy = arrive(1, {0, 8});
  EXPECT_FALSE(block_.settle(kAllPages));
  EXPECT_FALSE(block_.settle(kAllPages));
  EXPECT_EQ(at(1).arriving.size(), 1U);
  copy->complete();
  EXPECT_TRUE(block_.settle(kAllPages));
}

}  // namespace
}  // namespace vmem
