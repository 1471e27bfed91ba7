#include "runtime/support/check.hpp"

#include <gtest/gtest.h>

namespace vmem {
namespace {

TEST(CheckTest, PassesAndEvaluatesOnce) {
  int calls = 0;
  VMEM_CHECK(++calls == 1);
  EXPECT_EQ(calls, 1);
}

TEST(CheckDeathTest, AbortsWithItsExpressionAndPlace) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(VMEM_CHECK(1 + 1 == 3), "check_test.cpp:[0-9]+: VMEM_CHECK\\(1 \\+ 1 == 3\\) failed");
}

}  // namespace
}  // namespace vmem
