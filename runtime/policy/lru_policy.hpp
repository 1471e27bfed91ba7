// Least recently used: the block whose last acquire lies furthest back leaves first; at equal age the clean one.
#pragma once

#include "runtime/residency/eviction_policy.hpp"

namespace vmem {

class LruPolicy final : public EvictionPolicy {
 public:
  std::vector<std::size_t> choose(std::span<const EvictionCandidate> candidates, std::size_t bytes) override;
};

}  // namespace vmem
