#include <vmem/runtime.hpp>

#include <utility>

#include "runtime/pool/pool_impl.hpp"
#include "runtime/pool/runtime_impl.hpp"
#include "runtime/pool/without_exceptions.hpp"
#include "runtime/support/check.hpp"
#include "runtime/support/format.hpp"

namespace vmem {
Runtime::Runtime(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}

Runtime::~Runtime() {
  // A forked child has neither the threads to join nor the driver to talk to: everything is left as it is.
  if (impl_ && impl_->forked()) (void)impl_.release();
}

Result<std::unique_ptr<Runtime>> Runtime::create(const RuntimeOptions& options) {
  return without_exceptions([&]() -> Result<std::unique_ptr<Runtime>> {
    VMEM_ASSIGN_OR_RETURN(auto impl, Impl::create(options));
    return std::make_unique<Runtime>(std::move(impl));
  });
}

const Topology& Runtime::topology() const noexcept { return impl_->topology(); }

std::map<std::string, std::string> Runtime::drivers() const { return impl_->drivers(); }

Device& Runtime::device(DeviceIndex index) const noexcept {
  VMEM_CHECK(index < impl_->topology().devices().size());
  return impl_->device(index);
}

Result<std::unique_ptr<Pool>> Runtime::create_pool(const PoolOptions& options) {
  return without_exceptions([&]() -> Result<std::unique_ptr<Pool>> {
    VMEM_RETURN_IF_ERROR(impl_->check_fork());
    VMEM_ASSIGN_OR_RETURN(auto impl, Pool::Impl::create(impl_->pool_context(), options));
    return std::make_unique<Pool>(std::move(impl));
  });
}

Result<Event> Runtime::copy(const DevicePointer& destination, const DevicePointer& source, std::size_t bytes) {
  return without_exceptions([&] { return impl_->copy(destination, source, bytes); });
}

Result<Topology> Runtime::measure_links(bool use_cache) {
  return without_exceptions([&] { return impl_->measure_links(use_cache); });
}

}  // namespace vmem
