// Machine code of vmem's kernels for several architectures, where nvcc was there when vmem was built.
#pragma once

namespace vmem {

// A fat binary for cuModuleLoadData; null where vmem was built without nvcc.
const void* embedded_kernels() noexcept;

}  // namespace vmem
