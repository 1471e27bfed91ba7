#include "runtime/memory/fragmentation.hpp"

#include <gtest/gtest.h>

namespace vmem {
namespace {

TEST(FragmentationTest, FollowsItsFormulas) {
  auto allocator = ExtentAllocator::create({1000, 1, FitStrategy::kFirstFit});
  ASSERT_TRUE(allocator);
  const auto a = allocator->allocate(100);
  const auto b = allocator->allocate(50);
  const auto c = allocator->allocate(300);
  const auto d = allocator->allocate(10);
  ASSERT_TRUE(a && b && c && d);
  ASSERT_TRUE(allocator->deallocate(*a));
  ASSERT_TRUE(allocator->deallocate(*c));
  const FragmentationFigures figures = measure_fragmentation(*allocator, 45, 440);
  EXPECT_EQ(figures.free_bytes, 400U) << "what lies above the high water mark is no fragment";
  EXPECT_EQ(figures.largest_free_bytes, 300U);
  EXPECT_EQ(figures.num_free_extents, 2U);
  EXPECT_EQ(figures.reserved_bytes, 60U);
  EXPECT_EQ(figures.internal_waste_bytes(), 15U);
  EXPECT_DOUBLE_EQ(figures.external(), 0.25);
  EXPECT_DOUBLE_EQ(figures.internal(), 0.25);
  EXPECT_DOUBLE_EQ(figures.peak_reserved_over_live(), 460.0 / 440.0);
}

TEST(FragmentationTest, OfNothingIsNone) {
  const FragmentationFigures figures;
  EXPECT_DOUBLE_EQ(figures.external(), 0.0);
  EXPECT_DOUBLE_EQ(figures.internal(), 0.0);
  EXPECT_DOUBLE_EQ(figures.peak_reserved_over_live(), 1.0);
}

TEST(FragmentationTest, RangesAddUp) {
  FragmentationFigures sum{.free_bytes = 10, .largest_free_bytes = 10, .num_free_extents = 1};
  sum += FragmentationFigures{.free_bytes = 30, .largest_free_bytes = 20, .num_free_extents = 2};
  EXPECT_EQ(sum.num_free_extents, 3U);
  EXPECT_DOUBLE_EQ(sum.external(), 0.5);
}

}  // namespace
}  // namespace vmem
