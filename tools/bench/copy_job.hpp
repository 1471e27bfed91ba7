// Copies between all pairs of devices, held against what plain driver calls or memcpy do with the same bytes.
#pragma once

#include <vmem/status.hpp>

#include "tools/bench/bench_context.hpp"

namespace vmem {

// Adds a "copy" row for each ordered pair of the devices that work, and each size. Errors: what failed; a mismatch is
// none, it is in the context.
Status run_copies(BenchContext& context);

}  // namespace vmem
