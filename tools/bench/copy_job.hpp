// Copies between all pairs of devices, held against what plain driver calls or memcpy do with the same bytes.
#pragma once

#include <vmem/status.hpp>

#include <cstddef>
#include <vector>

#include "tools/bench/bench_context.hpp"

namespace vmem {

struct CopySelection {
  std::vector<std::size_t> sizes;
  bool exchanges = false;  // both ways at once, for each unordered pair
  bool pool = false;       // through a pool as well: whole ranges, and every other page
};

// What the main job copies, and all that `vmem bench copy` does: a size every four times as large.
CopySelection main_job_copies(bool quick);
CopySelection all_copies(std::size_t least_bytes, std::size_t most_bytes);

// Adds rows for each ordered pair of the devices that work, and each size that fits: "copy", "exchange", "fetch" and
// "scattered". Errors: what failed; a mismatch is none, it is in the context.
Status run_copies(BenchContext& context, const CopySelection& selection);

}  // namespace vmem
