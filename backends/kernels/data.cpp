// References of the kernels that move, set, compare and check bytes. A launch with wrong parameters does nothing: a
// kernel has no way to say so.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "backends/kernels/kernels.hpp"
#include "backends/kernels/references.hpp"

namespace vmem {
namespace {

using Crc32Table = std::array<std::array<std::uint32_t, 256>, 8>;

// Row k holds what a byte does to the sum k bytes later, so that eight bytes go in at once.
constexpr Crc32Table make_crc32_table() {
  Crc32Table table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1U) ^ ((sum & 1U) != 0 ? 0xEDB88320U : 0U);
    table[0][byte] = sum;
  }
  for (std::size_t row = 1; row < 8; ++row) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t sum = table[row - 1][byte];
      table[row][byte] = (sum >> 8U) ^ table[0][sum & 0xFFU];
    }
  }
  return table;
}

constexpr Crc32Table kCrc32Table = make_crc32_table();

struct PageList {
  unsigned char* destination = nullptr;
  const unsigned char* source = nullptr;
  const std::uint64_t* offsets = nullptr;
  std::uint64_t count = 0;
  std::uint64_t page_bytes = 0;
};

bool read_page_list(const KernelContext& context, PageList& list) {
  return ParameterReader(context)
      .read(list.destination)
      .read(list.source)
      .read(list.offsets)
      .read(list.count)
      .read(list.page_bytes)
      .complete();
}

}  // namespace

std::uint32_t crc32_of(const void* data, std::size_t bytes) noexcept {
  const auto* at = static_cast<const unsigned char*>(data);
  std::uint32_t sum = 0xFFFFFFFFU;
  for (; bytes >= 8; bytes -= 8, at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    word ^= sum;
    sum = 0;
    for (std::size_t i = 0; i < 8; ++i) sum ^= kCrc32Table[7 - i][(word >> (8 * i)) & 0xFFU];
  }
  for (; bytes > 0; --bytes, ++at) sum = (sum >> 8U) ^ kCrc32Table[0][(sum ^ *at) & 0xFFU];
  return ~sum;
}

void gather_pages_reference(const KernelContext& context) {
  PageList list;
  if (!read_page_list(context, list)) return;
  for (std::uint64_t i = 0; i < list.count; ++i) {
    std::memcpy(list.destination + i * list.page_bytes, list.source + list.offsets[i], list.page_bytes);
  }
}

void scatter_pages_reference(const KernelContext& context) {
  PageList list;
  if (!read_page_list(context, list)) return;
  for (std::uint64_t i = 0; i < list.count; ++i) {
    std::memcpy(list.destination + list.offsets[i], list.source + i * list.page_bytes, list.page_bytes);
  }
}

void copy_pages_reference(const KernelContext& context) {
  PageList list;
  if (!read_page_list(context, list)) return;
  for (std::uint64_t i = 0; i < list.count; ++i) {
    std::memcpy(list.destination + list.offsets[i], list.source + list.offsets[i], list.page_bytes);
  }
}

void fill_bytes_reference(const KernelContext& context) {
  unsigned char* destination = nullptr;
  std::uint64_t bytes = 0;
  std::uint32_t value = 0;
  if (!ParameterReader(context).read(destination).read(bytes).read(value).complete()) return;
  std::memset(destination, static_cast<int>(value & 0xFFU), bytes);
}

void compare_bytes_reference(const KernelContext& context) {
  const unsigned char* a = nullptr;
  const unsigned char* b = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t* first_difference = nullptr;
  if (!ParameterReader(context).read(a).read(b).read(bytes).read(first_difference).complete()) return;
  if (std::memcmp(a, b, bytes) == 0) return;
  const auto index = static_cast<std::uint64_t>(std::mismatch(a, a + bytes, b).first - a);
  *first_difference = std::min(*first_difference, index);
}

void checksum_blocks_reference(const KernelContext& context) {
  const unsigned char* source = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t block_bytes = 0;
  std::uint32_t* checksums = nullptr;
  if (!ParameterReader(context).read(source).read(bytes).read(block_bytes).read(checksums).complete()) return;
  if (block_bytes == 0) return;
  for (std::uint64_t at = 0; at < bytes; at += std::min(block_bytes, bytes - at)) {
    *checksums++ = crc32_of(source + at, std::min(block_bytes, bytes - at));
  }
}

}  // namespace vmem
