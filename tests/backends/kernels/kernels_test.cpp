#include "backends/kernels/kernels.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace vmem {
namespace {

TEST(KernelsTest, HaveNamesReferencesAndASourceThatDefinesThem) {
  std::set<std::string> names;
  for (const KernelImage& image : builtin_kernels()) {
    SCOPED_TRACE(image.name);
    EXPECT_TRUE(names.insert(image.name).second);
    EXPECT_NE(image.reference, nullptr);
    ASSERT_NE(image.source, nullptr);
    const std::string definition = "extern \"C\" __global__ void " + std::string(image.name) + "(";
    EXPECT_NE(std::string(image.source).find(definition), std::string::npos);
  }
  EXPECT_GE(names.size(), 10U);
}

TEST(KernelsTest, DoNothingWithTheWrongNumberOfParameters) {
  unsigned char byte = 0x5A;
  void* const pointer = &byte;
  const std::uint64_t one = 1;
  for (const KernelImage& image : builtin_kernels()) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{20}}) {
      std::vector<const void*> arguments(count, &one);
      if (count > 0) arguments[0] = &pointer;
      image.reference(KernelContext{{1, 1, 1}, {1, 1, 1}, 32, arguments.data(), count});
      EXPECT_EQ(byte, 0x5A) << image.name;
    }
  }
}

TEST(Crc32Test, IsTheIeeePolynomialAtEveryLengthAndOffset) {
  EXPECT_EQ(crc32_of("123456789", 9), 0xCBF43926U);
  EXPECT_EQ(crc32_of("", 0), 0U);
  const auto bit_by_bit = [](const unsigned char* data, std::size_t bytes) {
    std::uint32_t sum = 0xFFFFFFFFU;
    for (std::size_t i = 0; i < bytes; ++i) {
      sum ^= data[i];
      for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1U) ^ ((sum & 1U) != 0 ? 0xEDB88320U : 0U);
    }
    return ~sum;
  };
  std::vector<unsigned char> data(128);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<unsigned char>(hash_of(i));
  for (std::size_t offset = 0; offset < 16; ++offset) {
    for (std::size_t bytes = 0; bytes <= 64; ++bytes) {
      ASSERT_EQ(crc32_of(data.data() + offset, bytes), bit_by_bit(data.data() + offset, bytes))
          << offset << " " << bytes;
    }
  }
}

}  // namespace
}  // namespace vmem
