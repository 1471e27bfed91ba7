#include "backends/cuda/memory_map.hpp"

#include <gtest/gtest.h>
#include <vmem/types.hpp>

#include <random>

namespace vmem {
namespace {

constexpr std::size_t kGranule = 2_MiB;
constexpr std::uint64_t kBegin = 1_TiB;

using Answer = MemoryMap::Answer;

class MemoryMapTest : public ::testing::Test {
 protected:
  Status map(std::uint64_t address, const Chunk& chunk) {
    VMEM_RETURN_IF_ERROR(map_.begin_map(address, chunk));
    map_.finish_map(address, true);
    return {};
  }
  Status unmap(std::uint64_t address, std::size_t bytes) {
    VMEM_RETURN_IF_ERROR(map_.begin_unmap(address, bytes));
    map_.finish_unmap(address, true);
    return {};
  }

  MemoryMap map_{kGranule};
};

TEST_F(MemoryMapTest, KnowsASlabUntilItIsTaken) {
  map_.add_slab(kBegin, {kBegin - 512, kGranule});
  EXPECT_EQ(map_.find(kBegin, kGranule), Answer::kCovered);
  EXPECT_EQ(map_.find(kBegin + kGranule - 1, 1), Answer::kCovered);
  EXPECT_EQ(map_.find(kBegin + 1, kGranule), Answer::kHole);
  EXPECT_EQ(map_.find(kBegin - 1, 2), Answer::kHole);
  EXPECT_EQ(map_.find(kBegin - 1, 1), Answer::kUnknown);
  EXPECT_EQ(map_.find(kBegin + kGranule, 1), Answer::kUnknown);
  EXPECT_FALSE(map_.take_slab(kBegin + 1));
  const auto slab = map_.take_slab(kBegin);
  ASSERT_TRUE(slab);
  EXPECT_EQ(slab->base, kBegin - 512);
  EXPECT_FALSE(map_.take_slab(kBegin));
  EXPECT_EQ(map_.find(kBegin, 1), Answer::kUnknown);
}

TEST_F(MemoryMapTest, CoversRangesAcrossNeighbouringChunks) {
  map_.add_window(kBegin, kGranule * 4);
  map_.add_chunk({1, kGranule});
  map_.add_chunk({2, kGranule * 2});
  EXPECT_EQ(map_.find(kBegin, 1), Answer::kHole);
  ASSERT_TRUE(map(kBegin, {1, kGranule}));
  ASSERT_TRUE(map(kBegin + kGranule, {2, kGranule * 2}));
  EXPECT_EQ(map_.find(kBegin, kGranule * 3), Answer::kCovered);
  EXPECT_EQ(map_.find(kBegin, kGranule * 3 + 1), Answer::kHole);
  ASSERT_TRUE(unmap(kBegin, kGranule));
  EXPECT_EQ(map_.find(kBegin, kGranule * 3), Answer::kHole);
  EXPECT_EQ(map_.find(kBegin + kGranule, kGranule), Answer::kCovered);
}

TEST_F(MemoryMapTest, HasNothingThereWhileTheDriverIsAtIt) {
  map_.add_window(kBegin, kGranule);
  map_.add_chunk({1, kGranule});
  ASSERT_TRUE(map_.begin_map(kBegin, {1, kGranule}));
  EXPECT_EQ(map_.find(kBegin, 1), Answer::kHole);
  EXPECT_EQ(map_.begin_unmap(kBegin, kGranule).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(map_.begin_map(kBegin, {1, kGranule}).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(map_.take_chunk({1, kGranule}).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(map_.take_window(kBegin, kGranule).code(), StatusCode::kInvalidValue);
  map_.finish_map(kBegin, true);
  ASSERT_TRUE(map_.begin_unmap(kBegin, kGranule));
  EXPECT_EQ(map_.find(kBegin, 1), Answer::kHole);
  EXPECT_EQ(map_.begin_unmap(kBegin, kGranule).code(), StatusCode::kInvalidValue);
  map_.finish_unmap(kBegin, false);
  EXPECT_EQ(map_.find(kBegin, kGranule), Answer::kCovered) << "a failed unmap leaves all as it was";
  ASSERT_TRUE(unmap(kBegin, kGranule));
  EXPECT_TRUE(map_.take_chunk({1, kGranule}));
  EXPECT_TRUE(map_.take_window(kBegin, kGranule));
}

TEST_F(MemoryMapTest, GivesThePlaceBackWhereMappingFails) {
  map_.add_window(kBegin, kGranule);
  map_.add_chunk({1, kGranule});
  ASSERT_TRUE(map_.begin_map(kBegin, {1, kGranule}));
  map_.finish_map(kBegin, false);
  EXPECT_TRUE(map_.take_chunk({1, kGranule}));
  EXPECT_TRUE(map_.take_window(kBegin, kGranule));
}

TEST_F(MemoryMapTest, RefusesPlacesOutsideOfOneWindow) {
  map_.add_window(kBegin, kGranule);
  map_.add_window(kBegin + kGranule, kGranule);  // its neighbour
  map_.add_chunk({1, kGranule * 2});
  map_.add_chunk({2, kGranule});
  for (const std::uint64_t address :
       {kBegin, kBegin - kGranule, kBegin + kGranule, kBegin + kGranule * 2, kBegin + 1}) {
    EXPECT_EQ(map_.begin_map(address, {1, kGranule * 2}).code(), StatusCode::kInvalidValue) << address;
  }
  EXPECT_EQ(map_.begin_map(kBegin, {2, kGranule * 2}).code(), StatusCode::kInvalidValue) << "a wrong size";
  EXPECT_TRUE(map(kBegin, {2, kGranule}));
  EXPECT_EQ(map_.begin_unmap(kBegin, kGranule / 2).code(), StatusCode::kInvalidValue);
}

TEST_F(MemoryMapTest, HandsOverAllThatIsLeft) {
  map_.add_slab(kBegin * 2, {kBegin * 2, kGranule});
  map_.add_window(kBegin, kGranule * 2);
  map_.add_chunk({1, kGranule});
  map_.add_chunk({2, kGranule});
  ASSERT_TRUE(map(kBegin, {1, kGranule}));
  const MemoryMap::Rest rest = map_.take_rest();
  EXPECT_EQ(rest.slab_bases, std::vector<std::uint64_t>{kBegin * 2});
  EXPECT_EQ(rest.mappings.size(), 1U);
  EXPECT_EQ(rest.chunks.size(), 2U);
  EXPECT_EQ(rest.windows.size(), 1U);
  EXPECT_EQ(map_.find(kBegin, 1), Answer::kUnknown);
  EXPECT_TRUE(map_.take_rest().chunks.empty());
}

TEST(AddressRangesTest, AnswersAsAMapOfBytesDoes) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    constexpr std::size_t kSpace = 64;
    std::vector<bool> there(kSpace, false);
    AddressRanges ranges;
    std::vector<std::size_t> begins;
    for (std::size_t at = random() % 4; at < kSpace;) {
      const std::size_t bytes = std::min<std::size_t>(1 + random() % 8, kSpace - at);
      ranges.add(at, bytes);
      begins.push_back(at);
      for (std::size_t i = at; i < at + bytes; ++i) there[i] = true;
      at += bytes + (random() % 2 == 0 ? 0 : random() % 5);
    }
    for (std::size_t begin = 0; begin < kSpace; ++begin) {
      bool all = true;
      bool any = false;
      for (std::size_t end = begin + 1; end <= kSpace; ++end) {
        all = all && there[end - 1];
        any = any || there[end - 1];
        ASSERT_EQ(ranges.covers(begin, end - begin), all) << round << " " << begin << " " << end;
        ASSERT_EQ(ranges.touches(begin, end - begin), any) << round << " " << begin << " " << end;
      }
    }
    for (const std::size_t begin : begins) ranges.remove(begin);
    EXPECT_FALSE(ranges.touches(0, kSpace));
  }
}

}  // namespace
}  // namespace vmem
