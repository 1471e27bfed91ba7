// What a pool answers about itself: entries of the address table, residency, counters.
#include <numeric>

#include "tests/pool/pool_test.hpp"

namespace vmem::test {
namespace {

class PoolInspectTest : public PoolTest, public ::testing::WithParamInterface<std::uint32_t> {
 protected:
  void SetUp() override { make(spec_of(GetParam())); }
};

TEST_P(PoolInspectTest, AnEntryBeforeItsBufferIsUsedHasNoPlace) {
  for (const std::size_t bytes : {std::size_t{300}, 2 * kBlock + 5}) {
    const Buffer buffer = allocate(bytes);
    for (const std::size_t offset : {std::size_t{0}, bytes - 1}) {
      const auto entry = pool().translate(buffer.address() + offset);
      ASSERT_TRUE(entry.has_value());
      EXPECT_EQ(entry->virtual_address, buffer.address());
      EXPECT_EQ(entry->size, bytes);
      EXPECT_EQ(entry->device, "");
      EXPECT_EQ(entry->physical_address, 0U);
      EXPECT_EQ(entry->chunk, 0U);
      EXPECT_EQ(entry->chunk_offset, 0U);
      EXPECT_EQ(entry->reference_count, 0U);
    }
  }
}

TEST_P(PoolInspectTest, AnEntryNamesTheOwnerAndTheBytesPlaceThere) {
  const Buffer small = filled(300, 1);
  const Buffer large = filled(3 * kBlock, 2);
  for (const Buffer* buffer : {&small, &large}) {
    auto acquired = acquire(buffer->all(Access::kWrite), 1);
    ASSERT_TRUE(acquired.has_value());
    const auto base = reinterpret_cast<std::uint64_t>(acquired->data());
    // Until the release the bytes from before count, and they are elsewhere.
    EXPECT_EQ(pool().translate(buffer->address())->device, name_of(host()));
    ASSERT_TRUE(acquired->release().is_ok());
    std::uint64_t first_chunk = 0;
    for (const std::size_t offset : {std::size_t{0}, buffer->bytes() - 1}) {
      const auto entry = pool().translate(buffer->address() + offset);
      ASSERT_TRUE(entry.has_value());
      EXPECT_EQ(entry->virtual_address, buffer->address());
      EXPECT_EQ(entry->size, buffer->bytes());
      EXPECT_EQ(entry->device, name_of(1));
      EXPECT_EQ(entry->physical_address, base + offset);
      EXPECT_NE(entry->chunk, 0U);
      if ((GetParam() & static_cast<std::uint32_t>(DeviceCap::kVirtualMemory)) != 0) {
        EXPECT_EQ(entry->chunk_offset, (buffer->address() + offset) % kBlock) << "a block is a chunk";
        if (offset != 0 && buffer == &large) {
          EXPECT_NE(entry->chunk, first_chunk) << "blocks have chunks of their own";
        }
      } else {
        EXPECT_EQ(entry->chunk + entry->chunk_offset, entry->physical_address) << "a slab is named by its address";
      }
      first_chunk = entry->chunk;
    }
  }
}

TEST_P(PoolInspectTest, TheOwnerStaysWhileOthersReadAndChangesWithAWrite) {
  const Buffer buffer = filled_on(0, kBlock, 1);
  EXPECT_EQ(pool().translate(buffer.address())->device, name_of(0));
  ASSERT_TRUE(fetch(buffer.all(Access::kRead), 1).is_ok());
  EXPECT_EQ(pool().translate(buffer.address())->device, name_of(0));
  ASSERT_TRUE(fetch(buffer.range(0, kPageBytes, Access::kWrite), 1).is_ok());
  EXPECT_EQ(pool().translate(buffer.address())->device, name_of(1));
  EXPECT_EQ(pool().translate(buffer.address() + kPageBytes)->device, name_of(0)) << "page by page";
}

TEST_P(PoolInspectTest, ReferencesAreLiveAcquiresAndPins) {
  const Buffer buffer = filled(kBlock, 1);
  const Buffer neighbour = filled(300, 2);
  auto first = acquire(buffer.all(Access::kRead), 0);
  EXPECT_EQ(references(buffer), 1U);
  auto second = acquire(buffer.range(5, 1, Access::kRead), 1);
  EXPECT_EQ(references(buffer), 2U);
  ASSERT_TRUE(pool().advise(buffer.address(), kBlock, Advice::kPin, 0).is_ok());
  EXPECT_EQ(references(buffer), 3U);
  EXPECT_EQ(references(neighbour), 0U);
  EXPECT_TRUE(first->release().is_ok());
  EXPECT_TRUE(second->release().is_ok());
  EXPECT_EQ(references(buffer), 1U);
  ASSERT_TRUE(pool().advise(buffer.address(), kBlock, Advice::kUnpin, 0).is_ok());
  EXPECT_EQ(references(buffer), 0U);
}

TEST_P(PoolInspectTest, AddressesOfNoBufferHaveNoEntry) {
  const Buffer buffer = filled(300, 1);
  int on_the_stack = 0;
  for (const PoolAddress address : {PoolAddress{0}, buffer.address() - 1, buffer.address() + 300,
                                    reinterpret_cast<PoolAddress>(&on_the_stack), ~PoolAddress{0}}) {
    EXPECT_EQ(pool().translate(address).error().code(), StatusCode::kInvalidValue) << std::hex << address;
  }
  EXPECT_TRUE(pool().contains(buffer.address()));
  EXPECT_FALSE(pool().contains(0));
  EXPECT_FALSE(pool().contains(reinterpret_cast<PoolAddress>(&on_the_stack)));
  EXPECT_FALSE(pool().residency(buffer.address(), 301).has_value());
  EXPECT_FALSE(pool().residency(buffer.address(), 0).has_value());
}

TEST_P(PoolInspectTest, ResidencyCountsBytesOnEveryDevice) {
  const Buffer buffer = filled_on(0, 4 * kBlock, 1);
  EXPECT_EQ(*pool().residency(buffer.address(), buffer.bytes()), (std::vector<std::size_t>{4 * kBlock, 0, 0}));
  ASSERT_TRUE(fetch(buffer.range(kBlock, 2 * kPageBytes, Access::kRead), 1).is_ok());
  EXPECT_EQ(*pool().residency(buffer.address(), buffer.bytes()),
            (std::vector<std::size_t>{4 * kBlock, 2 * kPageBytes, 0}));
  ASSERT_TRUE(fetch(buffer.range(0, kBlock, Access::kWrite), host()).is_ok());
  EXPECT_EQ(*pool().residency(buffer.address(), buffer.bytes()),
            (std::vector<std::size_t>{3 * kBlock, 2 * kPageBytes, kBlock}));
  EXPECT_EQ(*pool().residency(buffer.address() + kBlock, kPageBytes),
            (std::vector<std::size_t>{kPageBytes, kPageBytes, 0}));
  EXPECT_EQ(*pool().residency(allocate(kBlock).address(), kBlock), (std::vector<std::size_t>{0, 0, 0}));
}

TEST_P(PoolInspectTest, CountersFollowWhatIsDone) {
  const Buffer a = allocate(2 * kBlock);
  const Buffer b = allocate(300);
  EXPECT_EQ(pool().stats().buffers, 2U);
  EXPECT_EQ(pool().stats().allocated_bytes, 2 * kBlock + 300);
  EXPECT_EQ(pool().stats().acquires, 0U);
  ASSERT_TRUE(fetch(a.all(Access::kWrite), 0).is_ok());
  ASSERT_TRUE(fetch(a.all(Access::kRead), 0).is_ok());
  ASSERT_TRUE(fetch(a.all(Access::kRead), 1).is_ok());
  EXPECT_FALSE(fetch(a.range(0, 9 * kBlock, Access::kRead), 0).is_ok());
  const PoolStats stats = pool().stats();
  EXPECT_EQ(stats.acquires, 3U);
  EXPECT_EQ(stats.acquires_resident, 1U);
  EXPECT_EQ(stats.acquires_failed, 1U);
  EXPECT_EQ(stats.blocks_touched, 3U) << "two of a, the shared one of b";
  EXPECT_GT(stats.bookkeeping_bytes, 3 * sizeof(void*));
  ASSERT_EQ(stats.devices.size(), 3U);
  EXPECT_EQ(stats.devices[0].used_bytes, 2 * kBlock);
  EXPECT_EQ(stats.devices[1].used_bytes, 2 * kBlock);
  EXPECT_EQ(stats.devices[0].instances, 2U);
  EXPECT_EQ(stats.devices[0].limit_bytes, 8 * kBlock);
  EXPECT_EQ(stats.devices[0].name, name_of(0));
  EXPECT_GE(stats.devices[0].reserved_bytes, stats.devices[0].used_bytes);
  EXPECT_GE(stats.devices[0].peak_bytes, stats.devices[0].used_bytes);
  EXPECT_EQ(moved(0, 1).fetched_bytes, 2 * kBlock);
  EXPECT_EQ(moved(0, 1).evicted_bytes, 0U);
  EXPECT_EQ(stats.moves.size(), 1U);
}

TEST_P(PoolInspectTest, AFetchThatFailedIsNoReasonToCountAResidentAcquireLess) {
  const Buffer large = allocate(9 * kBlock);
  const Buffer a = filled_on(0, kBlock, 1);
  const std::uint64_t before = pool().stats().acquires_resident;
  EXPECT_FALSE(fetch(large.all(Access::kRead), 0).is_ok());
  ASSERT_TRUE(fetch(a.all(Access::kRead), 0).is_ok());
  EXPECT_EQ(pool().stats().acquires_resident, before + 1);
}

TEST_P(PoolInspectTest, ALiveAcquireIsGrantedAndCounted) {
  const Buffer a = filled_on(0, kBlock, 1);
  const PoolStats before = pool().stats();
  auto held = acquire(a.all(Access::kRead), 0);
  ASSERT_TRUE(held.has_value());
  EXPECT_EQ(pool().stats().acquires, before.acquires + 1);
  EXPECT_EQ(pool().stats().acquires_resident, before.acquires_resident + 1);
  EXPECT_EQ(pool().stats().devices[0].pinned_bytes, kBlock);
}

TEST_P(PoolInspectTest, FragmentationOfAddressesIsBetweenNoneAndAll) {
  std::vector<Buffer> buffers;
  for (int i = 0; i < 20; ++i) buffers.push_back(allocate(kBlock));
  EXPECT_GE(pool().stats().address_fragmentation, 0.0);
  const double before = pool().stats().address_fragmentation;
  for (std::size_t i = 0; i < buffers.size(); i += 2) ASSERT_TRUE(buffers[i].free().is_ok());
  EXPECT_GT(pool().stats().address_fragmentation, before) << "every second is a hole";
  EXPECT_LT(pool().stats().address_fragmentation, 1.0);
}

INSTANTIATE_TEST_SUITE_P(Devices, PoolInspectTest, ::testing::Values(kAllCaps, kNoWindows), [](const auto& tested) {
  return tested.param == kAllCaps ? "WithWindows" : "WithoutWindows";
});

}  // namespace
}  // namespace vmem::test
