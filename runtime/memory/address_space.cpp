#include "runtime/memory/address_space.hpp"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "runtime/support/bytes.hpp"
#include "runtime/support/check.hpp"

namespace vmem {
namespace {

#if defined(__SANITIZE_THREAD__)
#define VMEM_UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define VMEM_UNDER_TSAN 1
#endif
#endif

// What may be asked of the system at all.
std::size_t most_reservable() {
  std::size_t most = SIZE_MAX / 4;
#if defined(VMEM_UNDER_TSAN)
  // ThreadSanitizer ends the process when a mapping leaves its 1.5 TiB for the application.
  most = std::size_t{256} << 30U;
#endif
  // Half of a limit on address space stays for everything else in the process.
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    most = std::min<std::size_t>(most, limit.rlim_cur / 2);
  }
  return most;
}

// A range without access or memory, aligned to kBaseAlignment; null where the system refuses.
void* reserve_aligned(std::size_t bytes) {
  const std::size_t padded = bytes + PoolAddressSpace::kBaseAlignment;
  void* mapping = ::mmap(nullptr, padded, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(mapping);
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::size_t head = align_up(address, PoolAddressSpace::kBaseAlignment) - address;
  const std::size_t tail = padded - head - bytes;
  if (head != 0) ::munmap(begin, head);
  if (tail != 0) ::munmap(begin + head + bytes, tail);
  // A core file must not walk terabytes of nothing. Where the advice fails nothing else does.
  static_cast<void>(::madvise(begin + head, bytes, MADV_DONTDUMP));
  return begin + head;
}

}  // namespace

Result<std::unique_ptr<PoolAddressSpace>> PoolAddressSpace::create(const Options& options) {
  if (options.bytes == 0 || options.bytes % kPageBytes != 0) {
    return Status(StatusCode::kInvalidValue,
                  std::to_string(options.bytes) + " bytes of pool addresses asked, a multiple of the page expected");
  }
  const std::size_t least = std::min(options.bytes, kMinBytes);
  const std::size_t most = most_reservable();
  int error = ENOMEM;
  for (std::size_t bytes = options.bytes; bytes >= least; bytes = align_down(bytes / 2, kPageBytes)) {
    if (bytes > most) continue;
    void* const base = reserve_aligned(bytes);
    if (base == nullptr) {
      error = errno;
      continue;
    }
    auto extents = ExtentAllocator::create({bytes, kPageBytes, options.strategy});
    VMEM_CHECK(extents);
    const auto address = static_cast<PoolAddress>(reinterpret_cast<std::uintptr_t>(base));
    return std::unique_ptr<PoolAddressSpace>(new PoolAddressSpace(address, bytes, std::move(extents).value()));
  }
  return Status(StatusCode::kOutOfAddresses, format_bytes(options.bytes) +
                                                 " of pool addresses asked, the system refused " + format_bytes(least) +
                                                 " too: raise the limit on address space (ulimit -v)")
      .with_driver(error, std::strerror(error));
}

PoolAddressSpace::PoolAddressSpace(PoolAddress base, std::size_t bytes, ExtentAllocator extents)
    : base_(base), bytes_(bytes), extents_(std::move(extents)) {}

PoolAddressSpace::~PoolAddressSpace() { ::munmap(reinterpret_cast<void*>(static_cast<std::uintptr_t>(base_)), bytes_); }

Result<PoolRange> PoolAddressSpace::allocate(std::size_t bytes, std::size_t alignment) {
  if (bytes == 0) return Status(StatusCode::kInvalidValue, "0 bytes of pool addresses asked, at least 1 expected");
  if (!is_power_of_two(alignment) || alignment > kBaseAlignment) {
    return Status(StatusCode::kInvalidValue, "alignment " + std::to_string(alignment) +
                                                 " asked, a power of two up to " + format_bytes(kBaseAlignment) +
                                                 " expected");
  }
  MutexLock lock(mutex_);
  const std::optional<Extent> extent = extents_.allocate(bytes, alignment);
  if (!extent) {
    return Status(StatusCode::kOutOfAddresses,
                  format_bytes(bytes) + " of pool addresses asked at alignment " + format_bytes(alignment) + ", " +
                      format_bytes(extents_.free_bytes()) + " free, the largest piece " +
                      format_bytes(extents_.largest_free()) + " (" + format_bytes(bytes_) +
                      " reserved): free buffers or raise the limit on address space (ulimit -v)");
  }
  peak_used_ = std::max(peak_used_, extents_.used_bytes());
  return PoolRange{base_ + extent->offset, extent->bytes, *extent};
}

Status PoolAddressSpace::deallocate(const PoolRange& range) {
  MutexLock lock(mutex_);
  if (range.address - base_ == range.extent.offset && range.bytes == range.extent.bytes &&
      extents_.deallocate(range.extent)) {
    return Status::ok();
  }
  return Status(StatusCode::kInvalidValue, "a range of " + format_bytes(range.bytes) +
                                               " that is not handed out was given back; each is given back once");
}

std::size_t PoolAddressSpace::used_bytes() const {
  MutexLock lock(mutex_);
  return extents_.used_bytes();
}

FragmentationFigures PoolAddressSpace::fragmentation() const {
  MutexLock lock(mutex_);
  return measure_fragmentation(extents_, extents_.used_bytes(), peak_used_);
}

}  // namespace vmem
