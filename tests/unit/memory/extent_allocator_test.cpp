#include "runtime/memory/extent_allocator.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace vmem {
namespace {

constexpr std::size_t kMax = std::numeric_limits<std::size_t>::max();

ExtentAllocator make(std::size_t capacity, std::size_t granule = 1, FitStrategy strategy = FitStrategy::kBestFit) {
  auto allocator = ExtentAllocator::create({capacity, granule, strategy});
  EXPECT_TRUE(allocator) << allocator.error().to_string();
  return std::move(allocator).value();
}

std::string name_of(FitStrategy strategy) {
  return strategy == FitStrategy::kFirstFit ? "FirstFit" : strategy == FitStrategy::kBestFit ? "BestFit" : "WorstFit";
}

// Free pieces of 40, 10 and 20 units at 0, 50 and 70, and 30 at the end, with one unit in use between them.
struct Pieces {
  explicit Pieces(FitStrategy strategy) : allocator(make(103, 1, strategy)) {
    std::vector<Extent> free_later;
    for (const std::size_t bytes : {40U, 1U, 10U, 1U, 20U, 1U}) {
      const auto extent = allocator.allocate(bytes);
      EXPECT_TRUE(extent);
      if (bytes > 1) free_later.push_back(*extent);
    }
    for (const Extent& extent : free_later) EXPECT_TRUE(allocator.deallocate(extent));
  }
  ExtentAllocator allocator;
};

class EveryFit : public testing::TestWithParam<FitStrategy> {};

TEST(ExtentAllocatorTest, FirstFitTakesTheLowestPieceThatSuffices) {
  Pieces pieces(FitStrategy::kFirstFit);
  EXPECT_EQ(pieces.allocator.allocate(15)->offset, 0U);
}

TEST(ExtentAllocatorTest, BestFitTakesTheSmallestPieceThatSuffices) {
  Pieces pieces(FitStrategy::kBestFit);
  EXPECT_EQ(pieces.allocator.fit(15, 1), 20U);
  EXPECT_EQ(pieces.allocator.allocate(15)->offset, 52U);
  EXPECT_EQ(pieces.allocator.allocate(10)->offset, 41U);
}

TEST(ExtentAllocatorTest, WorstFitTakesTheLargestPiece) {
  Pieces pieces(FitStrategy::kWorstFit);
  EXPECT_EQ(pieces.allocator.allocate(5)->offset, 0U);
  EXPECT_EQ(pieces.allocator.fit(5, 1), 35U);
}

TEST(ExtentAllocatorTest, RefusesOptionsThatMakeNoSense) {
  EXPECT_EQ(ExtentAllocator::create({4096, 0, FitStrategy::kBestFit}).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(ExtentAllocator::create({4096, 3, FitStrategy::kBestFit}).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(ExtentAllocator::create({4097, 4096, FitStrategy::kBestFit}).error().code(), StatusCode::kInvalidValue);
}

TEST_P(EveryFit, RefusesSizesThatOverflowAndChangesNothing) {
  ExtentAllocator allocator = make(std::size_t{1} << 40U, 4096, GetParam());
  const auto kept = allocator.allocate(5000);
  ASSERT_TRUE(kept);
  const std::size_t two_mib = std::size_t{2} << 20U;
  for (const std::size_t bytes : {kMax, kMax - 3, kMax - 4095, kMax - two_mib, kMax - two_mib + 1, kMax - two_mib - 1,
                                  (std::size_t{1} << 40U) + 1, std::size_t{1} << 63U}) {
    EXPECT_FALSE(allocator.allocate(bytes)) << bytes;
    EXPECT_FALSE(allocator.allocate(bytes, two_mib)) << bytes;
    EXPECT_FALSE(allocator.fit(bytes, 4096)) << bytes;
  }
  EXPECT_EQ(allocator.used_bytes(), 8192U);
  EXPECT_EQ(allocator.num_used(), 1U);
  EXPECT_EQ(allocator.num_free(), 1U);
}

TEST_P(EveryFit, RefusesZeroBytesAndAlignmentsThatAreNoPowerOfTwo) {
  ExtentAllocator allocator = make(1 << 20U, 4096, GetParam());
  EXPECT_FALSE(allocator.allocate(0));
  for (const std::size_t alignment : {std::size_t{0}, std::size_t{3}, std::size_t{12288}, kMax}) {
    EXPECT_FALSE(allocator.allocate(1, alignment)) << alignment;
  }
  EXPECT_EQ(allocator.used_bytes(), 0U);
}

TEST_P(EveryFit, AnAlignmentBeyondTheRangeFitsOnlyAtItsBeginning) {
  ExtentAllocator allocator = make(std::size_t{1} << 63U, 1, GetParam());
  const auto first = allocator.allocate(1, std::size_t{1} << 63U);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->offset, 0U);
  EXPECT_FALSE(allocator.allocate(1, std::size_t{1} << 63U));
}

TEST_P(EveryFit, TheWholeOfTheLargestRangeCanBeHandedOut) {
  ExtentAllocator allocator = make(kMax, 1, GetParam());
  const auto whole = allocator.allocate(kMax);
  ASSERT_TRUE(whole);
  EXPECT_FALSE(allocator.allocate(1));
  EXPECT_FALSE(allocator.grow(1));
  EXPECT_TRUE(allocator.deallocate(*whole));
  EXPECT_EQ(allocator.largest_free(), kMax);
}

TEST_P(EveryFit, DoubleForeignAndPartialFreesAreRefused) {
  ExtentAllocator allocator = make(1 << 20U, 4096, GetParam());
  const auto a = allocator.allocate(8192);
  const auto b = allocator.allocate(8192);
  ASSERT_TRUE(a && b);
  EXPECT_TRUE(allocator.deallocate(*a));
  EXPECT_FALSE(allocator.deallocate(*a));
  Extent changed = *b;
  changed.bytes = 4096;
  EXPECT_FALSE(allocator.deallocate(changed));
  changed = *b;
  changed.offset += 4096;
  EXPECT_FALSE(allocator.deallocate(changed));
  changed = *b;
  changed.id = 77;
  EXPECT_FALSE(allocator.deallocate(changed));
  changed.id = kNoNode;
  EXPECT_FALSE(allocator.deallocate(changed));
  EXPECT_EQ(allocator.used_bytes(), 8192U);
  EXPECT_TRUE(allocator.deallocate(*b));
  EXPECT_EQ(allocator.num_free(), 1U);
}

TEST_P(EveryFit, NeighboursMergeOnBothSides) {
  ExtentAllocator allocator = make(3 * 4096, 4096, GetParam());
  const auto a = allocator.allocate(4096);
  const auto b = allocator.allocate(4096);
  const auto c = allocator.allocate(4096);
  ASSERT_TRUE(a && b && c);
  EXPECT_TRUE(allocator.deallocate(*a));
  EXPECT_TRUE(allocator.deallocate(*c));
  EXPECT_EQ(allocator.num_free(), 2U);
  EXPECT_EQ(allocator.largest_free(), 4096U);
  EXPECT_TRUE(allocator.deallocate(*b));
  EXPECT_EQ(allocator.num_free(), 1U);
  EXPECT_EQ(allocator.largest_free(), 3 * 4096U);
}

TEST_P(EveryFit, GrowsAtTheEndAndTrimsWhatIsFreeThere) {
  ExtentAllocator allocator = make(0, 4096, GetParam());
  EXPECT_FALSE(allocator.allocate(1));
  EXPECT_FALSE(allocator.grow(4095));
  EXPECT_FALSE(allocator.grow(kMax & ~std::size_t{4095}) && allocator.grow(4096));
  allocator = make(0, 4096, GetParam());
  ASSERT_TRUE(allocator.grow(8192));
  const auto a = allocator.allocate(4096);
  ASSERT_TRUE(a);
  ASSERT_TRUE(allocator.grow(8192));
  EXPECT_EQ(allocator.largest_free(), 12288U);
  const auto b = allocator.allocate(12288);
  ASSERT_TRUE(b);
  EXPECT_EQ(b->offset, 4096U);
  EXPECT_EQ(allocator.trim(), 0U);
  EXPECT_TRUE(allocator.deallocate(*b));
  EXPECT_EQ(allocator.trim(), 12288U);
  EXPECT_EQ(allocator.capacity(), 4096U);
  EXPECT_EQ(allocator.high_water(), 16384U);
  EXPECT_EQ(allocator.trim(), 0U);
  EXPECT_TRUE(allocator.deallocate(*a));
  EXPECT_EQ(allocator.trim(), 4096U);
  EXPECT_EQ(allocator.num_free(), 0U);
}

TEST_P(EveryFit, FindsTheExtentThatHoldsAByte) {
  ExtentAllocator allocator = make(1 << 20U, 4096, GetParam());
  const auto a = allocator.allocate(4096);
  const auto b = allocator.allocate(8192);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(allocator.find(b->offset + 8191), b);
  EXPECT_EQ(allocator.find(a->offset), a);
  EXPECT_FALSE(allocator.find(b->end()));
  EXPECT_FALSE(allocator.find(kMax));
}

// The plain model: used extents by offset, nothing else; free pieces are what lies between.
class Model {
 public:
  explicit Model(std::size_t capacity) : capacity_(capacity) {}

  std::map<std::size_t, std::size_t> free_pieces() const {
    std::map<std::size_t, std::size_t> pieces;
    std::size_t at = 0;
    for (const auto& [offset, extent] : used_) {
      if (offset > at) pieces[at] = offset - at;
      at = extent.end();
    }
    if (capacity_ > at) pieces[at] = capacity_ - at;
    return pieces;
  }

  // The bytes and, for first fit, the place of the piece that the strategy has to choose; none if it has to refuse.
  std::optional<std::pair<std::size_t, std::size_t>> choose(FitStrategy strategy, std::size_t bytes,
                                                            std::size_t alignment) const {
    std::optional<std::pair<std::size_t, std::size_t>> chosen;
    for (const auto& [offset, piece] : free_pieces()) {
      const std::size_t start = (offset + alignment - 1) / alignment * alignment;
      if (start + bytes > offset + piece) continue;
      const bool better = !chosen || (strategy == FitStrategy::kBestFit && piece < chosen->second) ||
                          (strategy == FitStrategy::kWorstFit && piece > chosen->second);
      if (better) chosen = {offset, piece};
    }
    return chosen;
  }

  std::map<std::size_t, Extent> used_;
  std::size_t capacity_;
};

// One random sequence, every step of which is compared with the model.
class Sequence {
 public:
  Sequence(FitStrategy strategy, std::size_t granule, std::uint64_t seed)
      : strategy_(strategy),
        granule_(granule),
        random_(seed),
        model_(64 * granule),
        real_(make(64 * granule, granule, strategy)) {}

  void run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      const auto kind = pick(0, 99);
      if (kind < 52) {
        allocate();
      } else if (kind < 96) {
        deallocate();
      } else if (kind < 98) {
        grow();
      } else {
        trim();
      }
      check();
    }
  }

 private:
  std::size_t pick(std::size_t low, std::size_t high) {
    return std::uniform_int_distribution<std::size_t>(low, high)(random_);
  }

  void allocate() {
    // Sizes on both sides of where bins hold more than one size (2048 granules).
    const std::size_t granules = pick(0, 3) == 0 ? pick(1, 5000) : pick(1, 40);
    const std::size_t bytes = granules * granule_ - pick(0, granule_ - 1);
    const std::size_t alignment = pick(0, 2) == 0 ? granule_ << pick(0, 6) : granule_;
    const auto expected = model_.choose(strategy_, granules * granule_, alignment);
    const auto fit = real_.fit(bytes, alignment);
    const auto extent = real_.allocate(bytes, alignment);
    ASSERT_EQ(extent.has_value(), expected.has_value());
    ASSERT_EQ(fit.has_value(), expected.has_value());
    if (!extent) return;
    EXPECT_EQ(*fit, expected->second);
    EXPECT_EQ(extent->bytes, granules * granule_);
    EXPECT_EQ(extent->offset % alignment, 0U);
    const auto pieces = model_.free_pieces();
    const auto piece = std::prev(pieces.upper_bound(extent->offset));
    EXPECT_EQ(piece->second, expected->second) << "another piece than the strategy says";
    EXPECT_LE(extent->end(), piece->first + piece->second);
    if (strategy_ == FitStrategy::kFirstFit) {
      EXPECT_EQ(piece->first, expected->first);
    }
    model_.used_[extent->offset] = *extent;
  }

  void deallocate() {
    if (model_.used_.empty()) return;
    const auto victim = std::next(model_.used_.begin(), static_cast<std::ptrdiff_t>(pick(0, model_.used_.size() - 1)));
    EXPECT_TRUE(real_.deallocate(victim->second));
    EXPECT_FALSE(real_.deallocate(victim->second));
    model_.used_.erase(victim);
  }

  void grow() {
    const std::size_t bytes = pick(0, 3000) * granule_;
    EXPECT_TRUE(real_.grow(bytes));
    model_.capacity_ += bytes;
  }

  void trim() {
    const std::size_t end = model_.used_.empty() ? 0 : std::prev(model_.used_.end())->second.end();
    EXPECT_EQ(real_.trim(), model_.capacity_ - end);
    model_.capacity_ = end;
  }

  void check() const {
    const auto pieces = model_.free_pieces();
    std::map<std::size_t, std::size_t> seen;
    std::size_t used = 0;
    std::size_t at = 0;
    real_.for_each([&](const Extent& extent, bool is_used) {
      ASSERT_EQ(extent.offset, at) << "extents don't follow each other";
      at = extent.end();
      if (!is_used) {
        seen[extent.offset] = extent.bytes;
        return;
      }
      used += extent.bytes;
      const auto found = model_.used_.find(extent.offset);
      ASSERT_NE(found, model_.used_.end());
      EXPECT_EQ(found->second, extent);
    });
    std::size_t largest = 0;
    for (const auto& [offset, bytes] : pieces) largest = std::max(largest, bytes);
    EXPECT_EQ(at, model_.capacity_);
    EXPECT_EQ(seen, pieces);
    EXPECT_EQ(real_.capacity(), model_.capacity_);
    EXPECT_EQ(real_.used_bytes(), used);
    EXPECT_EQ(real_.free_bytes(), model_.capacity_ - used);
    EXPECT_EQ(real_.num_used(), model_.used_.size());
    EXPECT_EQ(real_.num_free(), pieces.size());
    EXPECT_EQ(real_.largest_free(), largest);
  }

  FitStrategy strategy_;
  std::size_t granule_;
  std::mt19937_64 random_;
  Model model_;
  ExtentAllocator real_;
};

TEST_P(EveryFit, AgreesWithAPlainModelOverRandomSequences) {
  for (std::uint64_t seed = 1; seed <= 12 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Sequence(GetParam(), seed % 2 == 0 ? 1 : 4096, seed).run(1500);
  }
}

INSTANTIATE_TEST_SUITE_P(ExtentAllocatorTest, EveryFit,
                         testing::Values(FitStrategy::kFirstFit, FitStrategy::kBestFit, FitStrategy::kWorstFit),
                         [](const auto& fit) { return name_of(fit.param); });

}  // namespace
}  // namespace vmem
