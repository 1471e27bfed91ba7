#include "runtime/support/process_barrier.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/support/check.hpp"
#include "runtime/support/thread_sanitizer.hpp"

namespace vmem {
namespace {

bool register_process() noexcept {
#if defined(VMEM_THREAD_SANITIZER)
  return false;
#else
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
#endif
}

}  // namespace

bool has_process_barrier() noexcept {
  static const bool kHas = register_process();
  return kHas;
}

void process_barrier() noexcept { VMEM_CHECK(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0); }

}  // namespace vmem
