#include "runtime/support/memory_reserve.hpp"

#include "runtime/support/check.hpp"

namespace vmem {

MemoryReserve::MemoryReserve() {
  MutexLock lock(mutex_);
  for (auto& piece : pieces_) piece.reset(new std::byte[kPieceBytes]);
}

void MemoryReserve::give() noexcept {
  MutexLock lock(mutex_);
  for (auto& piece : pieces_) {
    if (!piece) continue;
    piece.reset();
    is_short_.store(true, std::memory_order_relaxed);
    return;
  }
  constexpr bool kHostMemoryIsLeft = false;
  VMEM_CHECK(kHostMemoryIsLeft);
}

void MemoryReserve::refill() noexcept {
  MutexLock lock(mutex_);
  bool full = true;
  for (auto& piece : pieces_) {
    if (!piece) piece.reset(new (std::nothrow) std::byte[kPieceBytes]);
    full &= piece != nullptr;
  }
  if (full) is_short_.store(false, std::memory_order_relaxed);
}

}  // namespace vmem
