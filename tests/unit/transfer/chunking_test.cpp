#include "runtime/transfer/chunking.hpp"

#include <gtest/gtest.h>

namespace vmem {
namespace {

TEST(ChunkingTest, TakesTheChunksThatASweepFoundBest) {
  const auto chunk = [](std::size_t bytes) { return plan_chunks(bytes, 2, 50e9, 8_MiB).chunk_bytes; };
  EXPECT_EQ(chunk(64_MiB), 4_MiB);
  EXPECT_EQ(chunk(1_GiB), 8_MiB);
  EXPECT_EQ(plan_chunks(64_MiB, 2, 50e9, 8_MiB).depth, 6U);
  EXPECT_EQ(plan_chunks(1_GiB, 2, 50e9, 1_MiB).chunk_bytes, 1_MiB);
}

TEST(ChunkingTest, OverlapsSmallCopiesAndSlowLinks) {
  EXPECT_GE(1_MiB / plan_chunks(1_MiB, 2, 50e9, 8_MiB).chunk_bytes, 2U);
  EXPECT_GE(64_MiB / plan_chunks(64_MiB, 2, 1e9, 8_MiB).chunk_bytes, 32U);
  EXPECT_EQ(plan_chunks(1, 2, 50e9, 8_MiB).depth, 1U);
  EXPECT_GT(plan_chunks(1_GiB, 3, 50e9, 8_MiB).depth, plan_chunks(1_GiB, 2, 50e9, 8_MiB).depth);
}

TEST(ChunkingTest, WalksOverAllBytesOnce) {
  ChunkCursor cursor({{0, 10}, {20, 3}, {30, 1}, {40, 100}});
  EXPECT_FALSE(cursor.is_done());
  const auto first = cursor.take(12, 8);
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first[0].bytes, 10U);
  EXPECT_EQ(first[1].offset, 20U);
  EXPECT_EQ(first[1].bytes, 2U);
  const auto second = cursor.take(1000, 2);
  ASSERT_EQ(second.size(), 2U);
  EXPECT_EQ(second[0].offset, 22U);
  EXPECT_EQ(second[0].bytes, 1U);
  EXPECT_EQ(second[1].offset, 30U);
  const auto third = cursor.take(60, 8);
  EXPECT_EQ(third.front().offset, 40U);
  const auto last = cursor.take(60, 8);
  EXPECT_EQ(last.front().offset, 100U);
  EXPECT_EQ(last.front().bytes, 40U);
  EXPECT_TRUE(cursor.is_done());
}

}  // namespace
}  // namespace vmem
