// How many bytes of addresses count as far more than there is memory for.
#pragma once

#include <vmem/types.hpp>

#include <cstddef>

#include "runtime/support/thread_sanitizer.hpp"

namespace vmem {

#if defined(VMEM_THREAD_SANITIZER)
inline constexpr std::size_t kHugeBytes = 64_GiB;  // it leaves a program few addresses
#else
inline constexpr std::size_t kHugeBytes = 1_TiB;
#endif

}  // namespace vmem
