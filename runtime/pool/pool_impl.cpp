#include "runtime/pool/pool_impl.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "runtime/pool/without_exceptions.hpp"
#include "runtime/support/bytes.hpp"
#include "runtime/support/check.hpp"
#include "runtime/support/format.hpp"

namespace vmem {
namespace {

std::size_t largest_granularity(const PoolContext& context) {
  std::size_t largest = kPageBytes;
  for (const Device* device : context.devices) largest = std::max(largest, device->info().granularity);
  return largest;
}

std::vector<std::uint64_t> limits_of(const PoolContext& context, const PoolOptions& options) {
  std::vector<std::uint64_t> limits;
  for (const TopologyDevice& device : context.topology->devices()) {
    const auto limit = options.limits.find(device.info.name);
    limits.push_back(limit == options.limits.end() ? device.limit_bytes : std::min(limit->second, device.limit_bytes));
  }
  return limits;
}

}  // namespace

Status Pool::Impl::check_options(const PoolContext& context, const PoolOptions& options) {
  const std::size_t granularity = largest_granularity(context);
  if (!is_power_of_two(options.block_bytes) || options.block_bytes < granularity || options.block_bytes > 1_GiB) {
    return {StatusCode::kInvalidValue,
            format("block_bytes is {}: expected a power of two from {} (the devices' granularity) to 1 GiB",
                   options.block_bytes, granularity)};
  }
  if (options.fit > FitStrategy::kWorstFit || options.placement > PlacementStrategy::kWorstFit) {
    return {StatusCode::kInvalidValue, "fit or placement is no strategy that there is"};
  }
  if (options.acquire_deadline.count() < 0) {
    return {StatusCode::kInvalidValue,
            format("acquire_deadline is {} ms: expected 0 or more", options.acquire_deadline.count())};
  }
  for (const auto& [name, limit] : options.limits) {
    if (!context.topology->find(name)) {
      return {StatusCode::kInvalidValue, format("limits names '{}', which is no device of this machine", name)};
    }
    static_cast<void>(limit);
  }
  return {};
}

Result<std::unique_ptr<Pool::Impl>> Pool::Impl::create(PoolContext context, const PoolOptions& options) {
  VMEM_RETURN_IF_ERROR(check_options(context, options));
  std::unique_ptr<Impl> impl(new Impl(std::move(context), options));
  Residency::Options residency;
  residency.block_bytes = options.block_bytes;
  residency.placement = options.placement;
  residency.fit = options.fit;
  residency.limits = limits_of(impl->context_, options);
  residency.registrations = &impl->context_.transfers->registrations();
  VMEM_ASSIGN_OR_RETURN(impl->residency_, Residency::create(*impl->context_.topology, impl->context_.devices, residency,
                                                            impl->policy_, nullptr));
  BufferTable::Options buffers;
  buffers.address_bytes = options.address_bytes;
  buffers.block_bytes = options.block_bytes;
  buffers.granularity = largest_granularity(impl->context_);
  buffers.fit = options.fit;
  VMEM_ASSIGN_OR_RETURN(impl->buffers_, BufferTable::create(buffers, *impl->residency_));
  return impl;
}

Pool::Impl::Impl(PoolContext context, const PoolOptions& options)
    : context_(std::move(context)),
      options_(options),
      moves_(context_.devices.size()),
      prefetcher_(std::make_unique<Prefetcher>()) {}

Pool::Impl::~Impl() {
  if (!context_.fork->in_child()) return;
  // The threads, locks and devices are the parent's: what can't be taken down here is left alone.
  static_cast<void>(prefetcher_.release());
  static_cast<void>(buffers_.release());
  static_cast<void>(residency_.release());
}

bool Pool::Impl::end() noexcept {
  if (context_.fork->in_child()) return true;
  prefetcher_.reset();
  if (!buffers_->is_acquired()) return true;
  abandoned_.store(true);
  try {
    context_.log->error(
        format("pool '{}' ended while something of it is acquired: its memory stays taken until the "
               "process ends. Release before the pool goes",
               options_.name));
  } catch (...) {  // then it is not said
  }
  return false;
}

Status Pool::Impl::forked() {
  return {StatusCode::kDeviceFailed, "this process was forked from the one that made the pool: it has no devices"};
}

Status Pool::Impl::no_such_device(DeviceIndex device) const {
  return {StatusCode::kInvalidValue,
          format("device {} does not exist: this machine has {}", device, context_.devices.size())};
}

Status Pool::Impl::check_given_stream(const AcquireOptions& options) const {
  Device& device = *context_.devices[options.device];
  if (Status status = device.check_stream(options.stream); !status) {
    if (status.code() == StatusCode::kDeviceFailed) return status;
    return Status(StatusCode::kInvalidValue, format("the stream is none of this device: {}", status.message()))
        .with_device(device.info().name);
  }
  VMEM_ASSIGN_OR_RETURN(const bool capturing, device.is_capturing(options.stream));
  if (!capturing) return {};
  return Status(StatusCode::kUnsupported,
                "the stream is being captured: pin buffers that a graph uses for its life instead")
      .with_device(device.info().name);
}

Result<PoolAddress> Pool::Impl::allocate(std::size_t bytes, const BufferOptions& options) {
  VMEM_RETURN_IF_ERROR(check_fork());
  std::optional<DeviceIndex> preferred;
  if (!options.preferred_device.empty()) {
    const auto device = context_.topology->find(options.preferred_device);
    if (!device) return Status(StatusCode::kInvalidValue, format("preferred_device: {}", device.error().message()));
    preferred = *device;
  }
  return buffers_->allocate(bytes, options.zeroed, preferred);
}

Status Pool::Impl::free(PoolAddress address) {
  VMEM_RETURN_IF_ERROR(check_fork());
  std::size_t bytes = 0;
  {
    const ReadSections::Reader reader(buffers_->sections());
    const BufferRecord* record = buffers_->find(address);
    if (record != nullptr && record->address == address) bytes = record->bytes;
  }
  if (bytes != 0) prefetcher_->cancel(address, bytes);
  return buffers_->free(address);
}

Result<Prefetch> Pool::Impl::prefetch(PoolAddress address, std::size_t bytes, DeviceIndex device) {
  VMEM_RETURN_IF_ERROR(check_fork());
  VMEM_RETURN_IF_ERROR(check_device(device));
  if (bytes == 0) return Status(StatusCode::kInvalidValue, "0 bytes to prefetch: expected at least one");
  VMEM_RETURN_IF_ERROR(look_up([&] { return buffer_with(address, bytes); }).error());
  auto state = std::make_shared<Prefetch::State>();
  state->address = address;
  state->bytes = bytes;
  state->work = [this, address, bytes, device](const std::atomic<bool>& cancelled) {
    return fetch_now(address, bytes, device, cancelled);
  };
  prefetcher_->submit(state);
  return Prefetch(std::move(state));
}

Status Pool::Impl::fetch_now(PoolAddress address, std::size_t bytes, DeviceIndex device,
                             const std::atomic<bool>& cancelled) {
  const AcquireRange range{address, bytes, Access::kRead};
  Claim claim;
  claim.device = device;
  claim.refetches = true;
  std::vector<std::size_t> order;
  Patience patience(options_.acquire_deadline, &cancelled);
  VMEM_RETURN_IF_ERROR(hold({&range, 1}, claim, order, patience));
  VMEM_RETURN_IF_ERROR(bring(claim, patience));
  residency_->clear_faults(claim);
  return residency_->release(claim, std::nullopt);
}

// Waits until the pages of a held claim are there. On an error its holds are gone.
Status Pool::Impl::bring(Claim& claim, Patience& patience) {
  Status status = without_exceptions([&] { return claim.resident ? Status() : fetch(claim, patience); });
  for (const Event& arrival : claim.arrivals) {
    if (status) status = arrival.wait();
  }
  if (!status) residency_->drop(claim);
  return status;
}

// REQUIRES: in a read section; the address lies in a buffer.
Status Pool::Impl::prefer(PoolAddress address, std::optional<DeviceIndex> device) {
  const BufferRecord* record = buffers_->find(address);
  if (record->shared == nullptr) {
    record->region->prefer(device);
    return {};
  }
  return {StatusCode::kUnsupported,
          "a small buffer shares its block with others: name the preferred device when it is allocated"};
}

Status Pool::Impl::advise(PoolAddress address, std::size_t bytes, Advice advice, DeviceIndex device) {
  VMEM_RETURN_IF_ERROR(check_fork());
  VMEM_RETURN_IF_ERROR(check_device(device));
  const AcquireRange range{address, bytes, Access::kRead};
  Claim claim;
  claim.device = device;
  std::vector<std::size_t> order;
  if (advice == Advice::kPin) {
    Patience patience(options_.acquire_deadline);
    VMEM_RETURN_IF_ERROR(hold({&range, 1}, claim, order, patience));
    VMEM_RETURN_IF_ERROR(bring(claim, patience));
    residency_->pin(claim);
    return residency_->release(claim, std::nullopt);
  }
  if (advice > Advice::kUnpin) {
    return {StatusCode::kInvalidValue, format("advice {} is none that there is", static_cast<int>(advice))};
  }
  return look_up([&]() -> Status {
    VMEM_RETURN_IF_ERROR(make_claim({&range, 1}, claim, order));
    if (advice == Advice::kUnpin) return residency_->unpin(claim);
    return prefer(address, advice == Advice::kPreferDevice ? std::optional(device) : std::nullopt);
  });
}

}  // namespace vmem
