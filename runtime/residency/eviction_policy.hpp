// Chooses who leaves a device when room is needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vmem {

// A frame span that may leave: nobody holds it and no plan moves it.
struct EvictionCandidate {
  std::size_t bytes = 0;       // of memory that leaving frees
  std::uint64_t last_use = 0;  // the epoch of its youngest block's last acquire; epochs grow with every plan
  bool clean = false;          // another device has all of its pages: leaving costs no copy
};

// Thread contract: called under the plan lock, one call at a time.
class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;
  // Indices of candidates in the order in which they should leave, until their bytes sum up to at least `bytes` or all
  // are named. Never names one twice.
  virtual std::vector<std::size_t> choose(std::span<const EvictionCandidate> candidates, std::size_t bytes) = 0;
};

}  // namespace vmem
