#include "runtime/policy/lru_policy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace vmem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Candidates = std::vector<EvictionCandidate>;

std::vector<std::size_t> choose(const Candidates& candidates, std::size_t bytes) {
  LruPolicy policy;
  return policy.choose(candidates, bytes);
}

TEST(LruPolicyTest, TheOneUsedFurthestBackLeavesFirst) {
  const Candidates candidates{{10, 7, false}, {10, 3, false}, {10, 9, true}, {10, 1, false}};
  EXPECT_THAT(choose(candidates, 1), ElementsAre(3U));
  EXPECT_THAT(choose(candidates, 40), ElementsAre(3U, 1U, 0U, 2U));
}

TEST(LruPolicyTest, StopsAsSoonAsTheBytesSuffice) {
  const Candidates candidates{{10, 1, false}, {20, 2, false}, {30, 3, false}};
  EXPECT_THAT(choose(candidates, 10), ElementsAre(0U));
  EXPECT_THAT(choose(candidates, 11), ElementsAre(0U, 1U));
  EXPECT_THAT(choose(candidates, 30), ElementsAre(0U, 1U));
  EXPECT_THAT(choose(candidates, 31), ElementsAre(0U, 1U, 2U));
}

TEST(LruPolicyTest, NamesAllWhereTheyDoNotSuffice) {
  const Candidates candidates{{10, 2, false}, {20, 1, false}};
  EXPECT_THAT(choose(candidates, 31), ElementsAre(1U, 0U));
  EXPECT_THAT(choose(candidates, std::numeric_limits<std::size_t>::max()), ElementsAre(1U, 0U));
}

TEST(LruPolicyTest, AtEqualAgeTheCleanOneLeavesFirstAndOrderIsKept) {
  const Candidates candidates{{10, 5, false}, {10, 5, true}, {10, 5, false}, {10, 5, true}};
  EXPECT_THAT(choose(candidates, 40), ElementsAre(1U, 3U, 0U, 2U));
}

TEST(LruPolicyTest, ADirtyOldOneLeavesBeforeACleanYoungOne) {
  EXPECT_THAT(choose({{10, 2, true}, {10, 1, false}}, 10), ElementsAre(1U));
}

TEST(LruPolicyTest, NobodyIsNamedWhereNothingIsAskedOrThere) {
  EXPECT_THAT(choose({{10, 2, true}}, 0), IsEmpty());
  EXPECT_THAT(choose({}, 10), IsEmpty());
}

}  // namespace
}  // namespace vmem
