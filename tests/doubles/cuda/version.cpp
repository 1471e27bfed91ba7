#include "tests/doubles/cuda/entry.hpp"

namespace vmem::cuda_double {

int built_version() { return VMEM_CUDA_DOUBLE_VERSION; }

}  // namespace vmem::cuda_double
