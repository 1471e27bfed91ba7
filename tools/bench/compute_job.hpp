// Real computations over data larger than any GPU: a triad, a blocked matrix product and a stencil over a grid.
#pragma once

#include <vmem/pool.hpp>
#include <vmem/status.hpp>

#include "tools/bench/bench_context.hpp"

namespace vmem {

// Adds a row for each computation asked for on every device that works. Its data are small whole numbers made from the
// input's bytes, so that sums have the same bits in every order. Errors: what failed; a mismatch is none, it is in the
// context.
Status run_computations(BenchContext& context, Pool& pool);

}  // namespace vmem
