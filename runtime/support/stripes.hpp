// Counters that threads share without sharing a cache line, and without a locked instruction where a stripe is one
// thread's alone.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace vmem {

// Stripes that one living thread has to itself; threads beyond them share the others.
inline constexpr std::size_t kNumOwnStripes = 48;
inline constexpr std::size_t kNumStripes = 64;
// Two cache lines: processors fetch them in pairs.
inline constexpr std::size_t kStripeBytes = 128;

// Deals a stripe out to the calling thread, which gives it back at its end.
std::size_t take_stripe() noexcept;

// Plus one; 0: none yet. Without a constructor and in the static block, so that reading it is one load.
[[gnu::tls_model("initial-exec")]] inline thread_local std::uint32_t thread_stripe_plus_one = 0;

// The calling thread's stripe.
inline std::size_t thread_stripe() noexcept {
  return thread_stripe_plus_one != 0 ? thread_stripe_plus_one - 1 : take_stripe();
}
constexpr bool is_own_stripe(std::size_t stripe) noexcept { return stripe < kNumOwnStripes; }

// Adds to a counter of the calling thread's stripe: a load and a store where nobody else writes it.
inline void add_to_stripe(std::atomic<std::uint64_t>& counter, std::size_t stripe, std::uint64_t n,
                          std::memory_order order = std::memory_order_relaxed) noexcept {
  if (is_own_stripe(stripe)) {
    counter.store(counter.load(std::memory_order_relaxed) + n, order);
  } else {
    counter.fetch_add(n, order);
  }
}

// Thread contract: any thread may add at any time; a sum taken meanwhile has some of what is being added.
class StripedCounter {
 public:
  void add(std::uint64_t n = 1) noexcept {
    const std::size_t stripe = thread_stripe();
    add_to_stripe(stripes_[stripe].count, stripe, n);
  }
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
