// a[i] = b[i] + scalar * c[i] over three arrays of one size.
#pragma once

#include <memory>

#include "tools/bench/computation.hpp"

namespace vmem {

Result<std::unique_ptr<Computation>> create_triad(Pool& pool, InputFiles& inputs, const Computation::Shape& shape);

}  // namespace vmem
