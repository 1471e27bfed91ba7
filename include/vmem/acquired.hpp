/// The right to use ranges of buffers on one device, and their addresses there.
///
/// Thread contract: one thread at a time may use an Acquired; it may be released by another thread than the one that
/// got it.
#pragma once

#include <vmem/export.h>
#include <vmem/status.hpp>
#include <vmem/types.hpp>

#include <cstddef>
#include <memory>

namespace vmem {

/// One range that an acquire asks for.
struct AcquireRange {
  PoolAddress address = 0;  ///< of the first byte: a buffer's address plus an offset
  std::size_t bytes = 0;    ///< > 0; must end inside the same buffer
  Access access = Access::kRead;
};

/// Owns one granted list. Destroying it releases.
class VMEM_API Acquired {
 public:
  struct Grant;

  Acquired() noexcept;
  explicit Acquired(std::unique_ptr<Grant> grant) noexcept;
  Acquired(Acquired&& other) noexcept;
  Acquired& operator=(Acquired&& other) noexcept;
  ~Acquired();

  /// How many ranges were granted; 0 once released.
  std::size_t size() const noexcept;
  /// The device address of the first byte of range `index`; valid until release. REQUIRES: index < size().
  void* data(std::size_t index = 0) const noexcept;
  template <typename T>
  T* as(std::size_t index = 0) const noexcept {
    return static_cast<T*>(data(index));
  }

  /// Success, or why bytes that were still on their way when `acquire` returned did not arrive. Never blocks: bytes of
  /// which nothing is known yet count as well.
  Status status() const;
  /// The same, but waits until it is known of all bytes.
  Status wait() const;

  /// Gives the ranges back. With a stream, in its order: later holders start after the work enqueued on it so far, and
  /// the call does not wait for it. What was written counts from here on. An error says that the bytes did not arrive
  /// and nothing written was taken over; the ranges are given back all the same. Releasing twice is an kInvalidValue.
  Status release();

 private:
  std::unique_ptr<Grant> grant_;
};

}  // namespace vmem
