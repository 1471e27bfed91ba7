#include "tools/bench/sparse_job.hpp"

#include <fmt/format.h>
#include <vmem/pool.hpp>

#include <algorithm>
#include <memory>
#include <ostream>

#include "runtime/support/bytes.hpp"

namespace vmem {
namespace {

constexpr std::size_t kSparseBytes = 1_TiB;
constexpr std::size_t kPoints = 4;

// As many of these bytes as the process may have addresses for (ulimit -v, sanitizers), halved down to `least`.
Result<Buffer> allocate_sparse(Pool& pool, std::size_t least) {
  std::size_t bytes = kSparseBytes;
  auto buffer = pool.allocate(bytes);
  while (!buffer && buffer.error().code() == StatusCode::kOutOfAddresses && bytes / 2 >= least) {
    bytes /= 2;
    buffer = pool.allocate(bytes);
  }
  return buffer;
}

}  // namespace

Status run_sparse(BenchContext& context) {
  PoolOptions options;
  options.name = "sparse";
  options.block_bytes = context.plan.block_bytes;
  options.limits = context.plan.limits;
  VMEM_ASSIGN_OR_RETURN(const std::unique_ptr<Pool> pool, context.runtime.create_pool(options));
  VMEM_ASSIGN_OR_RETURN(const Buffer buffer, allocate_sparse(*pool, context.plan.buffer_bytes));

  SparseFigures figures;
  figures.buffer_bytes = buffer.bytes();
  figures.untouched_bookkeeping_bytes = pool->stats().bookkeeping_bytes;
  // As much in all as the bench's buffer has, which is known to fit.
  const std::size_t num_blocks =
      std::max(context.plan.buffer_bytes / options.block_bytes / kPoints, std::size_t{1}) * kPoints;
  const std::size_t stride = buffer.bytes() / options.block_bytes / num_blocks * options.block_bytes;
  context.progress.start("sparse");
  for (std::size_t block = 0; block < num_blocks; ++block) {
    VMEM_RETURN_IF_ERROR(pool->fill(buffer.address() + block * stride, 0x5A, options.block_bytes));
    context.progress.update(block + 1, num_blocks);
    const std::size_t touched = (block + 1) * options.block_bytes;
    if ((block + 1) % (num_blocks / kPoints) == 0) figures.points.push_back({touched, pool->stats().bookkeeping_bytes});
  }
  context.progress.clear();
  context.table << fmt::format(
      "bookkeeping of a {} buffer of which {} were written: {} per GiB touched, {} before the first byte\n",
      format_bytes(buffer.bytes()), format_bytes(figures.points.back().touched_bytes),
      format_bytes(static_cast<std::size_t>(std::max(figures.bookkeeping_bytes_per_gib(), 0.0))),
      format_bytes(figures.untouched_bookkeeping_bytes));
  context.report.sparse = std::move(figures);
  return {};
}

}  // namespace vmem
