/// Units, streams and the small enumerations that the whole API shares.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vmem {

inline namespace literals {
constexpr std::size_t operator""_KiB(unsigned long long n) { return static_cast<std::size_t>(n) << 10U; }
constexpr std::size_t operator""_MiB(unsigned long long n) { return static_cast<std::size_t>(n) << 20U; }
constexpr std::size_t operator""_GiB(unsigned long long n) { return static_cast<std::size_t>(n) << 30U; }
constexpr std::size_t operator""_TiB(unsigned long long n) { return static_cast<std::size_t>(n) << 40U; }
}  // namespace literals

/// The unit of validity, dirtiness and conflict; never a unit of mapping.
inline constexpr std::size_t kPageBytes = 4_KiB;
/// A buffer is cut into blocks of this many bytes unless the pool is asked for another power of two.
inline constexpr std::size_t kDefaultBlockBytes = 64_MiB;

/// A byte of a pool's one virtual address space. It names bytes and is never dereferenced (coherent buffers).
using PoolAddress = std::uint64_t;

/// What an acquire may do to its range.
enum class Access : std::uint8_t {
  kRead = 0,          ///< shared with other readers
  kWrite = 1,         ///< alone; the old bytes are there and may be kept
  kWriteDiscard = 2,  ///< alone; old bytes of pages that the range covers wholly are undefined
};

/// Where an allocation is cut from the free space: the strategies of row M4.
enum class FitStrategy : std::uint8_t { kFirstFit = 0, kBestFit = 1, kWorstFit = 2 };

/// Which device's memory is used where several could hold the bytes (row M4).
enum class PlacementStrategy : std::uint8_t {
  kLocalityFirst = 0,  ///< cheapest to reach from who asks; at equal cost the most free
  kCapacity = 1,       ///< the most free bytes
  kFirstFit = 2,       ///< in the topology's order
  kBestFit = 3,        ///< the fewest free bytes that suffice
  kWorstFit = 4,       ///< the largest share of its limit free, so that all fill evenly
};

/// A device's place in the hierarchy of memories.
enum class Tier : std::uint8_t { kDevice = 0, kHost = 1, kStorage = 2, kRemote = 3 };

/// A driver's stream (CUstream, hipStream_t, a simulated device's) as an opaque value, or none: then calls return when
/// the bytes are there, and the caller orders its own work. A null native handle is the driver's default stream.
class Stream {
 public:
  constexpr Stream() noexcept = default;
  constexpr explicit Stream(void* native) noexcept : native_(native), present_(true) {}

  constexpr bool has_value() const noexcept { return present_; }
  /// REQUIRES: has_value().
  constexpr void* native() const noexcept { return native_; }

  friend constexpr bool operator==(Stream a, Stream b) noexcept {
    return a.present_ == b.present_ && a.native_ == b.native_;
  }
  friend constexpr bool operator!=(Stream a, Stream b) noexcept { return !(a == b); }

 private:
  void* native_ = nullptr;
  bool present_ = false;
};

}  // namespace vmem
