// C = A * B in tiles: C is square and nearly all of the data, A tall, B wide.
#pragma once

#include <memory>

#include "tools/bench/computation.hpp"

namespace vmem {

Result<std::unique_ptr<Computation>> create_matrix_product(Pool& pool, InputFiles& inputs,
                                                           const Computation::Shape& shape);

}  // namespace vmem
