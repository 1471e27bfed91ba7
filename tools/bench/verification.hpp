// Compares a buffer of the pool with the plain run's copy, byte by byte.
#pragma once

#include <vmem/pool.hpp>
#include <vmem/status.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace vmem {

// The first byte that differs, and how many do.
struct Mismatch {
  std::string buffer;
  PoolAddress address = 0;  // the buffer's
  std::size_t block = 0;
  std::size_t offset = 0;  // in the buffer
  std::byte expected{};
  std::byte found{};
  std::size_t bytes = 0;

  // "buffer 'grid' at 0x1000: block 3, offset 6291460: expected 0x00, found 0x80; 1 byte(s) differ"
  std::string to_string() const;
};

// Nothing where all bytes are equal. REQUIRES: as many were found as expected.
std::optional<Mismatch> compare_bytes(std::string_view name, PoolAddress address, std::size_t block_bytes,
                                      std::span<const std::byte> found, std::span<const std::byte> expected);

// The same of a buffer of a pool. `name` is the buffer's, for people. Errors: those of Pool::copy_out.
Result<std::optional<Mismatch>> find_mismatch(Pool& pool, std::string_view name, const Buffer& buffer,
                                              std::span<const std::byte> expected);

}  // namespace vmem
