#include "runtime/support/inline_vector.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace vmem {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

std::vector<int> contents(const InlineVector<int, 2>& values) { return {values.begin(), values.end()}; }

TEST(InlineVectorTest, GrowsPastItsInlineElements) {
  InlineVector<int, 2> values;
  EXPECT_TRUE(values.empty());
  for (int i = 0; i < 9; ++i) values.push_back(i);
  EXPECT_THAT(contents(values), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(InlineVectorTest, ErasesWithoutKeepingOrder) {
  InlineVector<int, 2> values;
  for (int i = 0; i < 4; ++i) values.push_back(i);
  values.erase_unordered(0);
  EXPECT_THAT(contents(values), UnorderedElementsAre(1, 2, 3));
  values.erase_unordered(2);
  EXPECT_EQ(values.size(), 2U);
}

TEST(InlineVectorTest, IsUsableAgainAfterClear) {
  InlineVector<int, 2> values;
  for (int i = 0; i < 4; ++i) values.push_back(i);
  values.clear();
  EXPECT_TRUE(values.empty());
  values.push_back(7);
  EXPECT_THAT(contents(values), ElementsAre(7));
}

TEST(InlineVectorDeathTest, ErasingPastTheEndIsABrokenInvariant) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  InlineVector<int, 2> values;
  values.push_back(1);
  EXPECT_DEATH(values.erase_unordered(1), "VMEM_CHECK");
}

}  // namespace
}  // namespace vmem
