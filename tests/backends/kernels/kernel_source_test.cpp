// The GPU's source, compiled for the CPU and run thread by thread over a grid, gives the references' bytes: whatever
// the grid, whatever the wave width.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <vector>

#include "backends/kernels/kernels.hpp"

namespace {

struct Dimensions {
  unsigned x = 1;
};
Dimensions threadIdx, blockIdx, blockDim, gridDim;
struct uint4 {
  unsigned x, y, z, w;
};

template <typename T>
void atomicAdd(T* address, T value) {
  *address += value;
}
template <typename T>
void atomicMin(T* address, T value) {
  if (value < *address) *address = value;
}

}  // namespace

#define __global__
#define __device__
#include "kernel_source.inc"  // written by CMake from the sources' text
#undef __global__
#undef __device__

namespace vmem {
namespace {

struct Shape {
  unsigned grid;
  unsigned block;
};
constexpr Shape kShapes[] = {{1, 1}, {1, 64}, {5, 33}, {40, 96}};

void for_each_thread(Shape shape, const std::function<void()>& body) {
  gridDim.x = shape.grid;
  blockDim.x = shape.block;
  for (blockIdx.x = 0; blockIdx.x < shape.grid; ++blockIdx.x) {
    for (threadIdx.x = 0; threadIdx.x < shape.block; ++threadIdx.x) body();
  }
}

template <typename... T>
void run_reference(const char* name, Shape shape, unsigned wave_width, const T&... values) {
  const void* const arguments[] = {&values...};
  for (const KernelImage& image : builtin_kernels()) {
    if (std::strcmp(image.name, name) != 0) continue;
    image.reference(KernelContext{{shape.grid, 1, 1}, {shape.block, 1, 1}, wave_width, arguments, sizeof...(values)});
    return;
  }
  FAIL() << name;
}

// Numbers whose products and sums round.
std::vector<float> numbers(std::size_t count, std::uint64_t seed) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(hash_of(seed + i) % 100003) / 777.0F;
  return values;
}

std::vector<unsigned char> bytes(std::size_t count, std::uint64_t seed) {
  std::vector<unsigned char> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<unsigned char>(hash_of(seed + i));
  return values;
}

// Runs `source` on one copy of `start` and `reference` on another, at both wave widths.
template <typename T>
void expect_equal(const std::vector<T>& start, const std::function<void(T*)>& source,
                  const std::function<void(T*, Shape, unsigned)>& reference) {
  for (const Shape shape : kShapes) {
    std::vector<T> by_source = start;
    for_each_thread(shape, [&] { source(by_source.data()); });
    for (const unsigned wave_width : {32U, 64U}) {
      std::vector<T> by_reference = start;
      reference(by_reference.data(), shape, wave_width);
      EXPECT_EQ(std::memcmp(by_source.data(), by_reference.data(), start.size() * sizeof(T)), 0)
          << "grid " << shape.grid << ", block " << shape.block << ", wave " << wave_width;
    }
  }
}

using u64 = unsigned long long;
using u32 = unsigned int;

TEST(KernelSourceTest, GathersScattersAndCopiesPages) {
  for (const u64 page : {u64{64}, u64{50}}) {  // words of 16 bytes, and bytes
    const u64 count = 30;
    const auto from = bytes(page * 64, 1);
    std::vector<u64> offsets(count);
    for (u64 i = 0; i < count; ++i) offsets[i] = i * 13 % 64 * page;
    const unsigned char* const source = from.data();
    const u64* const list = offsets.data();
    expect_equal<unsigned char>(
        std::vector<unsigned char>(page * count), [&](auto* to) { vmem_gather_pages(to, source, list, count, page); },
        [&](auto* to, Shape shape, unsigned wave) {
          run_reference("vmem_gather_pages", shape, wave, to, source, list, count, page);
        });
    expect_equal<unsigned char>(
        std::vector<unsigned char>(page * 64), [&](auto* to) { vmem_scatter_pages(to, source, list, count, page); },
        [&](auto* to, Shape shape, unsigned wave) {
          run_reference("vmem_scatter_pages", shape, wave, to, source, list, count, page);
        });
    expect_equal<unsigned char>(
        std::vector<unsigned char>(page * 64), [&](auto* to) { vmem_copy_pages(to, source, list, count, page); },
        [&](auto* to, Shape shape, unsigned wave) {
          run_reference("vmem_copy_pages", shape, wave, to, source, list, count, page);
        });
  }
}

TEST(KernelSourceTest, FillsComparesAndChecksums) {
  const u64 size = 5000;
  const u32 value = 0x1AB;  // the low byte counts
  expect_equal<unsigned char>(
      bytes(size, 2), [&](auto* to) { vmem_fill_bytes(to, size - 3, value); },
      [&](auto* to, Shape shape, unsigned wave) {
        const u64 filled = size - 3;
        run_reference("vmem_fill_bytes", shape, wave, to, filled, value);
      });
  auto a = bytes(size, 3);
  auto b = a;
  b[4000] ^= 1U;
  b[4500] ^= 1U;
  const unsigned char* const first = a.data();
  const unsigned char* const second = b.data();
  for (const u64 compared : {u64{4000}, size, u64{0}}) {
    expect_equal<u64>(
        {~u64{0}}, [&](auto* index) { vmem_compare_bytes(first, second, compared, index); },
        [&](auto* index, Shape shape, unsigned wave) {
          run_reference("vmem_compare_bytes", shape, wave, first, second, compared, index);
        });
  }
  for (const u64 block : {u64{1000}, u64{777}, u64{5000}, u64{9999}}) {
    expect_equal<u32>(
        std::vector<u32>(8), [&](auto* sums) { vmem_checksum_blocks(first, size, block, sums); },
        [&](auto* sums, Shape shape, unsigned wave) {
          run_reference("vmem_checksum_blocks", shape, wave, first, size, block, sums);
        });
  }
}

TEST(KernelSourceTest, ComputesTheTriad) {
  const u64 count = 3000;
  const auto b = numbers(count, 1);
  const auto c = numbers(count, 2);
  const float* const b_data = b.data();
  const float* const c_data = c.data();
  const float scalar = 1.37F;
  expect_equal<float>(
      std::vector<float>(count), [&](auto* a) { vmem_triad(a, b_data, c_data, scalar, count); },
      [&](auto* a, Shape shape, unsigned wave) {
        run_reference("vmem_triad", shape, wave, a, b_data, c_data, scalar, count);
      });
}

TEST(KernelSourceTest, ComputesMatrixProducts) {
  const u64 rows = 13, columns = 17, depth = 29, stride = 40;
  const auto a = numbers(stride * stride, 1);
  const auto b = numbers(stride * stride, 2);
  const float* const a_data = a.data();
  const float* const b_data = b.data();
  for (const u32 accumulate : {0U, 1U}) {
    expect_equal<float>(
        numbers(stride * rows, 3),
        [&](auto* c) {
          vmem_matrix_product(c, a_data, b_data, rows, columns, depth, stride, stride, stride, accumulate);
        },
        [&](auto* c, Shape shape, unsigned wave) {
          run_reference("vmem_matrix_product", shape, wave, c, a_data, b_data, rows, columns, depth, stride, stride,
                        stride, accumulate);
        });
  }
}

TEST(KernelSourceTest, ComputesStencils) {
  const u64 width = 19, rows = 7;
  const auto grid = numbers(width * (rows + 2), 4);
  const float* const in = grid.data();
  const float centre = 0.61F, neighbour = 0.097F;
  for (const u32 has_above : {0U, 1U}) {
    for (const u32 has_below : {0U, 1U}) {
      expect_equal<float>(
          std::vector<float>(width * rows),
          [&](auto* out) { vmem_stencil(out, in, width, rows, has_above, has_below, centre, neighbour); },
          [&](auto* out, Shape shape, unsigned wave) {
            run_reference("vmem_stencil", shape, wave, out, in, width, rows, has_above, has_below, centre, neighbour);
          });
    }
  }
}

TEST(KernelSourceTest, UpdatesElements) {
  const u64 count = 500;
  const std::vector<u64> start(count, 7);
  for (const u64 first : {u64{0}, u64{499}, u64{500}, ~u64{0}}) {
    for (const u64 stride : {u64{1}, u64{7}, u64{1000}, ~u64{0}, u64{0}}) {
      const u64 value = 3;
      expect_equal<u64>(
          start, [&](auto* data) { vmem_add_strided(data, count, first, stride, value); },
          [&](auto* data, Shape shape, unsigned wave) {
            run_reference("vmem_add_strided", shape, wave, data, count, first, stride, value);
          });
    }
  }
  const u64 updates = 2000, seed = 99;
  expect_equal<u64>(
      start, [&](auto* data) { vmem_update_hashed(data, count, updates, seed); },
      [&](auto* data, Shape shape, unsigned wave) {
        run_reference("vmem_update_hashed", shape, wave, data, count, updates, seed);
      });
}

}  // namespace
}  // namespace vmem
