#include "backends/kernels/kernels.hpp"

#include "backends/kernels/references.hpp"

namespace vmem {
namespace {

// Whole translation units: a device's compiler builds one of them and looks the kernels up in it.
// The prelude comes first: the empty lines keep clang-format from sorting it to the end.
constexpr const char* kDataSource =
#include "backends/kernels/prelude.cu.inc"

#include "backends/kernels/data.cu.inc"
    ;
constexpr const char* kComputeSource =
#include "backends/kernels/prelude.cu.inc"

#include "backends/kernels/compute.cu.inc"
    ;

constexpr KernelImage kKernels[] = {
    {"vmem_gather_pages", gather_pages_reference, kDataSource},
    {"vmem_scatter_pages", scatter_pages_reference, kDataSource},
    {"vmem_copy_pages", copy_pages_reference, kDataSource},
    {"vmem_fill_bytes", fill_bytes_reference, kDataSource},
    {"vmem_compare_bytes", compare_bytes_reference, kDataSource},
    {"vmem_checksum_blocks", checksum_blocks_reference, kDataSource},
    {"vmem_triad", triad_reference, kComputeSource},
    {"vmem_matrix_product", matrix_product_reference, kComputeSource},
    {"vmem_stencil", stencil_reference, kComputeSource},
    {"vmem_add_strided", add_strided_reference, kComputeSource},
    {"vmem_update_hashed", update_hashed_reference, kComputeSource},
};

}  // namespace

std::span<const KernelImage> builtin_kernels() { return kKernels; }

}  // namespace vmem
