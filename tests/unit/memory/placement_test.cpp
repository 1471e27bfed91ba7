#include "runtime/memory/placement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

namespace vmem {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Two GPUs and the host, seen from device 0. Device 1 is slow to reach, the host slower to begin and faster to go on.
std::vector<PlacementCandidate> machine() {
  return {{.device = 0, .tier = Tier::kDevice, .free_bytes = 100, .limit_bytes = 1000},
          {.device = 1,
           .tier = Tier::kDevice,
           .free_bytes = 400,
           .limit_bytes = 8000,
           .latency_seconds = 1,
           .seconds_per_byte = 1.0 / 4},
          {.device = 2,
           .tier = Tier::kHost,
           .free_bytes = 5000,
           .limit_bytes = 6000,
           .latency_seconds = 10,
           .seconds_per_byte = 1.0 / 8}};
}

TEST(PlacementTest, LocalityTakesTheCheapestToReachForThatManyBytes) {
  EXPECT_THAT(rank_targets({50}, machine(), PlacementStrategy::kLocalityFirst), ElementsAre(0, 1, 2));
  EXPECT_THAT(rank_targets({90}, machine(), PlacementStrategy::kLocalityFirst), ElementsAre(0, 2, 1));
}

TEST(PlacementTest, LocalityBreaksATieByFreeBytes) {
  auto candidates = machine();
  for (auto& candidate : candidates) candidate.latency_seconds = candidate.seconds_per_byte = 0;
  EXPECT_THAT(rank_targets({50}, candidates, PlacementStrategy::kLocalityFirst), ElementsAre(2, 1, 0));
}

TEST(PlacementTest, CapacityTakesTheMostFreeOfTheFastestTier) {
  EXPECT_THAT(rank_targets({50}, machine(), PlacementStrategy::kCapacity), ElementsAre(1, 0, 2));
}

TEST(PlacementTest, FirstFitKeepsTheCallersOrder) {
  EXPECT_THAT(rank_targets({50}, machine(), PlacementStrategy::kFirstFit), ElementsAre(0, 1, 2));
}

TEST(PlacementTest, BestFitTakesTheFewestBytesThatSuffice) {
  EXPECT_THAT(rank_targets({50}, machine(), PlacementStrategy::kBestFit), ElementsAre(0, 1, 2));
}

TEST(PlacementTest, WorstFitTakesTheLargestShareFree) {
  EXPECT_THAT(rank_targets({50}, machine(), PlacementStrategy::kWorstFit), ElementsAre(0, 1, 2));
  auto candidates = machine();
  candidates[0].limit_bytes = 10000;
  EXPECT_THAT(rank_targets({50}, candidates, PlacementStrategy::kWorstFit), ElementsAre(1, 0, 2));
}

TEST(PlacementTest, DevicesThatHoldAllComeBeforeThoseThatHoldAPart) {
  EXPECT_THAT(rank_targets({.bytes = 200, .unit_bytes = 64}, machine(), PlacementStrategy::kLocalityFirst),
              ElementsAre(2, 1, 0));
  EXPECT_THAT(rank_targets({.bytes = 200}, machine(), PlacementStrategy::kFirstFit), ElementsAre(1, 2));
}

TEST(PlacementTest, DevicesWithoutRoomForAUnitAreNoTargets) {
  EXPECT_THAT(rank_targets({.bytes = 1000, .unit_bytes = 128}, machine(), PlacementStrategy::kFirstFit),
              ElementsAre(2, 1));
  EXPECT_THAT(rank_targets({10000}, machine(), PlacementStrategy::kFirstFit), IsEmpty());
  EXPECT_THAT(rank_targets({0}, machine(), PlacementStrategy::kFirstFit), IsEmpty());
  EXPECT_THAT(rank_targets({1}, {}, PlacementStrategy::kCapacity), IsEmpty());
}

TEST(PlacementTest, FillsWholeUnitsOneDeviceAfterTheOther) {
  auto candidates = machine();
  candidates[2].free_bytes = 600;
  const auto targets = place({.bytes = 1000, .unit_bytes = 64}, candidates, PlacementStrategy::kFirstFit);
  ASSERT_EQ(targets.size(), 3U);
  EXPECT_EQ(targets[0].bytes, 64U);
  EXPECT_EQ(targets[1].bytes, 384U);
  EXPECT_EQ(targets[2].bytes, 552U) << "the last may end inside a unit";
}

TEST(PlacementTest, ShowsWhatIsMissing) {
  const auto targets = place({.bytes = 100000, .unit_bytes = 100}, machine(), PlacementStrategy::kCapacity);
  const auto sum = std::accumulate(targets.begin(), targets.end(), std::uint64_t{0},
                                   [](std::uint64_t bytes, const PlacementTarget& t) { return bytes + t.bytes; });
  EXPECT_EQ(sum, 5500U);
}

TEST(PlacementTest, HugeRequestsDontOverflow) {
  const auto most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_THAT(rank_targets({most}, machine(), PlacementStrategy::kLocalityFirst), IsEmpty());
  const auto targets = place({.bytes = most, .unit_bytes = 1}, machine(), PlacementStrategy::kFirstFit);
  EXPECT_EQ(targets.size(), 3U);
}

}  // namespace
}  // namespace vmem
