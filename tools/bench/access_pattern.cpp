#include "tools/bench/access_pattern.hpp"

#include <algorithm>
#include <random>
#include <utility>

namespace vmem {
namespace {

constexpr std::size_t kStride = 4;      // blocks
constexpr std::size_t kMostRanges = 8;  // of a random step
constexpr std::size_t kMostRangeBytes = 128_KiB;
constexpr std::size_t kPasses = 3;
constexpr std::size_t kWordBytes = 4;

AccessStep block_step(std::size_t block, const PatternShape& shape, Access access) {
  return {{{block * shape.block_bytes, shape.block_bytes}}, access};
}

// Ranges of 4 bytes to 128 KiB: most begin and end inside a page, some cross into the next block. The standard
// library's distributions differ between implementations, the engine does not.
class RandomRanges {
 public:
  // A list must fit on the device at once, each range with the two blocks that it may cross, and a small buffer must
  // have room for a list.
  explicit RandomRanges(const PatternShape& shape)
      : shape_(shape),
        num_ranges_(std::clamp<std::size_t>(shape.device_bytes / shape.block_bytes / 4, 1, kMostRanges)),
        most_words_(std::min(kMostRangeBytes, shape.buffer_bytes / 32) / kWordBytes),
        engine_(shape.seed) {}

  AccessStep next() {
    AccessStep step;
    while (step.ranges.size() < num_ranges_) {
      const std::size_t bytes = (1 + engine_() % most_words_) * kWordBytes;
      const std::size_t offset = engine_() % ((shape_.buffer_bytes - bytes) / kWordBytes + 1) * kWordBytes;
      // Writers exclude each other by page, so ranges of one list may not even share one.
      const bool apart = std::all_of(step.ranges.begin(), step.ranges.end(), [&](const StepRange& other) {
        return offset + bytes + kPageBytes <= other.offset || other.offset + other.bytes + kPageBytes <= offset;
      });
      if (apart) step.ranges.push_back({offset, bytes});
    }
    return step;
  }

 private:
  const PatternShape& shape_;
  std::size_t num_ranges_;
  std::size_t most_words_;
  std::mt19937_64 engine_;
};

std::vector<AccessStep> strided_steps(const PatternShape& shape) {
  const std::size_t num_blocks = shape.buffer_bytes / shape.block_bytes;
  std::vector<AccessStep> steps;
  for (std::size_t first = 0; first < kStride; ++first) {
    for (std::size_t block = first; block < num_blocks; block += kStride) {
      steps.push_back(block_step(block, shape, Access::kWrite));
    }
  }
  return steps;
}

std::vector<AccessStep> random_steps(const PatternShape& shape) {
  RandomRanges random(shape);
  std::vector<AccessStep> steps;
  for (std::size_t bytes = 0; bytes < shape.buffer_bytes / 4;) {
    steps.push_back(random.next());
    for (const StepRange& range : steps.back().ranges) bytes += range.bytes;
  }
  return steps;
}

std::vector<AccessStep> mixed_steps(const PatternShape& shape) {
  RandomRanges random(shape);
  std::vector<AccessStep> steps;
  for (std::size_t block = 0; block < shape.buffer_bytes / shape.block_bytes; ++block) {
    steps.push_back(block_step(block, shape, Access::kRead));
    steps.push_back(random.next());
  }
  return steps;
}

std::vector<AccessStep> iterating_steps(const PatternShape& shape) {
  const std::size_t num_blocks = shape.buffer_bytes / shape.block_bytes;
  const std::size_t wanted = (shape.device_bytes + shape.device_bytes / 4) / shape.block_bytes;
  const std::size_t working_set = std::clamp<std::size_t>(wanted, 1, num_blocks);
  std::vector<AccessStep> steps;
  for (std::size_t pass = 0; pass < kPasses; ++pass) {
    for (std::size_t block = 0; block < working_set; ++block) steps.push_back(block_step(block, shape, Access::kWrite));
  }
  return steps;
}

}  // namespace

std::vector<AccessStep> make_steps(AccessPattern pattern, const PatternShape& shape) {
  std::vector<AccessStep> steps;
  switch (pattern) {
    case AccessPattern::kSequential:
      for (std::size_t block = 0; block < shape.buffer_bytes / shape.block_bytes; ++block) {
        steps.push_back(block_step(block, shape, Access::kWrite));
      }
      break;
    case AccessPattern::kStrided:
      return strided_steps(shape);
    case AccessPattern::kRandom:
      return random_steps(shape);
    case AccessPattern::kMixed:
      return mixed_steps(shape);
    case AccessPattern::kIterating:
      return iterating_steps(shape);
  }
  return steps;
}

std::size_t total_bytes(const std::vector<AccessStep>& steps) {
  std::size_t bytes = 0;
  for (const AccessStep& step : steps) {
    for (const StepRange& range : step.ranges) bytes += range.bytes;
  }
  return bytes;
}

}  // namespace vmem
