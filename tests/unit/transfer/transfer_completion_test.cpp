#include "runtime/transfer/transfer_completion.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace vmem {
namespace {

TEST(TransferCompletionTest, KeepsTheFirstOutcome) {
  auto completion = std::make_shared<TransferCompletion>();
  const Event event(completion);
  EXPECT_FALSE(event.is_done());
  EXPECT_EQ(event.wait(std::chrono::steady_clock::now()).code(), StatusCode::kTimeout);
  EXPECT_TRUE(completion->complete(Status(StatusCode::kDataLost, "made up")));
  EXPECT_FALSE(completion->complete(Status()));
  EXPECT_EQ(event.wait().code(), StatusCode::kDataLost);
}

TEST(TransferCompletionTest, CallsBackBeforeAndAfterTheEnd) {
  auto completion = std::make_shared<TransferCompletion>();
  int calls = 0;
  completion->then([&](const Status&) { ++calls; });
  EXPECT_EQ(calls, 0);
  completion->complete(Status());
  EXPECT_EQ(calls, 1);
  completion->then([&](const Status&) { ++calls; });
  EXPECT_EQ(calls, 2);
}

TEST(TransferCompletionTest, WakesAWaiterOfAnotherThread) {
  auto completion = std::make_shared<TransferCompletion>();
  std::thread waiter([&] { EXPECT_TRUE(Event(completion).wait()); });
  completion->complete(Status());
  waiter.join();
}

TEST(TransferCompletionTest, StandsForTheDevicesOwnEvent) {
  auto own = std::make_shared<TransferCompletion>();
  auto completion = std::make_shared<TransferCompletion>();
  EXPECT_EQ(completion->origin(), completion.get());
  completion->set_origin(Event(own));
  EXPECT_EQ(completion->origin(), own.get());
  EXPECT_EQ(completion->native(), nullptr);
  EXPECT_FALSE(completion->is_done());
}

TEST(TransferCompletionTest, MakesFinishedEvents) {
  EXPECT_EQ(completed_event(Status()).state(), nullptr);
  EXPECT_EQ(completed_event(Status(StatusCode::kBusy, "made up")).wait().code(), StatusCode::kBusy);
}

}  // namespace
}  // namespace vmem
