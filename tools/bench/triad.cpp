#include "tools/bench/triad.hpp"

#include <algorithm>
#include <vector>

#include "tools/bench/builtin_call.hpp"

namespace vmem {
namespace {

constexpr float kScalar = 3;

class Triad final : public Computation {
 public:
  using Computation::Computation;

  Status allocate(const Shape& shape) {
    count_ = shape.total_bytes / 3 / sizeof(float);
    piece_ = shape.block_bytes / sizeof(float);
    VMEM_ASSIGN_OR_RETURN(a_, add_array("a", count_));
    VMEM_ASSIGN_OR_RETURN(b_, add_array("b", count_));
    VMEM_ASSIGN_OR_RETURN(c_, add_array("c", count_));
    VMEM_RETURN_IF_ERROR(load(b_));
    return load(c_);
  }

  Status reset() override { return overwrite(a_); }
  std::size_t bytes() const override { return 3 * count_ * sizeof(float); }

  Status run(TaskRunner& runner) override {
    for (std::size_t first = 0; first < count_; first += piece_) {
      const std::uint64_t count = std::min(piece_, count_ - first);
      const std::size_t offset = first * sizeof(float);
      const std::size_t bytes = count * sizeof(float);
      KernelTask task;
      task.ranges = {buffer(a_).range(offset, bytes, Access::kWriteDiscard),
                     buffer(b_).range(offset, bytes, Access::kRead), buffer(c_).range(offset, bytes, Access::kRead)};
      task.calls = {builtin_call("vmem_triad", count,
                                 {TaskArgument::address_of(0), TaskArgument::address_of(1), TaskArgument::address_of(2),
                                  TaskArgument::value(kScalar), TaskArgument::value(count)})};
      VMEM_RETURN_IF_ERROR(runner.run(task));
    }
    return runner.finish();
  }

  Status check_plain(unsigned /*num_runs*/) override {
    std::vector<float> expected(count_);
    const std::span<const float> b = plain_floats(b_);
    const std::span<const float> c = plain_floats(c_);
    for (std::size_t i = 0; i < count_; ++i) expected[i] = b[i] + kScalar * c[i];
    return check_equal(a_, expected);
  }

 private:
  std::size_t count_ = 0;
  std::size_t piece_ = 0;  // elements of a task
  std::size_t a_ = 0;
  std::size_t b_ = 0;
  std::size_t c_ = 0;
};

}  // namespace

Result<std::unique_ptr<Computation>> create_triad(Pool& pool, InputFiles& inputs, const Computation::Shape& shape) {
  auto triad = std::make_unique<Triad>(pool, inputs);
  VMEM_RETURN_IF_ERROR(triad->allocate(shape));
  return std::unique_ptr<Computation>(std::move(triad));
}

}  // namespace vmem
