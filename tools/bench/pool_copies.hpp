// What an acquire brings from one device to another through a pool, at one size: whole ranges, and every other page.
#pragma once

#include <vmem/pool.hpp>
#include <vmem/status.hpp>
#include <vmem/topology.hpp>

#include <cstddef>

#include "tools/bench/bench_context.hpp"

namespace vmem {

// Adds a "fetch" row: the time of an acquire for read whose bytes are all on the other device. The reference is a plain
// copy of as many pinned bytes, the slower of two where they pass through host memory.
Status run_fetch(BenchContext& context, Pool& pool, DeviceIndex from, DeviceIndex to, std::size_t bytes);

// The same for a buffer twice as large of which every other page has to come: a "scattered" row of `bytes` moved.
Status run_scattered(BenchContext& context, Pool& pool, DeviceIndex from, DeviceIndex to, std::size_t bytes);

}  // namespace vmem
