// References of the computations. Every element is computed by the same operations in the same order as on a GPU, so
// that the bytes are equal; loops may be nested otherwise.
#include <cstdint>

#include "backends/kernels/kernels.hpp"
#include "backends/kernels/references.hpp"

namespace vmem {

void triad_reference(const KernelContext& context) {
  float* a = nullptr;
  const float* b = nullptr;
  const float* c = nullptr;
  float scalar = 0;
  std::uint64_t count = 0;
  if (!ParameterReader(context).read(a).read(b).read(c).read(scalar).read(count).complete()) return;
  for (std::uint64_t i = 0; i < count; ++i) a[i] = b[i] + scalar * c[i];
}

void matrix_product_reference(const KernelContext& context) {
  float* c = nullptr;
  const float* a = nullptr;
  const float* b = nullptr;
  std::uint64_t rows = 0, columns = 0, depth = 0, c_stride = 0, a_stride = 0, b_stride = 0;
  std::uint32_t accumulate = 0;
  const bool complete = ParameterReader(context)
                            .read(c)
                            .read(a)
                            .read(b)
                            .read(rows)
                            .read(columns)
                            .read(depth)
                            .read(c_stride)
                            .read(a_stride)
                            .read(b_stride)
                            .read(accumulate)
                            .complete();
  if (!complete) return;
  for (std::uint64_t row = 0; row < rows; ++row) {
    float* const sums = c + row * c_stride;
    if (accumulate == 0) {
      for (std::uint64_t column = 0; column < columns; ++column) sums[column] = 0;
    }
    for (std::uint64_t k = 0; k < depth; ++k) {
      const float factor = a[row * a_stride + k];
      const float* const line = b + k * b_stride;
      for (std::uint64_t column = 0; column < columns; ++column) sums[column] += factor * line[column];
    }
  }
}

void stencil_reference(const KernelContext& context) {
  float* out = nullptr;
  const float* in = nullptr;
  std::uint64_t width = 0, rows = 0;
  std::uint32_t has_above = 0, has_below = 0;
  float centre = 0, neighbour = 0;
  const bool complete = ParameterReader(context)
                            .read(out)
                            .read(in)
                            .read(width)
                            .read(rows)
                            .read(has_above)
                            .read(has_below)
                            .read(centre)
                            .read(neighbour)
                            .complete();
  if (!complete) return;
  for (std::uint64_t row = 0; row < rows; ++row) {
    const float* const line = in + (row + (has_above != 0 ? 1 : 0)) * width;
    const bool edge = (row == 0 && has_above == 0) || (row + 1 == rows && has_below == 0);
    for (std::uint64_t x = 0; x < width; ++x) {
      float value = line[x];
      if (!edge && x != 0 && x + 1 != width) {
        const float around = ((*(line + x - width) + *(line + x + width)) + line[x - 1]) + line[x + 1];
        value = centre * value + neighbour * around;
      }
      out[row * width + x] = value;
    }
  }
}

void add_strided_reference(const KernelContext& context) {
  std::uint64_t* data = nullptr;
  std::uint64_t count = 0, first = 0, stride = 0, value = 0;
  if (!ParameterReader(context).read(data).read(count).read(first).read(stride).read(value).complete()) return;
  if (stride == 0) return;
  for (std::uint64_t i = first; i < count; i += stride) {
    data[i] += value;
    if (count - i <= stride) return;  // the next index may not be representable
  }
}

void update_hashed_reference(const KernelContext& context) {
  std::uint64_t* data = nullptr;
  std::uint64_t count = 0, updates = 0, seed = 0;
  if (!ParameterReader(context).read(data).read(count).read(updates).read(seed).complete() || count == 0) return;
  for (std::uint64_t u = 0; u < updates; ++u) {
    const std::uint64_t hash = hash_of(seed + u);
    data[hash % count] += hash;
  }
}

}  // namespace vmem
