// The kernels that every device with kKernels has from the start, by name: CPU references and one source for CUDA and
// HIP.
//
// Parameters are listed in order with their types; sizes and counts are std::uint64_t, pointers are the device's. Any
// grid and block does: threads stride over the work, and the result does not depend on how it is split.
//
//   vmem_gather_pages     void* destination, const void* source, const uint64_t* offsets, uint64_t count,
//                         uint64_t page_bytes
//                         destination[i * page_bytes ...] = source[offsets[i] ...]; offsets are bytes
//   vmem_scatter_pages    the same parameters: destination[offsets[i] ...] = source[i * page_bytes ...]. The offsets of
//                         both must differ by a page at least where pages are written.
//   vmem_copy_pages       the same parameters: destination[offsets[i] ...] = source[offsets[i] ...], apart as above
//   vmem_fill_bytes       void* destination, uint64_t bytes, uint32_t value
//   vmem_compare_bytes    const void* a, const void* b, uint64_t bytes, uint64_t* first_difference
//                         lowers *first_difference to the index of the first byte that differs; the caller sets it to
//                         UINT64_MAX before
//   vmem_checksum_blocks  const void* source, uint64_t bytes, uint64_t block_bytes, uint32_t* checksums
//                         CRC-32 (IEEE) of each block; the last one may be short
//   vmem_triad            float* a, const float* b, const float* c, float scalar, uint64_t count
//                         a[i] = b[i] + scalar * c[i]
//   vmem_matrix_product   float* c, const float* a, const float* b, uint64_t rows, uint64_t columns, uint64_t depth,
//                         uint64_t c_stride, uint64_t a_stride, uint64_t b_stride, uint32_t accumulate
//                         one tile, row-major, strides in elements: c = a * b, or c += a * b
//   vmem_stencil          float* out, const float* in, uint64_t width, uint64_t rows, uint32_t has_above,
//                         uint32_t has_below, float centre, float neighbour
//                         a strip of `rows` rows of a grid: out = centre * in + neighbour * (up + down + left + right).
//                         `in` begins a row earlier where has_above is 1 and ends a row later where has_below is 1;
//                         cells on the grid's edge are copied.
//   vmem_add_strided      uint64_t* data, uint64_t count, uint64_t first, uint64_t stride, uint64_t value
//                         adds the value to data[first], data[first + stride], ... below count; stride > 0
//   vmem_update_hashed    uint64_t* data, uint64_t count, uint64_t updates, uint64_t seed
//                         update u adds hash(seed + u) to data[hash(seed + u) % count]; count > 0 (`hash_of` is the
//                         hash)
#pragma once

#include <vmem/kernel.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace vmem {

// Lives as long as the program.
std::span<const KernelImage> builtin_kernels();

// The hash of vmem_update_hashed: splitmix64's finaliser.
constexpr std::uint64_t hash_of(std::uint64_t x) noexcept {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

// CRC-32 (IEEE 802.3) of `bytes` bytes: 0xCBF43926 for "123456789".
std::uint32_t crc32_of(const void* data, std::size_t bytes) noexcept;

}  // namespace vmem
