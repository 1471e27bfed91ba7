// Time and fragmentation of the extent allocator, beside malloc and free on the same trace.
//
// The trace comes from a fixed seed: 100,000 extents live, sizes log-uniform from 4 KiB to 16 MiB in whole pages; each
// step frees a random one and allocates another of a new size. malloc runs the sizes divided by 256, 16 B to 64 KiB.
// All sides take turns in one run.
//
// Usage: extent_allocator_benchmark [--samples NUMBER] [--json FILE]

#include <vmem/types.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "runtime/memory/extent_allocator.hpp"
#include "runtime/memory/fragmentation.hpp"
#include "runtime/support/check.hpp"
#include "tools/bench/operation_report.hpp"

namespace vmem {
namespace {

constexpr std::uint64_t kSeed = 20260214;
constexpr std::size_t kLive = 100'000;
constexpr std::size_t kWarmSteps = 300'000;
constexpr std::size_t kTimedSteps = 500'000;
constexpr std::size_t kLargestPages = 4096;
constexpr std::size_t kMallocScale = 256;
// To be reached at best fit, either of the two: 1.5 x the reference's time, or 20 ns an operation.
constexpr double kLeastRatio = 1 / 1.5;
constexpr double kMostSeconds = 20e-9;

struct Step {
  std::uint32_t slot;
  std::uint32_t pages;
};

struct Trace {
  std::vector<Step> fill;
  std::vector<Step> churn;
  std::size_t peak_live_bytes = 0;
};

Trace make_trace() {
  std::mt19937_64 random(kSeed);
  std::uniform_real_distribution<double> exponent(0.0, std::log2(static_cast<double>(kLargestPages)));
  std::uniform_int_distribution<std::uint32_t> slot(0, kLive - 1);
  const auto pages = [&] { return static_cast<std::uint32_t>(std::lround(std::exp2(exponent(random)))); };
  Trace trace;
  std::vector<std::size_t> live(kLive);
  std::size_t live_bytes = 0;
  const auto live_with = [&](const Step& step) {
    live_bytes += (step.pages - live[step.slot]) * kPageBytes;
    live[step.slot] = step.pages;
    trace.peak_live_bytes = std::max(trace.peak_live_bytes, live_bytes);
  };
  for (std::uint32_t i = 0; i < kLive; ++i) trace.fill.push_back({i, pages()});
  for (std::size_t i = 0; i < kWarmSteps + kTimedSteps; ++i) {
    const std::uint32_t at = slot(random);
    trace.churn.push_back({at, pages()});
  }
  for (const Step& step : trace.fill) live_with(step);
  for (const Step& step : trace.churn) live_with(step);
  return trace;
}

// One side of the comparison: what it does with a step, and its samples.
struct Side {
  std::string name;
  std::vector<double> samples;  // seconds
  FragmentationFigures figures;
};

template <typename Allocate, typename Free>
double run(const Trace& trace, Allocate allocate, Free free) {
  for (const Step& step : trace.fill) allocate(step);
  const auto replace = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      free(trace.churn[i].slot);
      allocate(trace.churn[i]);
    }
  };
  replace(0, kWarmSteps);
  const auto begin = std::chrono::steady_clock::now();
  replace(kWarmSteps, trace.churn.size());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void run_extents(const Trace& trace, FitStrategy strategy, Side& side) {
  // Room for four times what lives: worst fit, which always cuts the largest, is not stopped by the end of the range.
  auto allocator = ExtentAllocator::create({4 * trace.peak_live_bytes, kPageBytes, strategy});
  VMEM_CHECK(allocator);
  std::vector<Extent> live(kLive);
  side.samples.push_back(run(
      trace,
      [&](const Step& step) {
        const auto extent = allocator->allocate(step.pages * kPageBytes);
        VMEM_CHECK(extent);
        live[step.slot] = *extent;
      },
      [&](std::uint32_t slot) { VMEM_CHECK(allocator->deallocate(live[slot])); }));
  side.figures = measure_fragmentation(*allocator, allocator->used_bytes(), trace.peak_live_bytes);
}

void run_malloc(const Trace& trace, Side& side) {
  std::vector<void*> live(kLive);
  side.samples.push_back(run(
      trace,
      [&](const Step& step) {
        live[step.slot] = std::malloc(step.pages * kPageBytes / kMallocScale);
        VMEM_CHECK(live[step.slot] != nullptr);
      },
      [&](std::uint32_t slot) { std::free(live[slot]); }));
  for (void* block : live) std::free(block);
}

OperationRow row_of(const Side& side, const Side& reference) {
  OperationRow row;
  row.name = "extent allocator, " + side.name;
  row.pattern = "allocate";
  row.operations = 2 * kTimedSteps;
  row.samples = side.samples;
  row.reference = reference.name;
  row.reference_samples = reference.samples;
  row.figures = {{"peak_reserved_over_live", side.figures.peak_reserved_over_live()},
                 {"external_fragmentation", side.figures.external()},
                 {"num_free_extents", static_cast<double>(side.figures.num_free_extents)}};
  return row;
}

int run_benchmark(int count, char** arguments) {
  const auto options = parse_operation_arguments(count, arguments);
  if (!options) return 2;
  const Trace trace = make_trace();
  Side best{"best fit", {}, {}};
  Side first{"first fit", {}, {}};
  Side worst{"worst fit", {}, {}};
  Side reference{"malloc and free of the sizes / 256", {}, {}};
  for (unsigned i = 0; i < options->samples; ++i) {
    run_extents(trace, FitStrategy::kBestFit, best);
    run_malloc(trace, reference);
    run_extents(trace, FitStrategy::kFirstFit, first);
    run_extents(trace, FitStrategy::kWorstFit, worst);
  }
  std::vector<OperationRow> rows = {row_of(best, reference), row_of(first, reference), row_of(worst, reference)};
  rows[0].least_ratio = kLeastRatio;
  rows[0].most_seconds = kMostSeconds;
  const int exit_code = report_operations(*options, rows);
  for (const OperationRow& row : rows) {
    std::printf("%s: peak of reserved over live %.3f\n", row.name.c_str(), row.figures.at("peak_reserved_over_live"));
  }
  return exit_code;
}

}  // namespace
}  // namespace vmem

int main(int argc, char** argv) { return vmem::run_benchmark(argc, argv); }
