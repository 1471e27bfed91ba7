// The declarations of all entries, which their definitions are checked against.
#pragma once

#include "tests/doubles/cuda/abi.hpp"

namespace vmem {

#define VMEM_ENTRY(name, symbol, version, ...) extern "C" CuResult symbol(__VA_ARGS__);
#define VMEM_THREAD_ENTRY(name, symbol, version, ...) extern "C" CuResult symbol(__VA_ARGS__);
#define VMEM_ALIAS(name, symbol, version)
#include "tests/doubles/cuda/entries.inc"
#undef VMEM_ENTRY
#undef VMEM_THREAD_ENTRY
#undef VMEM_ALIAS

}  // namespace vmem
