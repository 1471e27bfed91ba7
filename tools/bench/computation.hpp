// A computation on arrays of floats that live in the pool, with their plain copies.
#pragma once

#include <vmem/pool.hpp>
#include <vmem/status.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/bench/input_files.hpp"
#include "tools/bench/kernel_task.hpp"
#include "tools/bench/plain_memory.hpp"
#include "tools/bench/verification.hpp"

namespace vmem {

// Life: `create` once, then for each device `reset`, `run` on both sides as often as wanted, `verify`.
//
// Thread contract: one thread.
class Computation {
 public:
  struct Shape {
    std::size_t total_bytes = 0;  // of all arrays together, about
    std::size_t block_bytes = 0;
    bool quick = false;
  };

  Computation(Pool& pool, InputFiles& inputs) : pool_(pool), inputs_(inputs) {}
  Computation(const Computation&) = delete;
  Computation& operator=(const Computation&) = delete;
  virtual ~Computation() = default;

  // Brings inputs to their first values, and overwrites outputs in the pool, so that no earlier run's pass for this
  // one's.
  virtual Status reset() = 0;
  // The whole computation, by tasks that fit on a device.
  virtual Status run(TaskRunner& runner) = 0;
  // Of a run: what is read and what is written.
  virtual std::size_t bytes() const = 0;
  // Success if the plain copies hold what one loop over whole arrays, without tasks or kernels, makes of the inputs
  // after `num_runs` runs.
  virtual Status check_plain(unsigned num_runs) = 0;

  TaskRunner& plain() { return plain_; }
  Result<std::optional<Mismatch>> verify();

 protected:
  struct Array {
    std::string name;
    Buffer buffer;
  };

  // The new array's index.
  Result<std::size_t> add_array(std::string name, std::size_t num_floats);
  const Buffer& buffer(std::size_t array) const { return arrays_[array].buffer; }
  std::span<float> plain_floats(std::size_t array);
  // Whole numbers from 0 to 15, made from the input's bytes, from its first one on.
  Status load(std::size_t array);
  // Values that the caller has kept.
  Status restore(std::size_t array, std::span<const float> values);
  Status overwrite(std::size_t array);
  Status check_equal(std::size_t array, std::span<const float> expected);
  // The rows of a piece of about a block, for arrays of that many bytes a row.
  static std::size_t rows_of_block(std::size_t block_bytes, std::size_t row_bytes);

 private:
  Pool& pool_;
  InputFiles& inputs_;
  PlainMemory plain_;
  std::vector<Array> arrays_;
};

// By the names "triad", "matmul" and "stencil". Errors: those of the pool, kNotFound.
Result<std::unique_ptr<Computation>> create_computation(std::string_view name, Pool& pool, InputFiles& inputs,
                                                        const Computation::Shape& shape);

}  // namespace vmem
