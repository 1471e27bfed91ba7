#include "tools/bench/pattern_job.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "tools/bench/access_pattern.hpp"
#include "tools/bench/device_worker.hpp"
#include "tools/bench/plain_memory.hpp"
#include "tools/bench/samples.hpp"
#include "tools/bench/update_kernels.hpp"

namespace vmem {
namespace {

constexpr std::size_t kPieceBytes = 16_MiB;
constexpr std::size_t kSumsBytes = 64_KiB;

struct NamedPattern {
  std::string_view name;
  AccessPattern pattern;
};
constexpr std::array<NamedPattern, 5> kPatterns = {{{"sequential", AccessPattern::kSequential},
                                                    {"strided", AccessPattern::kStrided},
                                                    {"random", AccessPattern::kRandom},
                                                    {"mixed", AccessPattern::kMixed},
                                                    {"iterating", AccessPattern::kIterating}}};

class PatternJob {
 public:
  PatternJob(BenchContext& context, Pool& pool) : context_(context), pool_(pool) {}

  Status allocate();
  Status fill();
  Status work(DeviceIndex device, DeviceWorker& worker, const NamedPattern& pattern);
  Status read_back();

 private:
  BenchRow memory_row(std::string_view pattern, std::string_view from, std::string_view to) const;
  Status run_steps(TaskRunner& runner, const std::vector<AccessStep>& steps, unsigned salt) const;
  Status verify();

  BenchContext& context_;
  Pool& pool_;
  PlainMemory plain_;
  Buffer main_;
  Buffer sums_;  // what reading steps leave, so that reads are checked too
  unsigned salt_ = 0;
};

Status PatternJob::allocate() {
  VMEM_ASSIGN_OR_RETURN(main_, pool_.allocate(context_.plan.buffer_bytes));
  VMEM_ASSIGN_OR_RETURN(sums_, pool_.allocate(kSumsBytes));
  VMEM_RETURN_IF_ERROR(plain_.add(main_.address(), main_.bytes()));
  VMEM_RETURN_IF_ERROR(plain_.add(sums_.address(), sums_.bytes()));
  return pool_.fill(sums_.address(), 0, sums_.bytes());
}

BenchRow PatternJob::memory_row(std::string_view pattern, std::string_view from, std::string_view to) const {
  BenchRow row;
  row.name = row.pattern = pattern;
  row.from = from;
  row.to = to;
  row.bytes = main_.bytes();
  row.simulated = context_.pool_is_simulated();
  row.reference.name = "memcpy of the same pieces in host memory";
  return row;
}

// The files go through a piece of memory; the time to read them counts for neither side.
Status PatternJob::fill() {
  std::vector<std::byte> piece(kPieceBytes);
  BenchRow row = memory_row("fill", "files", "pool");
  context_.progress.start("fill");
  for (unsigned round = 0; round <= context_.settings.samples; ++round) {
    context_.inputs.rewind();
    double measured = 0;
    double reference = 0;
    for (std::size_t offset = 0; offset < main_.bytes(); offset += kPieceBytes) {
      const std::size_t bytes = std::min(kPieceBytes, main_.bytes() - offset);
      VMEM_RETURN_IF_ERROR(context_.inputs.read(piece.data(), bytes));
      const Stopwatch measured_time;
      VMEM_RETURN_IF_ERROR(pool_.copy_in(main_.address() + offset, piece.data(), bytes));
      measured += measured_time.seconds();
      const Stopwatch reference_time;
      std::memcpy(plain_.bytes(main_.address()).data() + offset, piece.data(), bytes);
      reference += reference_time.seconds();
      context_.progress.update(round * main_.bytes() + offset, (context_.settings.samples + 1) * main_.bytes());
    }
    if (round == 0) continue;
    row.samples.push_back(measured);
    row.reference.samples.push_back(reference);
  }
  VMEM_RETURN_IF_ERROR(verify());
  row.verified = !context_.mismatch;
  context_.add_row(std::move(row));
  return {};
}

Status PatternJob::run_steps(TaskRunner& runner, const std::vector<AccessStep>& steps, unsigned salt) const {
  std::size_t num_reads = 0;
  for (const AccessStep& step : steps) {
    std::vector<AcquireRange> ranges;
    for (const StepRange& range : step.ranges) ranges.push_back(main_.range(range.offset, range.bytes, step.access));
    if (step.access == Access::kRead) {
      const std::size_t slot = num_reads++ * sizeof(std::uint32_t) % kSumsBytes;
      VMEM_RETURN_IF_ERROR(runner.run(sum_task(std::move(ranges), sums_.address() + slot)));
    } else {
      VMEM_RETURN_IF_ERROR(runner.run(update_task(std::move(ranges), salt)));
    }
  }
  return runner.finish();
}

Status PatternJob::work(DeviceIndex device, DeviceWorker& worker, const NamedPattern& pattern) {
  const auto limit = context_.plan.limits.at(context_.device(device).info.name);
  const std::vector<AccessStep> steps =
      make_steps(pattern.pattern, {main_.bytes(), context_.plan.block_bytes, limit, context_.settings.seed});
  BenchRow row = context_.pool_row(pattern.name, device);
  row.bytes = total_bytes(steps);
  row.reference.name = "the same work in host memory";
  VMEM_RETURN_IF_ERROR(time_in_turn(
      context_, row, [&](unsigned round) { return run_steps(worker, steps, salt_ + round); },
      [&](unsigned round) { return run_steps(plain_, steps, salt_ + round); }));
  salt_ += context_.settings.samples + 1;
  VMEM_RETURN_IF_ERROR(verify());
  row.verified = !context_.mismatch;
  context_.add_row(std::move(row));
  return {};
}

Status PatternJob::read_back() {
  std::vector<std::byte> piece(std::min(kPieceBytes, main_.bytes()));
  BenchRow row = memory_row("read back", "pool", "host memory");
  const std::byte* const plain = plain_.bytes(main_.address()).data();
  const auto from_pool = [&](unsigned) {
    for (std::size_t offset = 0; offset < main_.bytes(); offset += piece.size()) {
      const std::size_t bytes = std::min(piece.size(), main_.bytes() - offset);
      VMEM_RETURN_IF_ERROR(pool_.copy_out(piece.data(), main_.address() + offset, bytes));
    }
    return Status();
  };
  const auto from_plain = [&](unsigned) {
    for (std::size_t offset = 0; offset < main_.bytes(); offset += piece.size()) {
      std::memcpy(piece.data(), plain + offset, std::min(piece.size(), main_.bytes() - offset));
    }
    return Status();
  };
  VMEM_RETURN_IF_ERROR(time_in_turn(context_, row, from_pool, from_plain));
  VMEM_RETURN_IF_ERROR(verify());
  row.verified = !context_.mismatch;
  context_.add_row(std::move(row));
  return {};
}

Status PatternJob::verify() {
  VMEM_ASSIGN_OR_RETURN(context_.mismatch, find_mismatch(pool_, "main", main_, plain_.bytes(main_.address())));
  if (context_.mismatch) return {};
  VMEM_ASSIGN_OR_RETURN(context_.mismatch, find_mismatch(pool_, "sums", sums_, plain_.bytes(sums_.address())));
  return {};
}

}  // namespace

Status run_patterns(BenchContext& context, Pool& pool) {
  PatternJob job(context, pool);
  VMEM_RETURN_IF_ERROR(job.allocate());
  VMEM_RETURN_IF_ERROR(job.fill());
  for (const DeviceIndex device : context.plan.workers) {
    VMEM_ASSIGN_OR_RETURN(const auto worker, DeviceWorker::create(context.runtime, pool, device, update_kernels()));
    for (const NamedPattern& pattern : kPatterns) {
      if (context.mismatch) return {};
      if (context.settings.has(pattern.name)) VMEM_RETURN_IF_ERROR(job.work(device, *worker, pattern));
    }
  }
  if (!context.mismatch) VMEM_RETURN_IF_ERROR(job.read_back());
  context.report.stats = pool.stats();
  return {};
}

}  // namespace vmem
