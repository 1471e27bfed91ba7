#include "backends/host/link_clock.hpp"

#include <gtest/gtest.h>

namespace vmem {
namespace {

using namespace std::chrono_literals;
using TimePoint = LinkClock::TimePoint;

TEST(LinkClockTest, TakesTheTimeOfTheBytes) {
  LinkClock link(1e9);
  EXPECT_EQ(link.reserve(TimePoint(10s), 1'000'000'000), TimePoint(11s));
  EXPECT_EQ(link.reserve(TimePoint(20s), 500'000'000), TimePoint(20500ms));
}

TEST(LinkClockTest, LetsCopiesThatComeTogetherTakeTurns) {
  LinkClock link(1e9);
  EXPECT_EQ(link.reserve(TimePoint(10s), 1'000'000'000), TimePoint(11s));
  EXPECT_EQ(link.reserve(TimePoint(10s), 1'000'000'000), TimePoint(12s));
  EXPECT_EQ(link.reserve(TimePoint(10s), 1'000'000'000), TimePoint(13s));
}

TEST(LinkClockTest, RunsAtTheSlowerOfTwoLinksAndOccupiesBoth) {
  LinkClock fast(4e9);
  LinkClock slow(1e9);
  EXPECT_EQ(LinkClock::reserve_both(fast, slow, TimePoint(10s), 1'000'000'000), TimePoint(11s));
  EXPECT_EQ(fast.reserve(TimePoint(10s), 4'000'000'000), TimePoint(12s));
  EXPECT_EQ(slow.reserve(TimePoint(10s), 1'000'000'000), TimePoint(12s));
  EXPECT_EQ(LinkClock::reserve_both(slow, slow, TimePoint(12s), 1'000'000'000), TimePoint(13s));
}

}  // namespace
}  // namespace vmem
