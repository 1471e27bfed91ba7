#include "runtime/residency/claim.hpp"

#include <gtest/gtest.h>

#include "runtime/residency/region.hpp"

namespace vmem {
namespace {

class ClaimTest : public ::testing::Test {
 protected:
  static constexpr PoolAddress kAddress = 0x7000'0000'0000;

  // The one piece of a range inside block 0.
  const Piece& piece_of(std::size_t offset, std::size_t bytes, Access access) {
    claim_.pieces.clear();
    claim_.ranges.clear();
    claim_.add(region_, offset, bytes, access);
    EXPECT_EQ(claim_.pieces.size(), 1U);
    return claim_.pieces[0];
  }

  Region region_{kAddress, 4 * 64_KiB + 5000, 64_KiB, false, 1};
  Claim claim_;
};

TEST_F(ClaimTest, ARangeIsCutAtBlocks) {
  claim_.add(region_, 64_KiB - 1, 64_KiB + 2, Access::kRead);
  ASSERT_EQ(claim_.pieces.size(), 3U);
  EXPECT_EQ(claim_.pieces[0].block, &region_.block(0));
  EXPECT_EQ(claim_.pieces[0].pages, (PageRange{15, 16}));
  EXPECT_EQ(claim_.pieces[1].block, &region_.block(1));
  EXPECT_EQ(claim_.pieces[1].pages, (PageRange{0, 16}));
  EXPECT_EQ(claim_.pieces[2].block, &region_.block(2));
  EXPECT_EQ(claim_.pieces[2].pages, (PageRange{0, 1}));
  ASSERT_EQ(claim_.ranges.size(), 1U);
  EXPECT_EQ(claim_.ranges[0].first_piece, 0U);
  EXPECT_EQ(claim_.ranges[0].num_pieces, 3U);
}

TEST_F(ClaimTest, RangesKeepTheirPieces) {
  claim_.add(region_, 0, 100, Access::kRead);
  claim_.add(region_, 64_KiB - 1, 2, Access::kWrite);
  ASSERT_EQ(claim_.ranges.size(), 2U);
  EXPECT_EQ(claim_.ranges[1].first_piece, 1U);
  EXPECT_EQ(claim_.ranges[1].num_pieces, 2U);
  EXPECT_FALSE(claim_.pieces[0].writes);
  EXPECT_TRUE(claim_.pieces[1].writes);
  EXPECT_TRUE(claim_.pieces[2].writes);
}

TEST_F(ClaimTest, ReadsAndWritesNeedAllTheirPages) {
  for (const Access access : {Access::kRead, Access::kWrite}) {
    const Piece& piece = piece_of(100, 3 * kPageBytes, access);
    EXPECT_EQ(piece.pages, (PageRange{0, 4}));
    EXPECT_EQ(piece.needed_head, (PageRange{0, 4}));
    EXPECT_TRUE(piece.needed_tail.empty());
  }
}

TEST_F(ClaimTest, ADiscardingWriteNeedsOnlyThePagesThatItCoversPartly) {
  const Piece& whole = piece_of(kPageBytes, 3 * kPageBytes, Access::kWriteDiscard);
  EXPECT_TRUE(whole.needed_head.empty());
  EXPECT_TRUE(whole.needed_tail.empty());
  EXPECT_TRUE(whole.writes);
  const Piece& both = piece_of(kPageBytes + 1, 3 * kPageBytes, Access::kWriteDiscard);
  EXPECT_EQ(both.pages, (PageRange{1, 5}));
  EXPECT_EQ(both.needed_head, (PageRange{1, 2}));
  EXPECT_EQ(both.needed_tail, (PageRange{4, 5}));
  const Piece& head = piece_of(kPageBytes + 1, 2 * kPageBytes - 1, Access::kWriteDiscard);
  EXPECT_EQ(head.needed_head, (PageRange{1, 2}));
  EXPECT_TRUE(head.needed_tail.empty());
  const Piece& tail = piece_of(kPageBytes, kPageBytes + 1, Access::kWriteDiscard);
  EXPECT_TRUE(tail.needed_head.empty());
  EXPECT_EQ(tail.needed_tail, (PageRange{2, 3}));
}

TEST_F(ClaimTest, ADiscardInsideOnePageNeedsItOnce) {
  const Piece& piece = piece_of(kPageBytes + 10, 20, Access::kWriteDiscard);
  EXPECT_EQ(piece.pages, (PageRange{1, 2}));
  EXPECT_EQ(piece.needed_head, (PageRange{1, 2}));
  EXPECT_TRUE(piece.needed_tail.empty());
}

TEST_F(ClaimTest, ADiscardToTheEndOfTheLastBlockCoversItsShortPage) {
  const Piece& piece = piece_of(4 * 64_KiB, 5000, Access::kWriteDiscard);
  EXPECT_EQ(piece.block, &region_.block(4));
  EXPECT_EQ(piece.pages, (PageRange{0, 2}));
  EXPECT_TRUE(piece.needed_head.empty());
  EXPECT_TRUE(piece.needed_tail.empty());
}

TEST_F(ClaimTest, ADiscardOverSeveralBlocksNeedsItsOwnEndsAlone) {
  claim_.add(region_, 64_KiB - 10, 64_KiB + 20, Access::kWriteDiscard);
  ASSERT_EQ(claim_.pieces.size(), 3U);
  EXPECT_EQ(claim_.pieces[0].needed_head, (PageRange{15, 16}));
  EXPECT_TRUE(claim_.pieces[0].needed_tail.empty());
  EXPECT_TRUE(claim_.pieces[1].needed_head.empty());
  EXPECT_TRUE(claim_.pieces[1].needed_tail.empty());
  EXPECT_TRUE(claim_.pieces[2].needed_head.empty());
  EXPECT_EQ(claim_.pieces[2].needed_tail, (PageRange{0, 1}));
}

}  // namespace
}  // namespace vmem
