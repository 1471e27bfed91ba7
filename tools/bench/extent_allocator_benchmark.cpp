// Time and fragmentation of the extent allocator, beside malloc and free on the same trace.
//
// The trace comes from a fixed seed: 100,000 extents live, sizes log-uniform from 4 KiB to 16 MiB in whole pages; each
// step frees a random one and allocates another of a new size. malloc runs the sizes divided by 256, 16 B to 64 KiB.
// All sides take turns in one run. Prints JSON: {"trace", "results": [{"name", "samples", "nanoseconds_per_operation",
// ...}]}.
//
// Usage: extent_allocator_benchmark [samples, at least 7]

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

namespace vmem {
namespace {

constexpr std::uint64_t kSeed = 20260214;
constexpr std::size_t kLive = 100'000;
constexpr std::size_t kWarmSteps = 300'000;
constexpr std::size_t kTimedSteps = 500'000;
constexpr std::size_t kLargestPages = 4096;
constexpr std::size_t kMallocScale = 256;

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
  std::vector<double> samples;  // nanoseconds an operation
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
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
  return time.count() / static_cast<double>(2 * kTimedSteps);
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

double median(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

void print(const Side& side, double reference, bool last) {
  const double time = median(side.samples);
  std::printf("    {\"name\": \"%s\", \"nanoseconds_per_operation\": %.2f, \"samples\": [", side.name.c_str(), time);
  for (std::size_t i = 0; i < side.samples.size(); ++i) std::printf("%s%.2f", i == 0 ? "" : ", ", side.samples[i]);
  std::printf("], \"reference\": {\"name\": \"malloc and free\", \"nanoseconds_per_operation\": %.2f}, \"ratio\": %.3f",
              reference, time / reference);
  if (const FragmentationFigures& figures = side.figures; figures.peak_reserved_bytes != 0) {
    std::printf(", \"peak_reserved_over_live\": %.4f, \"external_fragmentation\": %.4f, \"num_free_extents\": %zu",
                figures.peak_reserved_over_live(), figures.external(), figures.num_free_extents);
  }
  std::printf("}%s\n", last ? "" : ",");
}

int benchmark(int num_samples) {
  const Trace trace = make_trace();
  Side best{"best fit", {}, {}};
  Side first{"first fit", {}, {}};
  Side worst{"worst fit", {}, {}};
  Side reference{"malloc and free", {}, {}};
  for (int i = 0; i < num_samples; ++i) {
    run_extents(trace, FitStrategy::kBestFit, best);
    run_malloc(trace, reference);
    run_extents(trace, FitStrategy::kFirstFit, first);
    run_extents(trace, FitStrategy::kWorstFit, worst);
  }
  const double reference_time = median(reference.samples);
  std::printf("{\n  \"trace\": {\"seed\": %llu, \"live\": %zu, \"timed_operations\": %zu, \"peak_live_bytes\": %zu},\n",
              static_cast<unsigned long long>(kSeed), kLive, 2 * kTimedSteps, trace.peak_live_bytes);
  std::printf("  \"results\": [\n");
  print(best, reference_time, false);
  print(first, reference_time, false);
  print(worst, reference_time, false);
  print(reference, reference_time, true);
  std::printf("  ]\n}\n");
  return 0;
}

}  // namespace
}  // namespace vmem

int main(int argc, char** argv) {
  const int num_samples = argc > 1 ? std::atoi(argv[1]) : 9;
  if (argc > 2 || num_samples < 7) {
    std::fprintf(stderr, "usage: extent_allocator_benchmark [samples, at least 7]\n");
    return 2;
  }
  return vmem::benchmark(num_samples);
}
