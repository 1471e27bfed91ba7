// The access patterns: one buffer, filled from files, that every device works on in turn.
#pragma once

#include <vmem/status.hpp>

#include "tools/bench/bench_context.hpp"

namespace vmem {

// Adds the rows "fill", those of the patterns asked for on every device that works, and "read back"; keeps the pool's
// counters. Errors: what failed; a mismatch is none, it is in the context.
Status run_patterns(BenchContext& context, Pool& pool);

}  // namespace vmem
