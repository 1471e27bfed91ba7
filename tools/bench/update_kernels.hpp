// The kernels of the access patterns: small integer work whose result every device computes to the same bytes.
#pragma once

#include <vmem/kernel.hpp>
#include <vmem/types.hpp>

#include <cstdint>
#include <vector>

#include "tools/bench/kernel_task.hpp"

namespace vmem {

// What a device must be given before it can run the tasks below.
const std::vector<KernelImage>& update_kernels();

// Every 32-bit word w of the ranges becomes (w ^ salt) * 0x9E3779B1 + its index in its range.
KernelTask update_task(std::vector<AcquireRange> ranges, std::uint32_t salt);

// The word at `sum` grows by all 32-bit words of the ranges, modulo 2^32.
KernelTask sum_task(std::vector<AcquireRange> ranges, PoolAddress sum);

}  // namespace vmem
