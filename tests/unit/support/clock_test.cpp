#include "runtime/support/clock.hpp"

#include <gtest/gtest.h>

namespace vmem {
namespace {

using std::chrono::milliseconds;

TEST(ClockTest, ManualTimeMovesOnlyWhenTold) {
  ManualClock clock;
  const auto start = clock.now();
  EXPECT_EQ(clock.now(), start);
  clock.advance(milliseconds(10));
  EXPECT_EQ(clock.now() - start, milliseconds(10));
}

TEST(ClockTest, SteadyTimeNeverGoesBack) {
  const SteadyClock steady;
  const Clock& clock = steady;
  auto last = clock.now();
  for (int i = 0; i < 1000; ++i) {
    const auto now = clock.now();
    ASSERT_GE(now, last);
    last = now;
  }
}

}  // namespace
}  // namespace vmem
