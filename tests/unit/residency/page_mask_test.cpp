#include "runtime/residency/page_mask.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

namespace vmem {
namespace {

using Random = std::mt19937_64;
using Model = std::vector<bool>;

PageRange any_range(Random& random, std::uint32_t num_pages) {
  switch (random() % 8) {
    case 0:
      return {0, num_pages};
    case 1: {
      const auto page = static_cast<std::uint32_t>(random() % (num_pages + 1));
      return {page, page};
    }
    default: {
      const auto begin = static_cast<std::uint32_t>(random() % num_pages);
      return {begin, begin + 1 + static_cast<std::uint32_t>(random() % (num_pages - begin))};
    }
  }
}

void assign(Model& model, PageRange range, bool value) {
  std::fill(model.begin() + range.begin, model.begin() + range.end, value);
}

void expect_equal(const PageMask& mask, const Model& model) {
  const auto num_pages = static_cast<std::uint32_t>(model.size());
  ASSERT_EQ(mask.num_pages(), num_pages);
  const auto count = static_cast<std::uint32_t>(std::count(model.begin(), model.end(), true));
  ASSERT_EQ(mask.count(), count);
  EXPECT_EQ(mask.none(), count == 0);
  EXPECT_EQ(mask.all(), count == num_pages);
  if (count == 0 || count == num_pages) {
    EXPECT_EQ(mask.heap_bytes(), 0U) << "empty and full sets take no memory";
  }
  Model runs(num_pages, false);
  std::uint32_t last_end = 0;
  bool first = true;
  mask.for_each_run([&](PageRange run) {
    EXPECT_LT(run.begin, run.end);
    EXPECT_TRUE(first || run.begin > last_end) << "runs are maximal and ascend";
    ASSERT_LE(run.end, num_pages);
    first = false;
    last_end = run.end;
    assign(runs, run, true);
  });
  EXPECT_EQ(runs, model);
  for (std::uint32_t page = 0; page < num_pages; ++page) ASSERT_EQ(mask.test(page), model[page]) << page;
}

class PageMaskTest : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(PageMaskTest, AgreesWithAVectorOfBools) {
  const std::uint32_t num_pages = GetParam();
  Random random(num_pages);
  PageMask masks[2] = {PageMask(num_pages), PageMask(num_pages)};
  Model models[2] = {Model(num_pages, false), Model(num_pages, false)};
  for (int step = 0; step < 600; ++step) {
    SCOPED_TRACE(step);
    const std::size_t i = random() % 2;
    PageMask& mask = masks[i];
    Model& model = models[i];
    const PageMask& other = masks[1 - i];
    const Model& other_model = models[1 - i];
    const PageRange range = any_range(random, num_pages);
    switch (random() % 8) {
      case 0:
      case 1:
        mask.set(range);
        assign(model, range, true);
        break;
      case 2:
      case 3:
        mask.clear(range);
        assign(model, range, false);
        break;
      case 4:
        mask |= other;
        for (std::uint32_t page = 0; page < num_pages; ++page) model[page] = model[page] || other_model[page];
        break;
      case 5:
        mask &= other;
        for (std::uint32_t page = 0; page < num_pages; ++page) model[page] = model[page] && other_model[page];
        break;
      case 6:
        mask -= other;
        for (std::uint32_t page = 0; page < num_pages; ++page) model[page] = model[page] && !other_model[page];
        break;
      default:
        mask = PageMask::of(num_pages, range);
        model.assign(num_pages, false);
        assign(model, range, true);
    }
    expect_equal(mask, model);
    const PageRange asked = any_range(random, num_pages);
    const auto begin = model.begin() + asked.begin;
    const auto end = model.begin() + asked.end;
    EXPECT_EQ(mask.covers(asked), std::find(begin, end, false) == end);
    EXPECT_EQ(mask.overlaps(asked), std::find(begin, end, true) != end);
    bool covers = true;
    for (std::uint32_t page = 0; page < num_pages; ++page) covers &= model[page] || !other_model[page];
    EXPECT_EQ(mask.covers(other), covers);
    EXPECT_EQ(mask == other, model == other_model);
    if (::testing::Test::HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(NumPages, PageMaskTest, ::testing::Values(1, 2, 63, 64, 65, 127, 128, 129, 200, 1000));

TEST(PageMaskSetTest, OperatorsLeaveTheirOperandsAlone) {
  const PageMask a = PageMask::of(100, {10, 60});
  const PageMask b = PageMask::of(100, {50, 90});
  EXPECT_EQ(a | b, PageMask::of(100, {10, 90}));
  EXPECT_EQ(a & b, PageMask::of(100, {50, 60}));
  EXPECT_EQ(a - b, PageMask::of(100, {10, 50}));
  EXPECT_EQ(a, PageMask::of(100, {10, 60}));
  EXPECT_EQ(b, PageMask::of(100, {50, 90}));
}

TEST(PageMaskSetTest, ACopyIsItsOwn) {
  PageMask a = PageMask::of(100, {10, 60});
  const PageMask copy = a;
  a.clear({0, 20});
  EXPECT_EQ(copy, PageMask::of(100, {10, 60}));
  EXPECT_EQ(a, PageMask::of(100, {20, 60}));
}

TEST(PageMaskSetTest, ASetJoinedWithItselfStaysTheSame) {
  PageMask mask = PageMask::of(70, {3, 66});
  const PageMask before = mask;
  mask |= std::as_const(mask);
  EXPECT_EQ(mask, before);
  mask &= std::as_const(mask);
  EXPECT_EQ(mask, before);
  mask -= std::as_const(mask);
  EXPECT_TRUE(mask.none());
}

TEST(PageMaskSetTest, AFullSetOfOddSizeHasNoPageBeyondItsEnd) {
  const PageMask full = PageMask::full(65);
  EXPECT_EQ(full.count(), 65U);
  std::vector<PageRange> runs;
  full.for_each_run([&](PageRange run) { runs.push_back(run); });
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0], (PageRange{0, 65}));
  PageMask mask = PageMask::full(65);
  mask.clear({0, 1});
  EXPECT_EQ(mask.count(), 64U);
  EXPECT_FALSE(mask.covers(PageRange{0, 65}));
  EXPECT_TRUE(mask.covers(PageRange{1, 65}));
}

TEST(PageMaskSetTest, TheSetOfNoPagesIsEmptyAndFull) {
  const PageMask none(0);
  EXPECT_TRUE(none.none());
  EXPECT_TRUE(none.all());
  EXPECT_TRUE(none.covers(PageRange{0, 0}));
  EXPECT_FALSE(none.overlaps(PageRange{0, 0}));
}

TEST(PageMaskDeathTest, ARangePastTheEndIsABrokenInvariant) {
  PageMask mask(10);
  EXPECT_DEATH(mask.set({5, 11}), "num_pages_");
  EXPECT_DEATH(mask.clear({5, 11}), "num_pages_");
}

TEST(PageRangeTest, IntersectsAndContains) {
  EXPECT_EQ(intersect({2, 8}, {5, 12}), (PageRange{5, 8}));
  EXPECT_TRUE(intersect({2, 5}, {5, 12}).empty());
  EXPECT_TRUE((PageRange{2, 8}.contains({2, 8})));
  EXPECT_FALSE((PageRange{2, 8}.contains({2, 9})));
  EXPECT_FALSE((PageRange{2, 5}.overlaps({5, 8})));
  EXPECT_TRUE((PageRange{2, 6}.overlaps({5, 8})));
}

}  // namespace
}  // namespace vmem
