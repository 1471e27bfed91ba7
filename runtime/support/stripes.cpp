#include "runtime/support/stripes.hpp"

#include <bit>

#include "runtime/support/thread_annotations.hpp"

namespace vmem {
namespace {

static_assert(kNumOwnStripes <= 64 && kNumOwnStripes < kNumStripes);

// Which stripes have an owner. Constant-initialised and without a destructor: threads may end after static destructors.
// The lock orders what an owner wrote before what the next one reads.
constinit Mutex owners_mutex;
constinit std::uint64_t owned VMEM_GUARDED_BY(owners_mutex) = 0;
constinit std::size_t next_shared VMEM_GUARDED_BY(owners_mutex) = 0;

std::size_t shared_stripe() noexcept VMEM_REQUIRES(owners_mutex) {
  return kNumOwnStripes + next_shared++ % (kNumStripes - kNumOwnStripes);
}

// Gives the thread's stripe back at the thread's end. What the thread still does after that, in other destructors of
// its own, counts at a shared one.
struct StripeOwner {
  ~StripeOwner() {
    MutexLock lock(owners_mutex);
    if (is_own_stripe(thread_stripe_plus_one - 1)) owned &= ~(std::uint64_t{1} << (thread_stripe_plus_one - 1));
    thread_stripe_plus_one = static_cast<std::uint32_t>(shared_stripe()) + 1;
  }
};

}  // namespace

std::size_t take_stripe() noexcept {
  static thread_local StripeOwner owner;
  static_cast<void>(owner);
  MutexLock lock(owners_mutex);
  const auto vacant = static_cast<std::size_t>(std::countr_one(owned));
  if (is_own_stripe(vacant)) owned |= std::uint64_t{1} << vacant;
  const std::size_t stripe = is_own_stripe(vacant) ? vacant : shared_stripe();
  thread_stripe_plus_one = static_cast<std::uint32_t>(stripe) + 1;
  return stripe;
}

}  // namespace vmem
