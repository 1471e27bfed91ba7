// What the tables of a pool cost when little of a very large buffer is touched.
#pragma once

#include <vmem/status.hpp>

#include "tools/bench/bench_context.hpp"

namespace vmem {

// Allocates 1 TiB of pool addresses in a pool of its own, writes blocks that lie far apart, and notes the bookkeeping
// in the report.
Status run_sparse(BenchContext& context);

}  // namespace vmem
