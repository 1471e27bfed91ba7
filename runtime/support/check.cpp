#include "runtime/support/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace vmem {

void check_failed(const char* expression, const char* file, int line) noexcept {
  std::fprintf(stderr, "vmem: %s:%d: VMEM_CHECK(%s) failed\n", file, line, expression);
  std::abort();
}

}  // namespace vmem
