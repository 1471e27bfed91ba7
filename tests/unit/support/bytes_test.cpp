#include "runtime/support/bytes.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace vmem {
namespace {

constexpr std::size_t kMax = std::numeric_limits<std::size_t>::max();

TEST(BytesTest, AddsUpToTheLastByte) {
  EXPECT_EQ(checked_add(kMax - 1, 1), kMax);
  EXPECT_EQ(checked_add(0, 0), 0U);
  EXPECT_EQ(checked_add(kMax, 1), std::nullopt);
  EXPECT_EQ(checked_add(1, kMax), std::nullopt);
}

TEST(BytesTest, MultipliesUpToTheLastByte) {
  EXPECT_EQ(checked_multiply(0, kMax), 0U);
  EXPECT_EQ(checked_multiply(kMax, 1), kMax);
  EXPECT_EQ(checked_multiply(kMax / 2 + 1, 2), std::nullopt);
}

TEST(BytesTest, AligningNearTheTopOverflowsInsteadOfWrapping) {
  EXPECT_EQ(checked_align_up(kMax, 2_MiB), std::nullopt);
  EXPECT_EQ(checked_align_up(kMax - 3, 2_MiB), std::nullopt);
  EXPECT_EQ(checked_align_up(kMax - 2_MiB + 1, 2_MiB), kMax - 2_MiB + 1);
  EXPECT_EQ(checked_align_up(kMax - 2_MiB + 2, 2_MiB), std::nullopt);
  EXPECT_EQ(checked_align_up(0, 4_KiB), 0U);
  EXPECT_EQ(checked_align_up(1, 4_KiB), 4_KiB);
  EXPECT_EQ(checked_align_up(4_KiB, 4_KiB), 4_KiB);
  EXPECT_EQ(checked_align_up(kMax, 1), kMax);
}

TEST(BytesTest, RoundsDownAndDividesUp) {
  EXPECT_EQ(align_up(6912, 2_MiB), 2_MiB);
  EXPECT_EQ(align_down(4_KiB + 5, 4_KiB), 4_KiB);
  EXPECT_EQ(divide_up(0, 7), 0U);
  EXPECT_EQ(divide_up(8, 7), 2U);
  EXPECT_EQ(divide_up(kMax, kMax), 1U);
}

TEST(BytesTest, KnowsPowersOfTwo) {
  EXPECT_FALSE(is_power_of_two(0));
  EXPECT_TRUE(is_power_of_two(1));
  EXPECT_FALSE(is_power_of_two(3));
  EXPECT_TRUE(is_power_of_two(std::size_t{1} << 63U));
}

TEST(BytesTest, PrintsBinaryUnits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes(3_GiB), "3.0 GiB");
  EXPECT_EQ(format_bytes(1_MiB - 1), "1.0 MiB");
  EXPECT_EQ(format_bytes(1_GiB + 512_MiB), "1.5 GiB");
  EXPECT_EQ(format_bytes(kMax), "16.0 EiB");
}

TEST(BytesTest, PrintsRatesInDecimalUnits) {
  EXPECT_EQ(format_rate(0), "0.0 B/s");
  EXPECT_EQ(format_rate(55.5e9), "55.5 GB/s");
  EXPECT_EQ(format_rate(999.96e6), "1.0 GB/s");
  EXPECT_EQ(format_rate(4.29e12), "4.3 TB/s");
}

TEST(BytesTest, ParsesCountsWithAndWithoutUnits) {
  EXPECT_EQ(parse_bytes("0").value(), 0U);
  EXPECT_EQ(parse_bytes("4096").value(), 4096U);
  EXPECT_EQ(parse_bytes("16GiB").value(), 16_GiB);
  EXPECT_EQ(parse_bytes("16 GiB").value(), 16_GiB);
  EXPECT_EQ(parse_bytes("1.5G").value(), 1_GiB + 512_MiB);
  EXPECT_EQ(parse_bytes("500MB").value(), 500'000'000U);
  EXPECT_EQ(parse_bytes("2TB").value(), 2'000'000'000'000U);
  EXPECT_EQ(parse_bytes("18446744073709551615").value(), kMax);
}

TEST(BytesTest, ReadsBackWhatItPrints) {
  for (const std::size_t bytes : std::vector<std::size_t>{0, 1, 1023, 1_KiB, 3_MiB, 64_GiB, 5_TiB}) {
    EXPECT_EQ(parse_bytes(format_bytes(bytes)).value(), bytes);
  }
}

class BadByteCountTest : public testing::TestWithParam<const char*> {};

TEST_P(BadByteCountTest, IsRefusedWithItsText) {
  const auto bytes = parse_bytes(GetParam());
  ASSERT_FALSE(bytes.has_value());
  EXPECT_EQ(bytes.error().code(), StatusCode::kInvalidValue);
  EXPECT_NE(bytes.error().message().find(GetParam()), std::string_view::npos);
}

INSTANTIATE_TEST_SUITE_P(Texts, BadByteCountTest,
                         testing::Values("", " ", "GiB", "-1", "+1", "1e3", "0x10", "1.2.3", ".", "16gib", "16 Gibi",
                                         "1  GiB", "18446744073709551616", "17179869184GiB", "16777216TiB",
                                         "99999999999999.5TiB", "nan", "inf"));

}  // namespace
}  // namespace vmem
