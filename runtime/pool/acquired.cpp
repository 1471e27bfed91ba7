#include <vmem/acquired.hpp>

#include <utility>

#include "runtime/pool/grant.hpp"
#include "runtime/pool/pool_impl.hpp"
#include "runtime/pool/without_exceptions.hpp"
#include "runtime/support/check.hpp"

namespace vmem {

Acquired::Acquired() noexcept = default;
Acquired::Acquired(std::unique_ptr<Grant> grant) noexcept : grant_(std::move(grant)) {}
Acquired::Acquired(Acquired&& other) noexcept = default;

Acquired& Acquired::operator=(Acquired&& other) noexcept {
  if (this == &other) return *this;
  if (grant_) static_cast<void>(release());
  grant_ = std::move(other.grant_);
  return *this;
}

Acquired::~Acquired() {
  if (grant_) static_cast<void>(release());
}

std::size_t Acquired::size() const noexcept { return grant_ ? grant_->pointers.size() : 0; }

void* Acquired::data(std::size_t index) const noexcept {
  VMEM_CHECK(index < size());
  return grant_->pointers[index];
}

Status Acquired::status() const {
  return without_exceptions([&]() -> Status {
    if (!grant_) return {StatusCode::kInvalidValue, "released already"};
    return Pool::Impl::status_of(*grant_);
  });
}

Status Acquired::wait() const {
  return without_exceptions([&]() -> Status {
    if (!grant_) return {StatusCode::kInvalidValue, "released already"};
    for (const Event& arrival : grant_->claim.arrivals) VMEM_RETURN_IF_ERROR(arrival.wait());
    return {};
  });
}

Status Acquired::release() {
  return without_exceptions([&]() -> Status {
    if (!grant_) return {StatusCode::kInvalidValue, "released already"};
    const std::unique_ptr<Grant> grant = std::move(grant_);
    return grant->pool->release(*grant);
  });
}

}  // namespace vmem
