// Counters that threads share without sharing a cache line: each thread keeps to one of a few stripes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace vmem {

inline constexpr std::size_t kNumStripes = 16;
// Two cache lines: processors fetch them in pairs.
inline constexpr std::size_t kStripeBytes = 128;

// The calling thread's stripe; threads are dealt out in turn.
inline std::size_t thread_stripe() noexcept {
  static std::atomic<std::uint32_t> next{0};
  // Without a constructor and in the static block, so that reading it is one load.
  [[gnu::tls_model("initial-exec")]] static thread_local std::uint32_t stripe = 0;
  if (stripe == 0) stripe = 1 + next.fetch_add(1, std::memory_order_relaxed) % kNumStripes;
  return stripe - 1;
}

// Thread contract: any thread may add at any time; a sum taken meanwhile has some of what is being added.
class StripedCounter {
 public:
  void add(std::uint64_t n = 1) noexcept { stripes_[thread_stripe()].count.fetch_add(n, std::memory_order_relaxed); }
  std::uint64_t sum() const noexcept {
    std::uint64_t total = 0;
    for (const Stripe& stripe : stripes_) total += stripe.count.load(std::memory_order_relaxed);
    return total;
  }

 private:
  struct alignas(kStripeBytes) Stripe {
    std::atomic<std::uint64_t> count{0};
  };
  std::array<Stripe, kNumStripes> stripes_;
};

}  // namespace vmem
