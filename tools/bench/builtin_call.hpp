// Calls of the kernels that every device with kernels has.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tools/bench/kernel_task.hpp"

namespace vmem {

// A launch of one of builtin_kernels() over `work_items`. REQUIRES: it is one of them.
KernelCall builtin_call(std::string_view name, std::uint64_t work_items, std::vector<TaskArgument> arguments);

}  // namespace vmem
