#include "runtime/memory/address_table.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace vmem {
namespace {

constexpr PoolAddress kBase = 0x7000'0000'0000;

TEST(AddressTableTest, FindsByFirstAndByInteriorAddress) {
  AddressTable table(kBase, 1_TiB);
  const AddressEntry entry{kBase + 3 * kPageBytes, 10'000, 77};
  ASSERT_TRUE(table.insert(entry));
  EXPECT_EQ(table.find(entry.address), entry);
  EXPECT_FALSE(table.find(entry.address + 1));
  EXPECT_EQ(table.find_containing(entry.address + 9'999), entry);
  EXPECT_FALSE(table.find_containing(entry.address + 10'000)) << "the rest of the last page is not the range's";
  EXPECT_FALSE(table.find_containing(entry.address - 1));
  EXPECT_EQ(table.size(), 1U);
  EXPECT_EQ(table.erase(entry.address), entry);
  EXPECT_FALSE(table.erase(entry.address));
  EXPECT_FALSE(table.find_containing(entry.address));
  EXPECT_EQ(table.size(), 0U);
}

TEST(AddressTableTest, RefusesWhatOverlapsOrDoesNotFit) {
  AddressTable table(kBase, 1_GiB);
  ASSERT_TRUE(table.insert({kBase + 8192, 8192, 1}));
  EXPECT_FALSE(table.insert({kBase + 8192, 4096, 2}));
  EXPECT_FALSE(table.insert({kBase + 12288, 1, 2}));
  EXPECT_FALSE(table.insert({kBase + 4096, 4097, 2}));
  EXPECT_FALSE(table.insert({kBase, 1_GiB, 2}));
  EXPECT_FALSE(table.insert({kBase + 1, 10, 2}));
  EXPECT_FALSE(table.insert({kBase, 0, 2}));
  EXPECT_FALSE(table.insert({kBase - 4096, 4096, 2}));
  EXPECT_FALSE(table.insert({kBase + 1_GiB, 4096, 2}));
  EXPECT_FALSE(table.insert({kBase + 1_GiB - 4096, 4097, 2}));
  EXPECT_FALSE(table.insert({kBase + 4096, ~std::size_t{0}, 2}));
  EXPECT_EQ(table.size(), 1U);
  EXPECT_TRUE(table.insert({kBase + 4096, 4096, 3}));
  EXPECT_TRUE(table.insert({kBase + 1_GiB - 4096, 4096, 4}));
  EXPECT_FALSE(table.find_containing(kBase - 1));
  EXPECT_FALSE(table.find_containing(kBase + 1_GiB));
  EXPECT_FALSE(table.find_containing(0));
}

TEST(AddressTableTest, ALargeRangeTakesFewSlots) {
  AddressTable table(kBase, 16_TiB);
  const std::size_t before = table.bookkeeping_bytes();
  const AddressEntry huge{kBase + 4_GiB, 1_TiB, 5};
  ASSERT_TRUE(table.insert(huge));
  EXPECT_LE(table.bookkeeping_bytes() - before, 64_KiB);
  EXPECT_EQ(table.find_containing(kBase + 4_GiB + 1_TiB - 1), huge);
  EXPECT_FALSE(table.find_containing(kBase + 4_GiB + 1_TiB));
  EXPECT_EQ(table.erase(huge.address), huge);
  EXPECT_FALSE(table.find_containing(kBase + 512_GiB));
}

TEST(AddressTableTest, ALargeRangeMayFollowSmallOnesAtTheSamePlace) {
  AddressTable table(kBase, 64_GiB);
  ASSERT_TRUE(table.insert({kBase + 5_GiB, 4096, 1}));
  ASSERT_TRUE(table.erase(kBase + 5_GiB));
  const AddressEntry large{kBase + 1_GiB + kPageBytes, 30_GiB, 2};
  ASSERT_TRUE(table.insert(large));
  for (const std::size_t offset : {std::size_t{0}, 2_MiB, 3_GiB, 4_GiB, 20_GiB, 30_GiB - 1}) {
    EXPECT_EQ(table.find_containing(large.address + offset), large) << offset;
  }
  ASSERT_TRUE(table.erase(large.address));
  ASSERT_TRUE(table.insert({kBase + 5_GiB, 4096, 3}));
  EXPECT_EQ(table.find(kBase + 5_GiB)->value, 3U);
  EXPECT_FALSE(table.find_containing(kBase + 6_GiB));
}

TEST(AddressTableTest, AgreesWithAPlainModelOverRandomSequences) {
  std::mt19937_64 random(7);
  const auto pick = [&](std::size_t low, std::size_t high) {
    return std::uniform_int_distribution<std::size_t>(low, high)(random);
  };
  constexpr std::size_t kSpan = 16_GiB;
  AddressTable table(kBase, kSpan);
  std::map<PoolAddress, AddressEntry> model;
  const auto end_of = [](const AddressEntry& e) { return (e.address + e.bytes + kPageBytes - 1) & ~(kPageBytes - 1); };
  const auto holder = [&](PoolAddress address) -> std::optional<AddressEntry> {
    const auto after = model.upper_bound(address);
    if (after == model.begin()) return std::nullopt;
    const AddressEntry& entry = std::prev(after)->second;
    return address - entry.address < entry.bytes ? std::optional(entry) : std::nullopt;
  };
  for (int i = 0; i < 20'000; ++i) {
    if (pick(0, 99) < 60) {
      // Places near the seams of leaves and nodes, sizes from a page to several root slots.
      const std::size_t seam = pick(0, 3) == 0 ? pick(0, 3) * 4_GiB : pick(0, 8191) * 2_MiB;
      const AddressEntry entry{kBase + (seam + pick(0, 4) * kPageBytes) % kSpan,
                               pick(0, 19) == 0 ? pick(1, 6_GiB) : pick(1, pick(0, 3) == 0 ? 10_MiB : 16_KiB),
                               pick(0, 1u << 30U)};
      bool fits = entry.bytes <= kBase + kSpan - entry.address;
      const auto next = model.lower_bound(entry.address);
      if (next != model.end() && next->first < end_of(entry)) fits = false;
      if (next != model.begin() && end_of(std::prev(next)->second) > entry.address) fits = false;
      ASSERT_EQ(table.insert(entry), fits);
      if (fits) model[entry.address] = entry;
    } else if (!model.empty()) {
      auto victim = model.lower_bound(kBase + pick(0, kSpan));
      if (victim == model.end()) victim = model.begin();
      ASSERT_EQ(table.erase(victim->first), victim->second);
      model.erase(victim);
    }
    for (int probe = 0; probe < 4; ++probe) {
      const PoolAddress address = kBase + pick(0, 8191) * 2_MiB + pick(0, 5 * kPageBytes);
      ASSERT_EQ(table.find_containing(address), holder(address));
    }
    ASSERT_EQ(table.size(), model.size());
  }
  const auto snapshot = table.snapshot();
  ASSERT_EQ(snapshot.size(), model.size());
  std::size_t at = 0;
  for (const auto& [address, entry] : model) EXPECT_EQ(snapshot[at++], entry);
}

// Ranges change hands between sizes at the same places; a reader must see one of them whole, or nothing.
TEST(AddressTableTest, ReadersBesideWritersSeeWholeEntries) {
  AddressTable table(kBase, 1_GiB);
  constexpr std::size_t kPlaces = 16;
  const auto value_of = [](PoolAddress address, std::size_t bytes) { return address * 31 + bytes; };
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> num_found{0};
  const auto place = [](std::size_t i) { return kBase + i * 3_MiB; };
  ASSERT_TRUE(table.insert({place(kPlaces), 100, value_of(place(kPlaces), 100)}));
  std::vector<std::thread> readers;
  for (unsigned r = 0; r < 2; ++r) {
    readers.emplace_back([&, r] {
      std::mt19937 random(r);
      do {
        const PoolAddress address = place(random() % kPlaces) + random() % 3_MiB;
        if (const auto entry = table.find_containing(address)) {
          EXPECT_LT(address - entry->address, entry->bytes);
          EXPECT_EQ(entry->value, value_of(entry->address, entry->bytes));
          num_found.fetch_add(1, std::memory_order_relaxed);
        }
        EXPECT_TRUE(table.find(place(kPlaces))) << "an entry that nobody touches is always there";
      } while (!stop.load(std::memory_order_relaxed));
    });
  }
  std::mt19937 random(99);
  for (int i = 0; i < 20'000 || num_found.load(std::memory_order_relaxed) == 0; ++i) {
    const PoolAddress address = place(random() % kPlaces);
    if (const auto entry = table.erase(address)) {
      EXPECT_EQ(entry->value, value_of(entry->address, entry->bytes));
    } else {
      const std::size_t bytes = 1 + random() % 3_MiB;
      EXPECT_TRUE(table.insert({address, bytes, value_of(address, bytes)}));
    }
  }
  stop = true;
  for (auto& reader : readers) reader.join();
}

TEST(AddressTableTest, OneOfManyErasersGetsTheEntry) {
  AddressTable table(kBase, 1_GiB);
  for (int round = 0; round < 200; ++round) {
    ASSERT_TRUE(table.insert({kBase, 4096, 1}));
    std::atomic<int> num_got{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        if (table.erase(kBase)) num_got.fetch_add(1);
      });
    }
    for (auto& thread : threads) thread.join();
    ASSERT_EQ(num_got.load(), 1);
  }
}

}  // namespace
}  // namespace vmem
