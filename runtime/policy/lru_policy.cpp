#include "runtime/policy/lru_policy.hpp"

#include <algorithm>
#include <numeric>

namespace vmem {

std::vector<std::size_t> LruPolicy::choose(std::span<const EvictionCandidate> candidates, std::size_t bytes) {
  std::vector<std::size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const EvictionCandidate& x = candidates[a];
    const EvictionCandidate& y = candidates[b];
    return x.last_use != y.last_use ? x.last_use < y.last_use : x.clean && !y.clean;
  });
  std::size_t freed = 0;
  std::size_t count = 0;
  while (count < order.size() && freed < bytes) freed += candidates[order[count++]].bytes;
  order.resize(count);
  return order;
}

}  // namespace vmem
