#include "backends/host/address_map.hpp"

#include <gtest/gtest.h>

namespace vmem {
namespace {

constexpr std::uintptr_t kBase = 0x10000000;
const void* at(std::uintptr_t address) { return reinterpret_cast<const void*>(address); }

class AddressMapTest : public ::testing::Test {
 protected:
  AddressMapTest() : gpu_(map_.add_owner(false)), host_(map_.add_owner(true)) {
    map_.add_region(kBase, 0x10000, gpu_, RegionKind::kWindow);
  }
  void map_range(std::uintptr_t begin, std::size_t bytes) {
    ASSERT_TRUE(map_.begin_map(begin, MappedBytes{3, 0, bytes}, gpu_));
    map_.finish_map(begin, true);
  }
  void unmap_range(std::uintptr_t begin, std::size_t bytes) {
    ASSERT_TRUE(map_.begin_unmap(begin, bytes, gpu_));
    map_.finish_unmap(begin);
  }

  AddressMap map_;
  const OwnerId gpu_;
  const OwnerId host_;
};

TEST_F(AddressMapTest, FindsRangesAcrossNeighbours) {
  map_range(kBase, 0x1000);
  map_range(kBase + 0x1000, 0x2000);
  EXPECT_TRUE(map_.find(at(kBase + 0x800), 0x1000, gpu_));
  EXPECT_TRUE(map_.find(at(kBase), 0x3000, gpu_));
  EXPECT_FALSE(map_.find(at(kBase), 0x3001, gpu_));
  EXPECT_FALSE(map_.find(at(kBase), 0x1000, host_));
}

TEST_F(AddressMapTest, DoesNotPinARangeThatWasMappedAnewMeanwhile) {
  map_range(kBase, 0x1000);
  const auto range = map_.find(at(kBase), 0x1000, gpu_);
  ASSERT_TRUE(range);
  unmap_range(kBase, 0x1000);
  EXPECT_EQ(map_.pin(*range).code(), StatusCode::kInvalidValue);
  map_range(kBase, 0x1000);
  EXPECT_EQ(map_.pin(*range).code(), StatusCode::kInvalidValue);
}

TEST_F(AddressMapTest, RefusesToUnmapWhatIsPinned) {
  map_range(kBase, 0x1000);
  map_range(kBase + 0x1000, 0x1000);
  const auto range = map_.find(at(kBase + 0x800), 0x1000, gpu_);
  ASSERT_TRUE(range);
  ASSERT_TRUE(map_.pin(*range));
  EXPECT_EQ(map_.begin_unmap(kBase, 0x1000, gpu_).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(map_.begin_unmap(kBase + 0x1000, 0x1000, gpu_).error().code(), StatusCode::kInvalidValue);
  map_.unpin(*range);
  unmap_range(kBase, 0x1000);
  unmap_range(kBase + 0x1000, 0x1000);
}

TEST_F(AddressMapTest, KeepsAnAddressTakenWhileItIsBeingUnmapped) {
  map_range(kBase, 0x1000);
  ASSERT_TRUE(map_.begin_unmap(kBase, 0x1000, gpu_));
  EXPECT_FALSE(map_.find(at(kBase), 1, gpu_));
  EXPECT_FALSE(map_.begin_map(kBase, MappedBytes{3, 0, 0x1000}, gpu_));
  EXPECT_FALSE(map_.begin_unmap(kBase, 0x1000, gpu_));
  map_.finish_unmap(kBase);
  map_range(kBase, 0x1000);
}

TEST_F(AddressMapTest, TellsTheHostsMemoryFromADevices) {
  map_range(kBase, 0x1000);
  EXPECT_EQ(map_.find_host(at(kBase), 16, host_).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(map_.find_host(at(kBase - 8), 16, host_).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(map_.find_host(nullptr, 16, host_).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(map_.find_host(at(~std::uintptr_t{0} - 4), 16, host_).error().code(), StatusCode::kInvalidValue);
  const auto unknown = map_.find_host(at(0x777000), 16, host_);
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->stamp, 0U);
  // A hole in a host window is no memory.
  map_.add_region(kBase + 0x100000, 0x2000, host_, RegionKind::kWindow);
  ASSERT_TRUE(map_.begin_map(kBase + 0x100000, MappedBytes{4, 0, 0x1000}, host_));
  map_.finish_map(kBase + 0x100000, true);
  EXPECT_TRUE(map_.find_host(at(kBase + 0x100000), 0x1000, gpu_));
  EXPECT_FALSE(map_.find_host(at(kBase + 0x100000), 0x1001, gpu_));
}

TEST_F(AddressMapTest, RefusesOverlappingRegistrations) {
  ASSERT_TRUE(map_.add_registration(0x700000, 0x2000, gpu_));
  EXPECT_FALSE(map_.add_registration(0x700000, 0x1000, gpu_));
  EXPECT_FALSE(map_.add_registration(0x701FFF, 0x1000, gpu_));
  EXPECT_FALSE(map_.add_registration(0x6FFFFF, 2, gpu_));
  EXPECT_TRUE(map_.add_registration(0x702000, 0x1000, gpu_));
  EXPECT_TRUE(map_.add_registration(0x700000, 0x2000, host_)) << "each device registers for itself";
  EXPECT_TRUE(map_.find(at(0x700100), 0x100, gpu_));
  EXPECT_EQ(*map_.remove_registration(0x700000, gpu_), 0x2000U);
  EXPECT_FALSE(map_.find(at(0x700100), 0x100, gpu_));
}

}  // namespace
}  // namespace vmem
