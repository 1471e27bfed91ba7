// Runs work that may touch what it must not, as a device does: the fault ends the work, not the process.
#pragma once

#include <functional>

namespace vmem::sim {

// False where the work met SIGSEGV or SIGBUS on this thread; it is left where it was, so it must not hold anything. A
// signal elsewhere goes to whoever handled it before. From the first call on the process has a handler for both
// signals.
bool run_guarded(const std::function<void()>& work);

}  // namespace vmem::sim
