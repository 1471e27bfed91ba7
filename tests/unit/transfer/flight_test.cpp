#include "runtime/transfer/flight.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "runtime/transfer/transfer_completion.hpp"
#include "tests/unit/transfer/transfer_machine.hpp"

namespace vmem {
namespace {

using std::chrono::milliseconds;

TEST(FlightTest, CountsWhatIsUnderWay) {
  TransferMachine machine;
  Flight flight(machine.devices(), milliseconds(30000), machine.logger());
  auto copy = std::make_shared<TransferCompletion>();
  int done = 0;
  int released = 0;
  flight.watch(
      1, CopyQueue::kIn, Event(copy), [&](const Status& status) { done += status.is_ok() ? 1 : 100; },
      [&] { ++released; });
  EXPECT_EQ(flight.in_flight(1), 1U);
  EXPECT_EQ(flight.in_flight(2), 0U);
  copy->complete(Status());
  EXPECT_EQ(flight.in_flight(1), 0U);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(released, 1);
}

TEST(FlightTest, SettlesWhatNeverEndsAndReleasesItLater) {
  TransferMachine machine;
  auto copy = std::make_shared<TransferCompletion>();
  auto outcome = std::make_shared<TransferCompletion>();
  int released = 0;
  {
    Flight flight(machine.devices(), milliseconds(50), machine.logger());
    flight.watch(
        1, CopyQueue::kOut, Event(copy), [&](const Status& status) { outcome->complete(status); }, [&] { ++released; });
    EXPECT_EQ(outcome->wait(Event::Deadline::max()).code(), StatusCode::kTimeout);
    EXPECT_EQ(flight.device_status(1).code(), StatusCode::kDeviceFailed);
    EXPECT_TRUE(flight.device_status(2));
    EXPECT_EQ(released, 0);
  }
  copy->complete(Status());
  EXPECT_EQ(released, 1);
}

TEST(FlightTest, CountsALoneCopysTimeFromTheEndOfWhatCameBefore) {
  TransferMachine machine;
  auto before = std::make_shared<TransferCompletion>();
  auto copy = std::make_shared<TransferCompletion>();
  auto outcome = std::make_shared<TransferCompletion>();
  Flight flight(machine.devices(), milliseconds(50), machine.logger());
  flight.watch_alone(1, Event(before), Event(copy), [&](const Status& status) { outcome->complete(status); });
  EXPECT_EQ(flight.in_flight(1), 0U);
  before->complete(Status());
  EXPECT_EQ(flight.in_flight(1), 1U);
  EXPECT_EQ(outcome->wait(Event::Deadline::max()).code(), StatusCode::kTimeout);
  copy->complete(Status());
}

TEST(FlightTest, RemembersALostDevice) {
  TransferMachine machine;
  Flight flight(machine.devices(), milliseconds(30000), machine.logger());
  auto copy = std::make_shared<TransferCompletion>();
  flight.watch(2, CopyQueue::kIn, Event(copy), [](const Status&) {});
  copy->complete(Status(StatusCode::kDeviceFailed, "gone"));
  EXPECT_EQ(flight.device_status(2).code(), StatusCode::kDeviceFailed);
  flight.fail_device(1, Status(StatusCode::kInternal, "made up"));
  EXPECT_EQ(flight.device_status(1).code(), StatusCode::kDeviceFailed);
}

}  // namespace
}  // namespace vmem
