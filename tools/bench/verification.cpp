#include "tools/bench/verification.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace vmem {
namespace {

constexpr std::size_t kPieceBytes = 8_MiB;

}  // namespace

std::string Mismatch::to_string() const {
  return fmt::format("buffer '{}' at {:#x}: block {}, offset {}: expected {:#04x}, found {:#04x}; {} byte(s) differ",
                     buffer, address, block, offset, std::to_integer<unsigned>(expected),
                     std::to_integer<unsigned>(found), bytes);
}

std::optional<Mismatch> compare_bytes(std::string_view name, PoolAddress address, std::size_t block_bytes,
                                      std::span<const std::byte> found, std::span<const std::byte> expected) {
  if (std::memcmp(found.data(), expected.data(), expected.size()) == 0) return std::nullopt;
  std::optional<Mismatch> mismatch;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (found[i] == expected[i]) continue;
    if (!mismatch) mismatch = Mismatch{std::string(name), address, i / block_bytes, i, expected[i], found[i], 0};
    ++mismatch->bytes;
  }
  return mismatch;
}

Result<std::optional<Mismatch>> find_mismatch(Pool& pool, std::string_view name, const Buffer& buffer,
                                              std::span<const std::byte> expected) {
  std::vector<std::byte> piece(std::min(kPieceBytes, expected.size()));
  std::optional<Mismatch> mismatch;
  for (std::size_t offset = 0; offset < expected.size(); offset += piece.size()) {
    const std::size_t bytes = std::min(piece.size(), expected.size() - offset);
    VMEM_RETURN_IF_ERROR(pool.copy_out(piece.data(), buffer.address() + offset, bytes));
    const std::byte* const wanted = expected.data() + offset;
    if (std::memcmp(piece.data(), wanted, bytes) == 0) continue;
    for (std::size_t i = 0; i < bytes; ++i) {
      if (piece[i] == wanted[i]) continue;
      if (!mismatch) {
        const std::size_t at = offset + i;
        mismatch =
            Mismatch{std::string(name), buffer.address(), at / pool.options().block_bytes, at, wanted[i], piece[i], 0};
      }
      ++mismatch->bytes;
    }
  }
  return mismatch;
}

}  // namespace vmem
