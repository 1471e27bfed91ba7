// A memory barrier on every thread of the process at once, paid for by the caller alone: the others' fast paths go
// without one.
#pragma once

namespace vmem {

// True where `process_barrier` may be used; asked once, then constant. Linux before 4.14 and some sandboxes lack it,
// and ThreadSanitizer does not see the order that it makes.
bool has_process_barrier() noexcept;

// Every thread of the process has passed a full barrier between this call's begin and its end.
// REQUIRES: has_process_barrier().
void process_barrier() noexcept;

}  // namespace vmem
