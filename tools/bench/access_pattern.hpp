// In which order, and how, a buffer's bytes are touched.
#pragma once

#include <vmem/types.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vmem {

enum class AccessPattern : std::uint8_t {
  kSequential,  // every block once, in order, written
  kStrided,     // every block once, every fourth in a pass, written
  kRandom,      // lists of ranges at random places and of random sizes, a quarter of the buffer in all, written
  kMixed,       // the buffer once in order, read; between that, random ranges written
  kIterating,   // three passes over a working set that is a quarter larger than the device's memory, written
};

struct StepRange {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

// What is acquired at once. Ranges of a step don't overlap; offsets and sizes are multiples of 4.
struct AccessStep {
  std::vector<StepRange> ranges;
  Access access = Access::kWrite;
};

struct PatternShape {
  std::size_t buffer_bytes = 0;
  std::size_t block_bytes = 0;
  std::size_t device_bytes = 0;  // what the pool may use of the device
  std::uint64_t seed = 0;
};

// The same steps for the same arguments, always. REQUIRES: buffer_bytes is a multiple of block_bytes, of at least four
// blocks; block_bytes >= 64 KiB.
std::vector<AccessStep> make_steps(AccessPattern pattern, const PatternShape& shape);

std::size_t total_bytes(const std::vector<AccessStep>& steps);

}  // namespace vmem
