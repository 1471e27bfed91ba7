/// What a user allocates: a size and a pool address. Its bytes live wherever they are used.
///
/// Thread contract: const members from any thread. A buffer must not be destroyed while it is acquired: it is not freed
/// then, and goes with its pool. One that outlives its pool has nothing left to free.
#pragma once

#include <vmem/export.h>
#include <vmem/acquired.hpp>
#include <vmem/status.hpp>
#include <vmem/types.hpp>

#include <cstddef>
#include <memory>
#include <utility>

namespace vmem {

class Pool;

/// Owns one allocation. Move-only; destroying it frees.
class VMEM_API Buffer {
 public:
  Buffer() noexcept = default;
  Buffer(std::weak_ptr<Pool*> pool, PoolAddress address, std::size_t bytes) noexcept
      : pool_(std::move(pool)), address_(address), bytes_(bytes) {}
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  /// The first byte's pool address; 0 for an empty buffer. It names bytes and is never dereferenced.
  PoolAddress address() const noexcept { return address_; }
  std::size_t bytes() const noexcept { return bytes_; }

  /// A range for `Pool::acquire`.
  AcquireRange range(std::size_t offset, std::size_t bytes, Access access) const noexcept {
    return {address_ + offset, bytes, access};
  }
  AcquireRange all(Access access) const noexcept { return {address_, bytes_, access}; }

  /// Frees now and says whether it worked; kBusy while it is acquired (the buffer then stays).
  Status free();
  /// Lets go without freeing; the caller frees the address with `Pool::free`.
  PoolAddress release() noexcept;

 private:
  std::weak_ptr<Pool*> pool_;  // empty once the pool is gone
  PoolAddress address_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace vmem
