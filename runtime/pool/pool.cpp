// The public face of a pool: everything happens in Pool::Impl.
#include <vmem/pool.hpp>

#include <utility>

#include "runtime/pool/pool_impl.hpp"
#include "runtime/pool/without_exceptions.hpp"

namespace vmem {

Pool::Pool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)), self_(std::make_shared<Pool*>(this)) {}

Pool::~Pool() {
  self_.reset();
  if (!impl_->end()) static_cast<void>(impl_.release());
}

Result<Buffer> Pool::allocate(std::size_t bytes, const BufferOptions& options) {
  return without_exceptions([&]() -> Result<Buffer> {
    VMEM_ASSIGN_OR_RETURN(const PoolAddress address, impl_->allocate(bytes, options));
    return Buffer(self_, address, bytes);
  });
}

Status Pool::free(PoolAddress address) {
  return without_exceptions([&] { return impl_->free(address); });
}

Result<Acquired> Pool::acquire(const std::vector<AcquireRange>& ranges, const AcquireOptions& options) {
  return without_exceptions([&] { return impl_->acquire(ranges, options); });
}

Result<Acquired> Pool::acquire(const AcquireRange& range, const AcquireOptions& options) {
  return without_exceptions([&] { return impl_->acquire({&range, 1}, options); });
}

Result<Prefetch> Pool::prefetch(PoolAddress address, std::size_t bytes, DeviceIndex device) {
  return without_exceptions([&] { return impl_->prefetch(address, bytes, device); });
}

Status Pool::advise(PoolAddress address, std::size_t bytes, Advice advice, DeviceIndex device) {
  return without_exceptions([&] { return impl_->advise(address, bytes, advice, device); });
}

Status Pool::copy_in(PoolAddress destination, const void* host, std::size_t bytes) {
  return without_exceptions([&] { return impl_->copy_in(destination, host, bytes); });
}

Status Pool::copy_out(void* host, PoolAddress source, std::size_t bytes) {
  return without_exceptions([&] { return impl_->copy_out(host, source, bytes); });
}

Status Pool::copy(PoolAddress destination, PoolAddress source, std::size_t bytes) {
  return without_exceptions([&] { return impl_->copy(destination, source, bytes); });
}

Status Pool::fill(PoolAddress address, std::uint8_t value, std::size_t bytes) {
  return without_exceptions([&] { return impl_->fill(address, value, bytes); });
}

bool Pool::contains(PoolAddress address) const noexcept { return impl_->contains(address); }

Result<Translation> Pool::translate(PoolAddress address) const {
  return without_exceptions([&] { return impl_->translate(address); });
}

Result<std::vector<std::size_t>> Pool::residency(PoolAddress address, std::size_t bytes) const {
  return without_exceptions([&] { return impl_->residency(address, bytes); });
}

PoolStats Pool::stats() const {
  try {
    return impl_->stats();
  } catch (const std::exception&) {  // out of memory
    return {};
  }
}

Status Pool::status() const {
  return without_exceptions([&] { return impl_->status(); });
}

const PoolOptions& Pool::options() const noexcept { return impl_->options(); }

Buffer::Buffer(Buffer&& other) noexcept
    : pool_(std::move(other.pool_)),
      address_(std::exchange(other.address_, 0)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  static_cast<void>(free());
  pool_ = std::move(other.pool_);
  address_ = std::exchange(other.address_, 0);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

Buffer::~Buffer() { static_cast<void>(free()); }

Status Buffer::free() {
  if (const auto pool = pool_.lock()) {
    VMEM_RETURN_IF_ERROR((*pool)->free(address_));
  }
  static_cast<void>(release());
  return {};
}

PoolAddress Buffer::release() noexcept {
  pool_.reset();
  bytes_ = 0;
  return std::exchange(address_, 0);
}

}  // namespace vmem
