// The end of the process as this backend sees it. Drivers tear themselves down in exit handlers and destructors, in an
// order that nobody controls; a call that comes later may crash. So a handler that is registered after the driver's,
// and hence runs before them, ends all use of it: whatever is destroyed later makes no calls.
#pragma once

#include <memory>

namespace vmem {

class CudaMachine;

// True from then on, in every thread.
bool process_is_exiting() noexcept;

// Has the machine's thread ended when the process begins to exit. REQUIRES: the driver has been initialised.
void end_with_process(const std::shared_ptr<CudaMachine>& machine);

}  // namespace vmem
