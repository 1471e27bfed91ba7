#include "tools/bench/copy_job.hpp"

#include <fmt/format.h>
#include <vmem/types.hpp>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/support/bytes.hpp"
#include "tools/bench/memcpy_team.hpp"
#include "tools/bench/samples.hpp"

namespace vmem {
namespace {

std::vector<std::size_t> copy_sizes(bool quick) {
  if (quick) return {4_MiB, 64_MiB};
  return {64_KiB, 1_MiB, 16_MiB, 64_MiB, 256_MiB};
}

// Memory straight from a device, outside any pool.
class DeviceMemory {
 public:
  static Result<DeviceMemory> create(Device& device, std::size_t bytes) {
    VMEM_ASSIGN_OR_RETURN(void* const address, device.allocate(bytes));
    return DeviceMemory(device, address);
  }
  DeviceMemory(DeviceMemory&& other) noexcept
      : device_(other.device_), address_(std::exchange(other.address_, nullptr)) {}
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  ~DeviceMemory() {
    if (address_ != nullptr) (void)device_->deallocate(address_);  // a lost device has nothing left to free
  }

  Device& device() const { return *device_; }
  void* address() const { return address_; }
  bool is_host() const { return device_->info().tier == Tier::kHost; }

 private:
  DeviceMemory(Device& device, void* address) : device_(&device), address_(address) {}

  Device* device_;
  void* address_;
};

Status wait(Result<Event> event) { return event ? event->wait() : event.error(); }

Status copy_in(const DeviceMemory& to, const std::byte* host, std::size_t bytes) {
  return wait(to.device().copy_from_host(to.address(), host, bytes, Stream()));
}

Status copy_out(std::byte* host, const DeviceMemory& from, std::size_t bytes) {
  return wait(from.device().copy_to_host(host, from.address(), bytes, Stream()));
}

// Host memory that both devices can copy from and to as fast as they can.
class PinnedMemory {
 public:
  PinnedMemory(std::size_t bytes, std::vector<Device*> devices) : bytes_(bytes) {
    for (Device* device : devices) {
      // Where pages can't be pinned the plain copies are pageable ones, for the pool as for the reference.
      if (device->info().caps.has(DeviceCap::kHostRegistration) && device->register_host(bytes_.data(), bytes)) {
        pinned_for_.push_back(device);
      }
    }
  }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory() {
    for (Device* device : pinned_for_) (void)device->unregister_host(bytes_.data());
  }

  std::byte* data() { return bytes_.data(); }

 private:
  std::vector<std::byte> bytes_;
  std::vector<Device*> pinned_for_;
};

class PairJob {
 public:
  PairJob(BenchContext& context, DeviceIndex from, DeviceIndex to, MemcpyTeam& team)
      : context_(context), from_index_(from), to_index_(to), team_(team) {}

  Status run(std::size_t bytes);

 private:
  Status fill_source(const DeviceMemory& from, std::size_t bytes);
  Status spoil_destination(const DeviceMemory& to, PinnedMemory& staging) const;
  Status time(const DeviceMemory& from, const DeviceMemory& to, PinnedMemory& staging, BenchRow& row);
  // One plain copy of the bytes: the slower hop where there are two.
  Result<double> plain_copy_seconds(const DeviceMemory& from, const DeviceMemory& to, PinnedMemory& staging,
                                    std::size_t bytes);
  Status verify(const DeviceMemory& to, PinnedMemory& staging, BenchRow& row);

  BenchContext& context_;
  DeviceIndex from_index_;
  DeviceIndex to_index_;
  MemcpyTeam& team_;
  std::vector<std::byte> expected_;
};

Status PairJob::fill_source(const DeviceMemory& from, std::size_t bytes) {
  expected_.resize(bytes);
  VMEM_RETURN_IF_ERROR(context_.inputs.read(expected_.data(), bytes));
  return copy_in(from, expected_.data(), bytes);
}

// Puts bytes there of which a copy of the source leaves none.
Status PairJob::spoil_destination(const DeviceMemory& to, PinnedMemory& staging) const {
  std::transform(expected_.begin(), expected_.end(), staging.data(), [](std::byte byte) { return ~byte; });
  return copy_in(to, staging.data(), expected_.size());
}

Result<double> PairJob::plain_copy_seconds(const DeviceMemory& from, const DeviceMemory& to, PinnedMemory& staging,
                                           std::size_t bytes) {
  double out_seconds = 0;
  double in_seconds = 0;
  // A host device's memory is where the other's plain copy starts or ends.
  std::byte* const host = from.is_host() ? static_cast<std::byte*>(from.address())
                          : to.is_host() ? static_cast<std::byte*>(to.address())
                                         : staging.data();
  if (!from.is_host()) {
    const Stopwatch time;
    VMEM_RETURN_IF_ERROR(copy_out(host, from, bytes));
    out_seconds = time.seconds();
  }
  if (!to.is_host() || from.is_host()) {
    const Stopwatch time;
    VMEM_RETURN_IF_ERROR(copy_in(to, host, bytes));
    in_seconds = time.seconds();
  }
  return std::max(out_seconds, in_seconds);
}

Status PairJob::time(const DeviceMemory& from, const DeviceMemory& to, PinnedMemory& staging, BenchRow& row) {
  row.reference.name =
      from.is_host() || to.is_host() ? "plain driver copy" : "slower of plain driver copies out and in";
  Reference twice{"memcpy twice by as many threads", {}};
  const bool staged = row.simulated && !from.is_host() && !to.is_host();
  std::vector<std::byte> copied(staged ? row.bytes : 0);
  row.verified = true;
  context_.progress.start(row.name);
  const unsigned last = context_.settings.samples;
  for (unsigned round = 0; round <= last && !context_.mismatch; ++round) {
    // The plain copies write the same bytes to the same place, so the first and the last round start from others.
    const bool checked = round == 0 || round == last;
    if (checked) VMEM_RETURN_IF_ERROR(spoil_destination(to, staging));
    const Stopwatch time;
    VMEM_RETURN_IF_ERROR(wait(context_.runtime.copy({to_index_, to.address(), Stream()},
                                                    {from_index_, from.address(), Stream()}, row.bytes)));
    const double seconds = time.seconds();
    if (checked) VMEM_RETURN_IF_ERROR(verify(to, staging, row));
    VMEM_ASSIGN_OR_RETURN(const double plain_seconds, plain_copy_seconds(from, to, staging, row.bytes));
    const Stopwatch twice_time;
    if (staged) team_.copy_twice(copied.data(), expected_.data(), row.bytes);
    const double twice_seconds = twice_time.seconds();
    context_.progress.update(round + 1, last + 1);
    if (round == 0) continue;
    row.samples.push_back(seconds);
    row.reference.samples.push_back(plain_seconds);
    if (staged) twice.samples.push_back(twice_seconds);
  }
  if (!staged) return {};
  // A simulated link bounds a copy where it is enforced, and the machine's memory where it is not: the slower one does.
  if (median(twice.samples) > median(row.reference.samples)) std::swap(twice, row.reference);
  row.other_references.push_back(std::move(twice));
  return {};
}

Status PairJob::verify(const DeviceMemory& to, PinnedMemory& staging, BenchRow& row) {
  VMEM_RETURN_IF_ERROR(copy_out(staging.data(), to, row.bytes));
  const auto [found, expected] = std::mismatch(staging.data(), staging.data() + row.bytes, expected_.begin());
  if (found == staging.data() + row.bytes) return {};
  row.verified = false;
  Mismatch mismatch;
  mismatch.buffer = row.name;
  mismatch.address = reinterpret_cast<PoolAddress>(to.address());
  mismatch.offset = static_cast<std::size_t>(found - staging.data());
  mismatch.block = mismatch.offset / context_.plan.block_bytes;
  mismatch.expected = *expected;
  mismatch.found = *found;
  for (std::size_t i = 0; i < row.bytes; ++i) mismatch.bytes += staging.data()[i] != expected_[i] ? 1 : 0;
  context_.mismatch = std::move(mismatch);
  return {};
}

Status PairJob::run(std::size_t bytes) {
  Device& from_device = context_.runtime.device(from_index_);
  Device& to_device = context_.runtime.device(to_index_);
  VMEM_ASSIGN_OR_RETURN(const DeviceMemory from, DeviceMemory::create(from_device, bytes));
  VMEM_ASSIGN_OR_RETURN(const DeviceMemory to, DeviceMemory::create(to_device, bytes));
  PinnedMemory staging(bytes, {&from_device, &to_device});
  VMEM_RETURN_IF_ERROR(fill_source(from, bytes));
  BenchRow row;
  row.pattern = "copy";
  row.from = from_device.info().name;
  row.to = to_device.info().name;
  row.name = fmt::format("copy of {} from {} to {}", format_bytes(bytes), row.from, row.to);
  row.bytes = bytes;
  row.simulated = from_device.info().simulated || to_device.info().simulated;
  VMEM_RETURN_IF_ERROR(time(from, to, staging, row));
  context_.add_row(std::move(row));
  return {};
}

}  // namespace

Status run_copies(BenchContext& context) {
  MemcpyTeam team(kStagedCopyThreads);
  for (const DeviceIndex from : context.plan.workers) {
    for (const DeviceIndex to : context.plan.workers) {
      if (from == to) continue;
      for (const std::size_t bytes : copy_sizes(context.settings.quick)) {
        // Devices smaller than this leave it to the patterns to fill them.
        if (bytes > std::min(context.device(from).info.total_bytes, context.device(to).info.total_bytes) / 4) continue;
        VMEM_RETURN_IF_ERROR(PairJob(context, from, to, team).run(bytes));
        if (context.mismatch) return {};
      }
    }
  }
  return {};
}

}  // namespace vmem
