#include "runtime/residency/region.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <memory>
#include <thread>
#include <vector>

namespace vmem {
namespace {

constexpr PoolAddress kAddress = 0x7000'0000'0000;

TEST(RegionTest, CutsItsBytesIntoBlocksAndTheLastOneIsTheRest) {
  Region region(kAddress, 3 * 64_KiB + 5000, 64_KiB, false, 2);
  EXPECT_EQ(region.num_blocks(), 4U);
  EXPECT_EQ(region.block(0).bytes(), 64_KiB);
  EXPECT_EQ(region.block(0).num_pages(), 16U);
  EXPECT_EQ(region.block(3).bytes(), 5000U);
  EXPECT_EQ(region.block(3).num_pages(), 2U);
  EXPECT_EQ(region.block(3).index(), 3U);
  EXPECT_EQ(&region.block(3).region(), &region);
  EXPECT_EQ(region.block(3).bytes_of({0, 2}), 5000U);
  EXPECT_EQ(region.block(3).bytes_of({1, 2}), 5000U - kPageBytes);
  EXPECT_EQ(region.block(0).bytes_of({1, 3}), 2 * kPageBytes);
}

TEST(RegionTest, AnOffsetNamesItsBlock) {
  Region region(kAddress, 10 * 64_KiB, 64_KiB, false, 1);
  EXPECT_EQ(region.block_index(0), 0U);
  EXPECT_EQ(region.block_index(64_KiB - 1), 0U);
  EXPECT_EQ(region.block_index(64_KiB), 1U);
  EXPECT_EQ(region.block_index(10 * 64_KiB - 1), 9U);
}

TEST(RegionTest, BlocksAreMadeWhenTheyAreTouched) {
  Region region(kAddress, 200 * 64_KiB, 64_KiB, false, 1);
  EXPECT_EQ(region.find_block(150), nullptr);
  Block& block = region.block(150);
  EXPECT_EQ(region.find_block(150), &block);
  EXPECT_EQ(&region.block(150), &block);
  EXPECT_EQ(region.find_block(149), nullptr) << "a neighbour of the same leaf";
  EXPECT_EQ(region.find_block(3), nullptr) << "another leaf";
  std::vector<std::size_t> seen;
  region.block(3);
  region.for_each_block([&](Block& each) { seen.push_back(each.index()); });
  EXPECT_EQ(seen, (std::vector<std::size_t>{3, 150}));
}

TEST(RegionTest, BookkeepingGrowsWithWhatIsTouchedNotWithAddresses) {
  Region region(kAddress, 1_TiB, 64_MiB, false, 3);
  const std::size_t untouched = region.bookkeeping_bytes();
  EXPECT_LT(untouched, 8_KiB);
  region.block(0);
  const std::size_t one_leaf = region.bookkeeping_bytes();
  EXPECT_GT(one_leaf, untouched);
  region.block(1);
  EXPECT_EQ(region.bookkeeping_bytes(), one_leaf);
  region.block(region.num_blocks() - 1);
  EXPECT_EQ(region.bookkeeping_bytes() - one_leaf, one_leaf - untouched);
}

TEST(RegionTest, ZeroedPagesAreThoseOfTheBlock) {
  Region zeroed(kAddress, 64_KiB + 1, 64_KiB, true, 1);
  Region plain(kAddress, 64_KiB, 64_KiB, false, 1);
  MutexLock lock(zeroed.block(1).mutex);
  EXPECT_TRUE(zeroed.block(1).zeroed.all());
  EXPECT_EQ(zeroed.block(1).zeroed.num_pages(), 1U);
  MutexLock other(plain.block(0).mutex);
  EXPECT_TRUE(plain.block(0).zeroed.none());
}

TEST(RegionTest, PrefersADeviceUntilItIsTakenBack) {
  Region region(kAddress, 64_KiB, 64_KiB, false, 3);
  EXPECT_FALSE(region.preferred().has_value());
  region.prefer(DeviceIndex{0});
  EXPECT_EQ(region.preferred(), DeviceIndex{0});
  region.prefer(DeviceIndex{2});
  EXPECT_EQ(region.preferred(), DeviceIndex{2});
  region.prefer(std::nullopt);
  EXPECT_FALSE(region.preferred().has_value());
}

// Every thread touches all blocks in an order of its own: all must see the same block under each index.
TEST(RegionTest, ThreadsThatTouchABlockAtOnceGetTheSameOne) {
  constexpr std::size_t kThreads = 8;
  constexpr std::size_t kBlocks = 300;
  for (int round = 0; round < 10; ++round) {
    Region region(kAddress, kBlocks * 64_KiB, 64_KiB, false, 1);
    std::vector<std::vector<Block*>> seen(kThreads, std::vector<Block*>(kBlocks));
    std::barrier start(kThreads);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        start.arrive_and_wait();
        // Half of them go up, half go down, from places of their own.
        for (std::size_t i = 0; i < kBlocks; ++i) {
          const std::size_t step = t % 2 == 0 ? i : kBlocks - 1 - i;
          const std::size_t index = (step + t / 2) % kBlocks;
          seen[t][index] = &region.block(index);
          if (seen[t][index] != region.find_block(index)) seen[t][index] = nullptr;
        }
      });
    }
    for (auto& thread : threads) thread.join();
    for (std::size_t i = 0; i < kBlocks; ++i) {
      ASSERT_NE(seen[0][i], nullptr);
      EXPECT_EQ(seen[0][i]->index(), i);
      for (std::size_t t = 1; t < kThreads; ++t) ASSERT_EQ(seen[t][i], seen[0][i]) << i;
    }
  }
}

}  // namespace
}  // namespace vmem
