// The bodies of vmem bench's own kernels, for doubles in the process of the vmem command (setting "kernels").
#include "tools/bench/update_kernels.hpp"

extern "C" __attribute__((visibility("default"))) void vmem_double_add_kernels(int (*add)(const char* name,
                                                                                          const char* source,
                                                                                          void (*body)(void))) {
  for (const vmem::KernelImage& kernel : vmem::update_kernels()) {
    add(kernel.name, kernel.source, reinterpret_cast<void (*)(void)>(kernel.reference));
  }
}
