// The CPU references, and how they read their parameters.
#pragma once

#include <vmem/kernel.hpp>

#include <cstddef>
#include <cstring>

namespace vmem {

// Reads the parameters of a launch one after the other. A launch with too few leaves `complete` false.
class ParameterReader {
 public:
  explicit ParameterReader(const KernelContext& context) : context_(context) {}

  template <typename T>
  ParameterReader& read(T& value) {
    if (next_ >= context_.num_arguments) {
      complete_ = false;
      return *this;
    }
    std::memcpy(&value, context_.arguments[next_++], sizeof value);
    return *this;
  }
  bool complete() const noexcept { return complete_ && next_ == context_.num_arguments; }

 private:
  const KernelContext& context_;
  std::size_t next_ = 0;
  bool complete_ = true;
};

void gather_pages_reference(const KernelContext& context);
void scatter_pages_reference(const KernelContext& context);
void copy_pages_reference(const KernelContext& context);
void fill_bytes_reference(const KernelContext& context);
void compare_bytes_reference(const KernelContext& context);
void checksum_blocks_reference(const KernelContext& context);

void triad_reference(const KernelContext& context);
void matrix_product_reference(const KernelContext& context);
void stencil_reference(const KernelContext& context);
void add_strided_reference(const KernelContext& context);
void update_hashed_reference(const KernelContext& context);

}  // namespace vmem
