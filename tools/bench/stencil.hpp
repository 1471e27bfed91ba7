// Two sweeps of a five-point stencil over a grid, from one array to the other and back.
#pragma once

#include <memory>

#include "tools/bench/computation.hpp"

namespace vmem {

Result<std::unique_ptr<Computation>> create_stencil(Pool& pool, InputFiles& inputs, const Computation::Shape& shape);

}  // namespace vmem
