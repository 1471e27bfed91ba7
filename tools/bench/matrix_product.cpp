#include "tools/bench/matrix_product.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tools/bench/builtin_call.hpp"

namespace vmem {
namespace {

constexpr std::size_t kQuickDepth = 16;
constexpr std::size_t kDepth = 64;
constexpr std::size_t kDepthBlocks = 2;
constexpr std::size_t kTileColumns = 1024;

class MatrixProduct final : public Computation {
 public:
  using Computation::Computation;

  // The sums of at most 64 products of numbers up to 15 are exact, whatever the order.
  Status allocate(const Shape& shape) {
    depth_ = shape.quick ? kQuickDepth : kDepth;
    const double elements = static_cast<double>(shape.total_bytes) / sizeof(float);
    const double depth = static_cast<double>(depth_);
    // size^2 for C and size * depth for each of A and B.
    size_ = static_cast<std::size_t>(std::sqrt(elements + depth * depth) - depth);
    panel_rows_ = rows_of_block(shape.block_bytes, size_ * sizeof(float));
    VMEM_ASSIGN_OR_RETURN(c_, add_array("C", size_ * size_));
    VMEM_ASSIGN_OR_RETURN(a_, add_array("A", size_ * depth_));
    VMEM_ASSIGN_OR_RETURN(b_, add_array("B", depth_ * size_));
    VMEM_RETURN_IF_ERROR(load(a_));
    return load(b_);
  }

  Status reset() override { return overwrite(c_); }

  // C is written once and then read and written for each further depth block.
  std::size_t bytes() const override {
    return (size_ * size_ * (2 * kDepthBlocks - 1) + 2 * size_ * depth_) * sizeof(float);
  }

  Status run(TaskRunner& runner) override {
    for (std::size_t depth_block = 0; depth_block < kDepthBlocks; ++depth_block) {
      for (std::size_t row = 0; row < size_; row += panel_rows_) {
        VMEM_RETURN_IF_ERROR(runner.run(panel_task(row, depth_block)));
      }
    }
    return runner.finish();
  }

  Status check_plain(unsigned /*num_runs*/) override {
    const std::span<const float> a = plain_floats(a_);
    const std::span<const float> b = plain_floats(b_);
    std::vector<float> expected(size_ * size_);
    for (std::size_t row = 0; row < size_; ++row) {
      for (std::size_t k = 0; k < depth_; ++k) {
        const float factor = a[row * depth_ + k];
        for (std::size_t column = 0; column < size_; ++column) {
          expected[row * size_ + column] += factor * b[k * size_ + column];
        }
      }
    }
    return check_equal(c_, expected);
  }

 private:
  // Some rows of C by a half of the depth, column tile by column tile.
  KernelTask panel_task(std::size_t row, std::size_t depth_block) const {
    const std::size_t rows = std::min(panel_rows_, size_ - row);
    const std::size_t depth = depth_ / kDepthBlocks;
    const std::size_t first_depth = depth_block * depth;
    KernelTask task;
    task.ranges = {buffer(c_).range(row * size_ * sizeof(float), rows * size_ * sizeof(float),
                                    depth_block == 0 ? Access::kWriteDiscard : Access::kWrite),
                   buffer(a_).range(row * depth_ * sizeof(float), rows * depth_ * sizeof(float), Access::kRead),
                   buffer(b_).range(first_depth * size_ * sizeof(float), depth * size_ * sizeof(float), Access::kRead)};
    for (std::size_t column = 0; column < size_; column += kTileColumns) {
      const std::size_t columns = std::min(kTileColumns, size_ - column);
      const auto number = [](std::size_t n) { return TaskArgument::value(static_cast<std::uint64_t>(n)); };
      task.calls.push_back(builtin_call(
          "vmem_matrix_product", rows * columns,
          {TaskArgument::address_of(0, column * sizeof(float)),
           TaskArgument::address_of(1, first_depth * sizeof(float)),
           TaskArgument::address_of(2, column * sizeof(float)), number(rows), number(columns), number(depth),
           number(size_), number(depth_), number(size_), TaskArgument::value(std::uint32_t{depth_block != 0})}));
    }
    return task;
  }

  std::size_t size_ = 0;   // rows and columns of C
  std::size_t depth_ = 0;  // columns of A, rows of B
  std::size_t panel_rows_ = 0;
  std::size_t a_ = 0;
  std::size_t b_ = 0;
  std::size_t c_ = 0;
};

}  // namespace

Result<std::unique_ptr<Computation>> create_matrix_product(Pool& pool, InputFiles& inputs,
                                                           const Computation::Shape& shape) {
  auto product = std::make_unique<MatrixProduct>(pool, inputs);
  VMEM_RETURN_IF_ERROR(product->allocate(shape));
  return std::unique_ptr<Computation>(std::move(product));
}

}  // namespace vmem
