#include "tools/bench/builtin_call.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "backends/kernels/kernels.hpp"
#include "runtime/support/check.hpp"

namespace vmem {
namespace {

constexpr std::uint32_t kThreads = 256;
constexpr std::uint64_t kMostBlocks = 4096;  // the kernels stride over the rest

}  // namespace

KernelCall builtin_call(std::string_view name, std::uint64_t work_items, std::vector<TaskArgument> arguments) {
  const auto kernels = builtin_kernels();
  const auto kernel =
      std::find_if(kernels.begin(), kernels.end(), [&](const KernelImage& image) { return image.name == name; });
  VMEM_CHECK(kernel != kernels.end());
  const std::uint64_t blocks = std::clamp<std::uint64_t>((work_items + kThreads - 1) / kThreads, 1, kMostBlocks);
  return {std::string(name),
          kernel->reference,
          {static_cast<std::uint32_t>(blocks), 1, 1},
          {kThreads, 1, 1},
          std::move(arguments)};
}

}  // namespace vmem
