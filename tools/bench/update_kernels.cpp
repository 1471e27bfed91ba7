#include "tools/bench/update_kernels.hpp"

#include <cstring>
#include <utility>

namespace vmem {
namespace {

constexpr std::uint32_t kMultiplier = 0x9E3779B1U;
constexpr std::uint32_t kThreads = 256;
constexpr std::uint32_t kMostBlocks = 1024;

template <typename T>
T argument(const KernelContext& context, std::size_t index) {
  T value;
  std::memcpy(&value, context.arguments[index], sizeof(T));
  return value;
}

void update_reference(const KernelContext& context) {
  auto* const words = argument<std::uint32_t*>(context, 0);
  const auto count = argument<std::uint64_t>(context, 1);
  const auto salt = argument<std::uint32_t>(context, 2);
  for (std::uint64_t i = 0; i < count; ++i) words[i] = (words[i] ^ salt) * kMultiplier + static_cast<std::uint32_t>(i);
}

void sum_reference(const KernelContext& context) {
  const auto* const words = argument<const std::uint32_t*>(context, 0);
  const auto count = argument<std::uint64_t>(context, 1);
  auto* const sum = argument<std::uint32_t*>(context, 2);
  std::uint32_t total = 0;
  for (std::uint64_t i = 0; i < count; ++i) total += words[i];
  *sum += total;
}

constexpr const char* kUpdateSource = R"(
extern "C" __global__ void vmem_bench_update(unsigned* words, unsigned long long count, unsigned salt) {
  const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
  for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
    words[i] = (words[i] ^ salt) * 0x9E3779B1u + (unsigned)i;
}
)";

constexpr const char* kSumSource = R"(
extern "C" __global__ void vmem_bench_sum(const unsigned* words, unsigned long long count, unsigned* sum) {
  const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
  unsigned total = 0;
  for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
    total += words[i];
  atomicAdd(sum, total);
}
)";

std::uint32_t num_blocks(std::uint64_t count) {
  const std::uint64_t blocks = (count + kThreads - 1) / kThreads;
  return static_cast<std::uint32_t>(blocks < kMostBlocks ? blocks : kMostBlocks);
}

}  // namespace

const std::vector<KernelImage>& update_kernels() {
  static const std::vector<KernelImage> kKernels = {{"vmem_bench_update", update_reference, kUpdateSource},
                                                    {"vmem_bench_sum", sum_reference, kSumSource}};
  return kKernels;
}

KernelTask update_task(std::vector<AcquireRange> ranges, std::uint32_t salt) {
  KernelTask task{std::move(ranges), {}};
  for (std::size_t i = 0; i < task.ranges.size(); ++i) {
    const std::uint64_t count = task.ranges[i].bytes / sizeof(std::uint32_t);
    task.calls.push_back({"vmem_bench_update",
                          update_reference,
                          {num_blocks(count), 1, 1},
                          {kThreads, 1, 1},
                          {TaskArgument::address_of(i), TaskArgument::value(count), TaskArgument::value(salt)}});
  }
  return task;
}

KernelTask sum_task(std::vector<AcquireRange> ranges, PoolAddress sum) {
  KernelTask task{std::move(ranges), {}};
  const std::size_t sum_range = task.ranges.size();
  for (std::size_t i = 0; i < sum_range; ++i) {
    const std::uint64_t count = task.ranges[i].bytes / sizeof(std::uint32_t);
    task.calls.push_back(
        {"vmem_bench_sum",
         sum_reference,
         {num_blocks(count), 1, 1},
         {kThreads, 1, 1},
         {TaskArgument::address_of(i), TaskArgument::value(count), TaskArgument::address_of(sum_range)}});
  }
  task.ranges.push_back({sum, sizeof(std::uint32_t), Access::kWrite});
  return task;
}

}  // namespace vmem
