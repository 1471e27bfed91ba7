// Kernels of the doubles: their bodies run on the CPU, the sizes of their parameters come from their source text.
#pragma once

#include <vmem/kernel.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/support/thread_annotations.hpp"

namespace vmem::sim {

struct Parameter {
  std::size_t offset = 0;  // in the launch's buffer of parameters
  std::size_t bytes = 0;
  bool pointer = false;
};

struct Kernel {
  std::string name;
  KernelBody body = nullptr;
  std::vector<Parameter> parameters;
};

// The parameters of `__global__ void name(...)` in a source text; nothing where it does not declare the name or a type
// is unknown.
std::optional<std::vector<Parameter>> parse_parameters(std::string_view source, std::string_view name);

class KernelTable {
 public:
  // False where the source does not declare the name.
  bool add(std::string_view name, std::string_view source, KernelBody body) VMEM_EXCLUDES(mutex_);
  // The kernel of this name in a module with this image. Where bodies were added with exactly this source text, the
  // last of them; else the last that was added under the name; else the built-in one.
  std::optional<Kernel> find(std::string_view image, std::string_view name) const VMEM_EXCLUDES(mutex_);

 private:
  struct Added {
    Kernel kernel;
    std::string source;
  };

  mutable Mutex mutex_;
  std::vector<Added> added_ VMEM_GUARDED_BY(mutex_);
};

}  // namespace vmem::sim
