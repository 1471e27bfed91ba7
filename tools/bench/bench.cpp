#include "tools/bench/bench.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <vmem/vmem.hpp>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <ostream>
#include <utility>

#include "runtime/support/bytes.hpp"
#include "tools/bench/bench_context.hpp"
#include "tools/bench/compute_job.hpp"
#include "tools/bench/copy_job.hpp"
#include "tools/bench/copy_report.hpp"
#include "tools/bench/machine.hpp"
#include "tools/bench/pattern_job.hpp"
#include "tools/bench/report.hpp"
#include "tools/bench/settings.hpp"
#include "tools/bench/sparse_job.hpp"

namespace vmem {
namespace {

// With a third of the buffer on each; host memory has half of it.
constexpr unsigned kSimulatedGpus = 3;

Result<InputFiles> open_inputs(const std::vector<std::string>& paths) {
  return paths.empty() ? InputFiles::open_own_libraries() : InputFiles::open(paths);
}

RuntimeOptions runtime_options(const BenchOptions& options) {
  RuntimeOptions runtime;
  runtime.topology_file = options.topology_file;
  if (options.topology_file.empty() && std::getenv("VMEM_TOPOLOGY") == nullptr &&
      std::getenv("VMEM_SIMULATED_GPUS") == nullptr) {
    runtime.simulated_gpus = kSimulatedGpus;
  }
  return runtime;
}

BenchReport start_report(const BenchOptions& options, const Runtime& runtime, const BenchPlan& plan,
                         const InputFiles& inputs) {
  BenchReport report;
  report.command = options.command;
  report.seed = options.seed;
  report.buffer_bytes = plan.buffer_bytes;
  report.block_bytes = plan.block_bytes;
  report.input_files = inputs.num_files();
  report.input_bytes = inputs.total_bytes();
  report.devices = runtime.topology().devices();
  report.limits = plan.limits;
  report.drivers = runtime.drivers();
  for (const AbsentBackend& absent : runtime.topology().absent_backends()) {
    report.drivers[absent.name] = "absent: " + absent.reason;
  }
  return report;
}

// Devices, limits and input, before the long work starts.
std::string introduction(const BenchReport& report) {
  std::string text =
      fmt::format("buffer {} in blocks of {}, from {} file(s) with {}\n", format_bytes(report.buffer_bytes),
                  format_bytes(report.block_bytes), report.input_files, format_bytes(report.input_bytes));
  for (const TopologyDevice& device : report.devices) {
    const auto limit = report.limits.find(device.info.name);
    text += fmt::format("  {:<8} {}{}, {} of it for the pool\n", device.info.name, device.info.model,
                        device.info.simulated ? " (simulated)" : "",
                        format_bytes(limit == report.limits.end() ? 0 : limit->second));
  }
  return text;
}

Status run_pool_jobs(BenchContext& context) {
  const auto wanted = [&](std::initializer_list<std::string_view> names) {
    return std::any_of(names.begin(), names.end(), [&](std::string_view name) { return context.settings.has(name); });
  };
  PoolOptions options;
  options.name = "bench";
  options.block_bytes = context.plan.block_bytes;
  options.limits = context.plan.limits;
  VMEM_ASSIGN_OR_RETURN(const std::unique_ptr<Pool> pool, context.runtime.create_pool(options));
  if (wanted({"sequential", "strided", "random", "mixed", "iterating"})) {
    VMEM_RETURN_IF_ERROR(run_patterns(context, *pool));
  }
  if (!context.mismatch && wanted({"triad", "matmul", "stencil"}))
    VMEM_RETURN_IF_ERROR(run_computations(context, *pool));
  return {};
}

Status run_jobs(BenchContext& context) {
  if (context.settings.has("copy")) {
    VMEM_RETURN_IF_ERROR(run_copies(context, main_job_copies(context.settings.quick)));
  }
  if (!context.mismatch) VMEM_RETURN_IF_ERROR(run_pool_jobs(context));
  if (!context.mismatch && context.settings.has("sparse")) VMEM_RETURN_IF_ERROR(run_sparse(context));
  context.progress.clear();
  return {};
}

BenchExit complain(std::ostream& err, const Status& status, BenchExit exit) {
  err << "vmem bench: " << status.to_string() << '\n';
  return exit;
}

BenchExit run(const BenchOptions& options, std::ostream& out, std::ostream& err) {
  const auto settings = parse_settings(options);
  if (!settings) return complain(err, settings.error(), BenchExit::kUsage);
  auto inputs = open_inputs(options.inputs);
  if (!inputs) return complain(err, inputs.error(), BenchExit::kUsage);
  const auto runtime = Runtime::create(runtime_options(options));
  if (!runtime) {
    const bool is_usage = runtime.error().code() == StatusCode::kConfigError;
    return complain(err, runtime.error(), is_usage ? BenchExit::kUsage : BenchExit::kFailure);
  }
  const Topology& topology = (*runtime)->topology();
  const auto plan = options.copies ? make_copy_plan(topology, *settings, options.devices)
                                   : make_plan(topology, *settings, options.devices, read_machine().available_bytes);
  if (!plan) return complain(err, plan.error(), BenchExit::kUsage);

  BenchReport report = start_report(options, **runtime, *plan, *inputs);
  if (!options.copies) out << introduction(report) << std::flush;
  Progress progress(err, &err == &std::cerr && isatty(STDERR_FILENO) != 0);
  BenchContext context{**runtime, *settings, *plan, *inputs, progress, out, report, {}};
  const Status status = options.copies
                            ? run_copies(context, all_copies(settings->least_copy_bytes, settings->most_copy_bytes))
                            : run_jobs(context);
  progress.clear();
  // What was measured before a failure is kept: a mismatch shows in its row.
  Status written;
  if (!options.json_file.empty()) written = write_file(options.json_file, to_json(report));
  if (!options.report_file.empty() && written) written = write_file(options.report_file, copy_report(report));
  if (context.mismatch) {
    err << "vmem bench: mismatch after '" << report.rows.back().name << "': " << context.mismatch->to_string() << '\n';
    return BenchExit::kMismatch;
  }
  if (!status) return complain(err, status, BenchExit::kFailure);
  if (!written) return complain(err, written, BenchExit::kFailure);
  return BenchExit::kOk;
}

}  // namespace

BenchExit run_bench(const BenchOptions& options, std::ostream& out, std::ostream& err) {
  try {
    return run(options, out, err);
  } catch (const std::exception& error) {
    err << "vmem bench: " << error.what() << '\n';
    return BenchExit::kFailure;
  }
}

}  // namespace vmem
