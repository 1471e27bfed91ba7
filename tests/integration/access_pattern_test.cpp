#include "tools/bench/access_pattern.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace vmem {
namespace {

constexpr AccessPattern kAll[] = {AccessPattern::kSequential, AccessPattern::kStrided, AccessPattern::kRandom,
                                  AccessPattern::kMixed, AccessPattern::kIterating};

PatternShape shape(std::size_t blocks, std::uint64_t seed = 1) {
  return {blocks * 64_KiB, 64_KiB, blocks / 3 * 64_KiB, seed};
}

std::vector<std::tuple<std::size_t, std::size_t, Access>> flatten(const std::vector<AccessStep>& steps) {
  std::vector<std::tuple<std::size_t, std::size_t, Access>> flat;
  for (const AccessStep& step : steps) {
    for (const StepRange& range : step.ranges) flat.emplace_back(range.offset, range.bytes, step.access);
  }
  return flat;
}

TEST(AccessPatternTest, StaysInsideTheBufferInWholeWords) {
  for (const AccessPattern pattern : kAll) {
    for (const std::size_t blocks : {4U, 5U, 17U, 96U}) {
      const auto steps = make_steps(pattern, shape(blocks));
      ASSERT_FALSE(steps.empty());
      for (const auto& [offset, bytes, access] : flatten(steps)) {
        EXPECT_GT(bytes, 0U);
        EXPECT_LE(offset + bytes, blocks * 64_KiB);
        EXPECT_EQ(offset % 4, 0U);
        EXPECT_EQ(bytes % 4, 0U);
      }
    }
  }
}

TEST(AccessPatternTest, RangesOfAStepShareNoPage) {
  for (const AccessPattern pattern : kAll) {
    for (const AccessStep& step : make_steps(pattern, shape(64))) {
      std::set<std::size_t> pages;
      for (const StepRange& range : step.ranges) {
        for (std::size_t page = range.offset / kPageBytes; page <= (range.offset + range.bytes - 1) / kPageBytes;
             ++page) {
          EXPECT_TRUE(pages.insert(page).second) << "page " << page;
        }
      }
    }
  }
}

TEST(AccessPatternTest, SequentialAndStridedTouchEveryBlockOnce) {
  for (const AccessPattern pattern : {AccessPattern::kSequential, AccessPattern::kStrided}) {
    const auto steps = make_steps(pattern, shape(17));
    std::set<std::size_t> blocks;
    for (const AccessStep& step : steps) blocks.insert(step.ranges.at(0).offset / 64_KiB);
    EXPECT_EQ(steps.size(), 17U);
    EXPECT_EQ(blocks.size(), 17U);
    EXPECT_EQ(total_bytes(steps), 17 * 64_KiB);
  }
}

TEST(AccessPatternTest, StridedLeavesBlocksBetweenTwoSteps) {
  const auto steps = make_steps(AccessPattern::kStrided, shape(16));
  EXPECT_EQ(steps[0].ranges[0].offset, 0U);
  EXPECT_EQ(steps[1].ranges[0].offset, 4 * 64_KiB);
}

TEST(AccessPatternTest, RandomIsTheSameForASeedAndAnotherForAnother) {
  const auto first = flatten(make_steps(AccessPattern::kRandom, shape(64, 1)));
  EXPECT_EQ(first, flatten(make_steps(AccessPattern::kRandom, shape(64, 1))));
  EXPECT_NE(first, flatten(make_steps(AccessPattern::kRandom, shape(64, 2))));
}

TEST(AccessPatternTest, ARandomListFitsOnTheDevice) {
  PatternShape small = shape(64);
  small.device_bytes = 4 * 64_KiB;
  for (const AccessStep& step : make_steps(AccessPattern::kRandom, small)) {
    std::set<std::size_t> blocks;
    for (const StepRange& range : step.ranges) {
      blocks.insert(range.offset / 64_KiB);
      blocks.insert((range.offset + range.bytes - 1) / 64_KiB);
    }
    EXPECT_LE(blocks.size(), 4U);
  }
}

TEST(AccessPatternTest, MixedReadsEveryBlockAndWritesBetween) {
  const auto steps = make_steps(AccessPattern::kMixed, shape(16));
  const auto reads =
      std::count_if(steps.begin(), steps.end(), [](const AccessStep& s) { return s.access == Access::kRead; });
  EXPECT_EQ(reads, 16);
  EXPECT_EQ(steps.size(), 32U);
}

TEST(AccessPatternTest, IteratingGoesRoundALittleMoreThanTheDeviceHolds) {
  PatternShape wanted = shape(64);
  wanted.device_bytes = 16 * 64_KiB;
  const auto steps = make_steps(AccessPattern::kIterating, wanted);
  ASSERT_EQ(steps.size(), 3 * 20U);
  EXPECT_EQ(steps[19].ranges[0].offset, 19 * 64_KiB);
  EXPECT_EQ(steps[20].ranges[0].offset, 0U);
}

}  // namespace
}  // namespace vmem
