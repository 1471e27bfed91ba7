#include "tools/bench/copy_job.hpp"

#include <vmem/types.hpp>

#include <algorithm>
#include <memory>

#include "tools/bench/memcpy_team.hpp"
#include "tools/bench/pair_copies.hpp"
#include "tools/bench/pool_copies.hpp"
#include "tools/bench/settings.hpp"

namespace vmem {
namespace {

constexpr std::size_t kLeastOfPool = 64_KiB;  // below it, an acquire measures its books rather than a copy
constexpr std::size_t kMostScattered = 256_MiB;

// Devices smaller than this leave it to the patterns to fill them.
bool fits(const BenchContext& context, DeviceIndex from, DeviceIndex to, std::size_t bytes) {
  return copy_fits(context.runtime.topology(), from, to, bytes);
}

Status run_pair(BenchContext& context, const CopySelection& selection, DeviceIndex from, DeviceIndex to,
                MemcpyTeam& team) {
  for (const std::size_t bytes : selection.sizes) {
    if (!fits(context, from, to, bytes)) continue;
    PairCopies copies(context, from, to, team);
    VMEM_RETURN_IF_ERROR(copies.one_way(bytes));
    const bool both_compute =
        context.device(from).info.tier != Tier::kHost && context.device(to).info.tier != Tier::kHost;
    if (context.mismatch) return {};
    if (!selection.exchanges || !both_compute || from > to || !fits(context, from, to, 2 * bytes)) continue;
    VMEM_RETURN_IF_ERROR(copies.exchange(bytes));
    if (context.mismatch) return {};
  }
  return {};
}

Status run_pool_pair(BenchContext& context, const CopySelection& selection, Pool& pool, DeviceIndex from,
                     DeviceIndex to) {
  for (const std::size_t bytes : selection.sizes) {
    if (context.mismatch) return {};
    if (bytes < kLeastOfPool || !fits(context, from, to, 2 * bytes)) continue;
    VMEM_RETURN_IF_ERROR(run_fetch(context, pool, from, to, bytes));
    if (context.mismatch || bytes > kMostScattered) continue;
    VMEM_RETURN_IF_ERROR(run_scattered(context, pool, from, to, bytes));
  }
  return {};
}

}  // namespace

CopySelection main_job_copies(bool quick) {
  if (quick) return {{4_MiB, 64_MiB}, false, false};
  return {{64_KiB, 1_MiB, 16_MiB, 64_MiB, 256_MiB}, false, false};
}

CopySelection all_copies(std::size_t least_bytes, std::size_t most_bytes) {
  CopySelection selection{{}, true, true};
  for (std::size_t bytes = least_bytes; bytes <= most_bytes; bytes *= 4) {
    selection.sizes.push_back(bytes);
    if (bytes > SIZE_MAX / 4) break;
  }
  return selection;
}

Status run_copies(BenchContext& context, const CopySelection& selection) {
  MemcpyTeam team(kStagedCopyThreads);
  std::unique_ptr<Pool> pool;
  if (selection.pool) {
    PoolOptions options;
    options.name = "bench copy";
    VMEM_ASSIGN_OR_RETURN(pool, context.runtime.create_pool(options));
  }
  for (const DeviceIndex from : context.plan.workers) {
    for (const DeviceIndex to : context.plan.workers) {
      if (from == to) continue;
      VMEM_RETURN_IF_ERROR(run_pair(context, selection, from, to, team));
      if (pool && !context.mismatch) VMEM_RETURN_IF_ERROR(run_pool_pair(context, selection, *pool, from, to));
      if (context.mismatch) return {};
    }
  }
  return {};
}

}  // namespace vmem
