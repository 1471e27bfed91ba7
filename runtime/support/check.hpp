// VMEM_CHECK(expression): a broken invariant ends the process, with the expression and its place on standard error.
// It is for mistakes of vmem itself; what a caller or a driver can get wrong is a Status.
#pragma once

namespace vmem {

[[noreturn]] void check_failed(const char* expression, const char* file, int line) noexcept;

}  // namespace vmem

#define VMEM_CHECK(expression) \
  (static_cast<bool>(expression) ? static_cast<void>(0) : ::vmem::check_failed(#expression, __FILE__, __LINE__))
