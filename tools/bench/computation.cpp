#include "tools/bench/computation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tools/bench/matrix_product.hpp"
#include "tools/bench/stencil.hpp"
#include "tools/bench/triad.hpp"

namespace vmem {
namespace {

constexpr std::size_t kPieceBytes = 1_MiB;
constexpr std::uint8_t kOverwriteByte = 0xFF;  // as floats, NaN

}  // namespace

Result<std::optional<Mismatch>> Computation::verify() {
  for (const Array& array : arrays_) {
    VMEM_ASSIGN_OR_RETURN(auto mismatch,
                          find_mismatch(pool_, array.name, array.buffer, plain_.bytes(array.buffer.address())));
    if (mismatch) return mismatch;
  }
  return std::optional<Mismatch>();
}

Result<std::size_t> Computation::add_array(std::string name, std::size_t num_floats) {
  VMEM_ASSIGN_OR_RETURN(Buffer buffer, pool_.allocate(num_floats * sizeof(float)));
  VMEM_RETURN_IF_ERROR(plain_.add(buffer.address(), buffer.bytes()));
  arrays_.push_back({std::move(name), std::move(buffer)});
  return arrays_.size() - 1;
}

std::span<float> Computation::plain_floats(std::size_t array) {
  const std::span<std::byte> bytes = plain_.bytes(buffer(array).address());
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

Status Computation::load(std::size_t array) {
  std::vector<std::byte> piece(kPieceBytes);
  const std::span<float> floats = plain_floats(array);
  for (std::size_t first = 0; first < floats.size(); first += piece.size()) {
    const std::size_t count = std::min(piece.size(), floats.size() - first);
    VMEM_RETURN_IF_ERROR(inputs_.read(piece.data(), count));
    for (std::size_t i = 0; i < count; ++i)
      floats[first + i] = static_cast<float>(std::to_integer<unsigned>(piece[i]) & 0xFU);
  }
  return pool_.copy_in(buffer(array).address(), floats.data(), floats.size_bytes());
}

Status Computation::restore(std::size_t array, std::span<const float> values) {
  std::copy(values.begin(), values.end(), plain_floats(array).begin());
  return pool_.copy_in(buffer(array).address(), values.data(), values.size_bytes());
}

Status Computation::overwrite(std::size_t array) {
  std::memset(plain_floats(array).data(), 0, plain_floats(array).size_bytes());
  return pool_.fill(buffer(array).address(), kOverwriteByte, buffer(array).bytes());
}

Status Computation::check_equal(std::size_t array, std::span<const float> expected) {
  const std::span<const float> found = plain_floats(array);
  const auto [at, other] = std::mismatch(found.begin(), found.end(), expected.begin(), expected.end());
  if (at == found.end() && other == expected.end()) return {};
  return Status(StatusCode::kInternal,
                fmt::format("the plain run itself is wrong: array '{}', element {}: {} is not {}", arrays_[array].name,
                            at - found.begin(), at == found.end() ? 0 : *at, other == expected.end() ? 0 : *other));
}

std::size_t Computation::rows_of_block(std::size_t block_bytes, std::size_t row_bytes) {
  return std::max<std::size_t>(block_bytes / row_bytes, 1);
}

Result<std::unique_ptr<Computation>> create_computation(std::string_view name, Pool& pool, InputFiles& inputs,
                                                        const Computation::Shape& shape) {
  if (name == "triad") return create_triad(pool, inputs, shape);
  if (name == "matmul") return create_matrix_product(pool, inputs, shape);
  if (name == "stencil") return create_stencil(pool, inputs, shape);
  return Status(StatusCode::kNotFound, fmt::format("no computation '{}'", name));
}

}  // namespace vmem
