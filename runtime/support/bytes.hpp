// Byte counts: arithmetic that notices overflow, and their written form.
#pragma once

#include <vmem/status.hpp>
#include <vmem/types.hpp>

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace vmem {

constexpr std::optional<std::size_t> checked_add(std::size_t a, std::size_t b) noexcept {
  if (b > std::numeric_limits<std::size_t>::max() - a) return std::nullopt;
  return a + b;
}

constexpr std::optional<std::size_t> checked_multiply(std::size_t a, std::size_t b) noexcept {
  if (a != 0 && b > std::numeric_limits<std::size_t>::max() / a) return std::nullopt;
  return a * b;
}

constexpr bool is_power_of_two(std::size_t n) noexcept { return n != 0 && (n & (n - 1)) == 0; }

// `n` rounded up to a multiple of `alignment`; none where that overflows. REQUIRES: is_power_of_two(alignment).
constexpr std::optional<std::size_t> checked_align_up(std::size_t n, std::size_t alignment) noexcept {
  const auto sum = checked_add(n, alignment - 1);
  if (!sum) return std::nullopt;
  return *sum & ~(alignment - 1);
}

// REQUIRES: is_power_of_two(alignment), and the result fits (checked_align_up tells).
constexpr std::size_t align_up(std::size_t n, std::size_t alignment) noexcept {
  return (n + alignment - 1) & ~(alignment - 1);
}

// REQUIRES: is_power_of_two(alignment).
constexpr std::size_t align_down(std::size_t n, std::size_t alignment) noexcept { return n & ~(alignment - 1); }

// REQUIRES: divisor != 0.
constexpr std::size_t divide_up(std::size_t n, std::size_t divisor) noexcept {
  return n / divisor + (n % divisor != 0 ? 1 : 0);
}

// "512 B", "3.0 GiB", "1.5 KiB": binary units, one decimal above a KiB.
std::string format_bytes(std::size_t bytes);

// "55.5 GB/s": decimal units, as links are measured.
std::string format_rate(double bytes_per_second);

// A count such as "4096", "64MiB", "16 GiB", "1.5G", "500MB": K, M, G, T and KiB ... TiB are powers of 1024; kB, MB, GB
// and TB of 1000. An error says what is wrong with the text.
Result<std::size_t> parse_bytes(std::string_view text);

}  // namespace vmem
