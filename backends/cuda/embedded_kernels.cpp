#include "backends/cuda/embedded_kernels.hpp"

#if defined(VMEM_CUDA_FATBIN)
// The assembler reads the file: an array of its bytes would take the compiler seconds.
asm(".pushsection .rodata\n"
    ".balign 64\n"
    ".hidden vmem_cuda_fatbin\n"
    ".globl vmem_cuda_fatbin\n"
    "vmem_cuda_fatbin:\n"
    ".incbin \"" VMEM_CUDA_FATBIN
    "\"\n"
    ".popsection\n");
// NOLINTNEXTLINE(readability-identifier-naming): a symbol of the assembler's, no constant of C++.
extern "C" __attribute__((visibility("hidden"))) const unsigned char vmem_cuda_fatbin[];
#endif

namespace vmem {

const void* embedded_kernels() noexcept {
#if defined(VMEM_CUDA_FATBIN)
  return vmem_cuda_fatbin;
#else
  return nullptr;
#endif
}

}  // namespace vmem
