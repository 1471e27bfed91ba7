#include "tools/bench/compute_job.hpp"

#include <memory>
#include <string_view>
#include <utility>

#include "tools/bench/computation.hpp"
#include "tools/bench/device_worker.hpp"

namespace vmem {
namespace {

Status compute_on(BenchContext& context, Pool& pool, std::string_view name, Computation& computation,
                  DeviceIndex device) {
  VMEM_ASSIGN_OR_RETURN(const auto worker, DeviceWorker::create(context.runtime, pool, device, {}));
  BenchRow row = context.pool_row(name, device);
  row.bytes = computation.bytes();
  row.reference.name = "the same kernels in host memory";
  VMEM_RETURN_IF_ERROR(computation.reset());
  VMEM_RETURN_IF_ERROR(time_in_turn(
      context, row, [&](unsigned) { return computation.run(*worker); },
      [&](unsigned) { return computation.run(computation.plain()); }));
  VMEM_ASSIGN_OR_RETURN(context.mismatch, computation.verify());
  row.verified = !context.mismatch;
  context.add_row(std::move(row));
  return {};
}

}  // namespace

Status run_computations(BenchContext& context, Pool& pool) {
  for (const std::string_view name : {"triad", "matmul", "stencil"}) {
    if (!context.settings.has(name)) continue;
    context.progress.start(std::string(name) + ": loading");
    context.inputs.rewind();
    VMEM_ASSIGN_OR_RETURN(
        const std::unique_ptr<Computation> computation,
        create_computation(name, pool, context.inputs,
                           {context.plan.buffer_bytes, context.plan.block_bytes, context.settings.quick}));
    bool plain_checked = false;
    for (const DeviceIndex device : context.plan.workers) {
      VMEM_RETURN_IF_ERROR(compute_on(context, pool, name, *computation, device));
      if (context.mismatch) return {};
      // Once: on every device the plain run is the same.
      if (!std::exchange(plain_checked, true)) {
        VMEM_RETURN_IF_ERROR(computation->check_plain(context.settings.samples + 1));
      }
    }
  }
  return {};
}

}  // namespace vmem
