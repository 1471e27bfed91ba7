// What acquire and release of resident blocks cost on host memory without a stream: one thread, threads on blocks of
// their own, and threads on one block.
#include <fmt/format.h>
#include <vmem/vmem.hpp>

#include <algorithm>
#include <barrier>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tools/bench/machine.hpp"
#include "tools/bench/operation_report.hpp"
#include "tools/bench/samples.hpp"

namespace vmem {
namespace {

constexpr std::size_t kBlockBytes = 2_MiB;
constexpr std::size_t kOperations = 200'000;  // of one thread in one sample
constexpr unsigned kMutexPairs = 5;

class AcquireBenchmark {
 public:
  static Result<std::unique_ptr<AcquireBenchmark>> create(unsigned most_threads);

  // One sample of each row, in turn.
  Status sample(bool kept);
  std::vector<OperationRow> rows() const { return rows_; }

 private:
  explicit AcquireBenchmark(std::unique_ptr<Runtime> runtime) : runtime_(std::move(runtime)) {}

  void define_rows(unsigned most_threads);
  Status acquire_block(std::size_t block, Access access) const;
  // All threads start together; the time until the last one is done. `block_of` says which one works on which.
  Result<double> time_threads(unsigned num_threads, Access access,
                              const std::function<std::size_t(unsigned)>& block_of);

  // Order matters: the buffer goes before its pool, the pool before the runtime.
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<Pool> pool_;
  Buffer buffer_;
  AcquireOptions options_;
  std::mutex mutex_;
  std::vector<OperationRow> rows_;
};

Result<std::unique_ptr<AcquireBenchmark>> AcquireBenchmark::create(unsigned most_threads) {
  VMEM_ASSIGN_OR_RETURN(auto runtime, Runtime::create());
  std::unique_ptr<AcquireBenchmark> benchmark(new AcquireBenchmark(std::move(runtime)));
  PoolOptions options;
  options.block_bytes = kBlockBytes;
  VMEM_ASSIGN_OR_RETURN(benchmark->pool_, benchmark->runtime_->create_pool(options));
  VMEM_ASSIGN_OR_RETURN(benchmark->options_.device, benchmark->runtime_->find("host:0"));
  VMEM_ASSIGN_OR_RETURN(benchmark->buffer_, benchmark->pool_->allocate(most_threads * kBlockBytes));
  // From here on the blocks are on the host device.
  VMEM_ASSIGN_OR_RETURN(Acquired acquired,
                        benchmark->pool_->acquire(benchmark->buffer_.all(Access::kWriteDiscard), benchmark->options_));
  VMEM_RETURN_IF_ERROR(acquired.release());
  benchmark->define_rows(most_threads);
  return benchmark;
}

void AcquireBenchmark::define_rows(unsigned most_threads) {
  const std::string mutexes = fmt::format("{} uncontended mutex pairs", kMutexPairs);
  for (const char* access : {"read", "write"}) {
    rows_.push_back({fmt::format("acquire and release a block to {}", access),
                     "acquire",
                     1,
                     kOperations,
                     {},
                     mutexes,
                     {},
                     1.0,
                     100e-9});
  }
  for (unsigned threads = 2; threads <= most_threads; threads *= 2) {
    const std::size_t operations = threads * kOperations;
    rows_.push_back({"threads on blocks of their own",
                     "acquire",
                     threads,
                     operations,
                     {},
                     fmt::format("{} x one thread", threads),
                     {},
                     0.8,
                     {}});
    rows_.push_back({"threads reading one block", "acquire", threads, operations, {}, "one thread", {}, 0.2, {}});
  }
}

Status AcquireBenchmark::acquire_block(std::size_t block, Access access) const {
  const AcquireRange range = buffer_.range(block * kBlockBytes, kBlockBytes, access);
  for (std::size_t i = 0; i < kOperations; ++i) {
    VMEM_ASSIGN_OR_RETURN(Acquired acquired, pool_->acquire(range, options_));
    VMEM_RETURN_IF_ERROR(acquired.release());
  }
  return {};
}

Result<double> AcquireBenchmark::time_threads(unsigned num_threads, Access access,
                                              const std::function<std::size_t(unsigned)>& block_of) {
  std::barrier<> start(num_threads);
  std::vector<Status> outcomes(num_threads);
  std::vector<double> seconds(num_threads);
  const auto work = [&](unsigned thread) {
    start.arrive_and_wait();
    const Stopwatch time;
    outcomes[thread] = acquire_block(block_of(thread), access);
    seconds[thread] = time.seconds();
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < num_threads; ++i) threads.emplace_back(work, i);
  work(0);
  for (std::thread& thread : threads) thread.join();
  for (const Status& outcome : outcomes) VMEM_RETURN_IF_ERROR(outcome);
  return *std::max_element(seconds.begin(), seconds.end());
}

Status AcquireBenchmark::sample(bool kept) {
  const Stopwatch mutex_time;
  for (std::size_t i = 0; i < kOperations * kMutexPairs; ++i) {
    const std::lock_guard lock(mutex_);
    // Keeps the compiler from joining neighbouring pairs.
    asm volatile("" ::: "memory");
  }
  const double mutex_seconds = mutex_time.seconds();
  double one_thread = 0;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    OperationRow& row = rows_[i];
    const bool shared = row.reference == "one thread";
    const Access access = i == 1 ? Access::kWrite : Access::kRead;
    VMEM_ASSIGN_OR_RETURN(const double seconds, time_threads(row.threads, access, [shared](unsigned thread) {
                            return shared ? 0 : std::size_t{thread};
                          }));
    if (i == 0) one_thread = seconds;
    if (!kept) continue;
    row.samples.push_back(seconds);
    // So long would one thread take for the row's operations, or `threads` of them that don't hinder each other.
    row.reference_samples.push_back(row.threads == 1 ? mutex_seconds : shared ? row.threads * one_thread : one_thread);
  }
  return {};
}

int run(int count, char** arguments) {
  const auto options = parse_operation_arguments(count, arguments);
  if (!options) return 2;
  auto benchmark = AcquireBenchmark::create(std::max(read_machine().cores, 2U));
  Status status = benchmark.error();
  for (unsigned round = 0; status && round <= options->samples; ++round) status = (*benchmark)->sample(round > 0);
  if (!status) {
    std::cerr << status.to_string() << '\n';
    return 3;
  }
  return report_operations(*options, (*benchmark)->rows());
}

}  // namespace
}  // namespace vmem

int main(int count, char** arguments) { return vmem::run(count, arguments); }
