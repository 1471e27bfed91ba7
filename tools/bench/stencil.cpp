#include "tools/bench/stencil.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "tools/bench/builtin_call.hpp"

namespace vmem {
namespace {

constexpr std::size_t kWidth = 2048;
constexpr std::size_t kRowBytes = kWidth * sizeof(float);
constexpr float kCentre = 0.5F;
constexpr float kNeighbour = 0.125F;
constexpr unsigned kSweeps = 2;

class Stencil final : public Computation {
 public:
  using Computation::Computation;

  Status allocate(const Shape& shape) {
    rows_ = shape.total_bytes / 2 / kRowBytes;
    strip_rows_ = rows_of_block(shape.block_bytes, kRowBytes);
    VMEM_ASSIGN_OR_RETURN(grid_, add_array("grid", rows_ * kWidth));
    VMEM_ASSIGN_OR_RETURN(next_, add_array("next grid", rows_ * kWidth));
    VMEM_RETURN_IF_ERROR(load(grid_));
    initial_.assign(plain_floats(grid_).begin(), plain_floats(grid_).end());
    return {};
  }

  Status reset() override {
    VMEM_RETURN_IF_ERROR(restore(grid_, initial_));
    return overwrite(next_);
  }

  std::size_t bytes() const override { return kSweeps * 2 * rows_ * kRowBytes; }

  Status run(TaskRunner& runner) override {
    for (unsigned sweep = 0; sweep < kSweeps; ++sweep) {
      const auto [from, to] = sweep % 2 == 0 ? std::pair(grid_, next_) : std::pair(next_, grid_);
      for (std::size_t row = 0; row < rows_; row += strip_rows_) {
        VMEM_RETURN_IF_ERROR(runner.run(strip_task(from, to, row)));
      }
    }
    return runner.finish();
  }

  Status check_plain(unsigned num_runs) override {
    std::vector<float> grid = initial_;
    std::vector<float> next = initial_;  // with its edge
    for (unsigned sweep = 0; sweep < num_runs * kSweeps; ++sweep) {
      for (std::size_t row = 1; row + 1 < rows_; ++row) {
        for (std::size_t x = 1; x + 1 < kWidth; ++x) {
          const std::size_t i = row * kWidth + x;
          const float around = ((grid[i - kWidth] + grid[i + kWidth]) + grid[i - 1]) + grid[i + 1];
          next[i] = kCentre * grid[i] + kNeighbour * around;
        }
      }
      std::swap(grid, next);
    }
    return check_equal(grid_, grid);
  }

 private:
  // A strip of the output needs a row more of the input on each side where there is one.
  KernelTask strip_task(std::size_t from, std::size_t to, std::size_t row) const {
    const std::size_t rows = std::min(strip_rows_, rows_ - row);
    const std::uint32_t has_above = row > 0 ? 1 : 0;
    const std::uint32_t has_below = row + rows < rows_ ? 1 : 0;
    KernelTask task;
    task.ranges = {
        buffer(to).range(row * kRowBytes, rows * kRowBytes, Access::kWriteDiscard),
        buffer(from).range((row - has_above) * kRowBytes, (rows + has_above + has_below) * kRowBytes, Access::kRead)};
    task.calls = {builtin_call(
        "vmem_stencil", rows * kWidth,
        {TaskArgument::address_of(0), TaskArgument::address_of(1), TaskArgument::value(std::uint64_t{kWidth}),
         TaskArgument::value(static_cast<std::uint64_t>(rows)), TaskArgument::value(has_above),
         TaskArgument::value(has_below), TaskArgument::value(kCentre), TaskArgument::value(kNeighbour)})};
    return task;
  }

  std::size_t rows_ = 0;
  std::size_t strip_rows_ = 0;
  std::size_t grid_ = 0;
  std::size_t next_ = 0;
  std::vector<float> initial_;
};

}  // namespace

Result<std::unique_ptr<Computation>> create_stencil(Pool& pool, InputFiles& inputs, const Computation::Shape& shape) {
  auto stencil = std::make_unique<Stencil>(pool, inputs);
  VMEM_RETURN_IF_ERROR(stencil->allocate(shape));
  return std::unique_ptr<Computation>(std::move(stencil));
}

}  // namespace vmem
