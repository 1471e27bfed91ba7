#include "tools/bench/pool_copies.hpp"

#include <fmt/format.h>
#include <vmem/types.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/support/bytes.hpp"
#include "tools/bench/device_memory.hpp"
#include "tools/bench/samples.hpp"

namespace vmem {
namespace {

// The plain copies that bound a fetch.
class PlainCopies {
 public:
  static Result<PlainCopies> create(Device& from, Device& to, std::size_t bytes) {
    PlainCopies copies(from, to, bytes);
    const bool between_hosts = from.info().tier == Tier::kHost && to.info().tier == Tier::kHost;
    for (Device* device : {&from, &to}) {
      // Host memory is where the other's plain copy starts or ends.
      if (device->info().tier == Tier::kHost && !(between_hosts && device == &to)) continue;
      VMEM_ASSIGN_OR_RETURN(auto memory, DeviceMemory::create(*device, bytes));
      copies.ends_.push_back(std::move(memory));
    }
    return copies;
  }

  // The slower one.
  Result<double> seconds() {
    double slowest = 0;
    for (const DeviceMemory& end : ends_) {
      const Stopwatch time;
      if (&end.device() == from_) VMEM_RETURN_IF_ERROR(copy_out(host_->data(), end, bytes_));
      if (&end.device() == to_) VMEM_RETURN_IF_ERROR(copy_in(end, host_->data(), bytes_));
      slowest = std::max(slowest, time.seconds());
    }
    return slowest;
  }

 private:
  PlainCopies(Device& from, Device& to, std::size_t bytes) : from_(&from), to_(&to), bytes_(bytes) {
    host_ = std::make_unique<PinnedMemory>(bytes, std::vector<Device*>{&from, &to});
  }

  Device* from_;
  Device* to_;
  std::size_t bytes_;
  std::unique_ptr<PinnedMemory> host_;
  std::vector<DeviceMemory> ends_;
};

class FetchJob {
 public:
  FetchJob(BenchContext& context, Pool& pool, DeviceIndex from, DeviceIndex to)
      : context_(context), pool_(pool), from_(from), to_(to) {}

  Status run(const char* pattern, std::size_t bytes, std::size_t stride_pages);

 private:
  Status change(unsigned round, bool checked);
  Status fetch(double& seconds, bool checked, BenchRow& row);
  Status compare(const Acquired& acquired, BenchRow& row);
  AcquireOptions on(DeviceIndex device) const {
    AcquireOptions options;
    options.device = device;
    return options;
  }

  BenchContext& context_;
  Pool& pool_;
  const DeviceIndex from_;
  const DeviceIndex to_;
  Buffer buffer_;
  std::vector<AcquireRange> moved_;  // ascending
  std::vector<std::byte> expected_;  // the buffer's bytes
  std::vector<std::byte> read_back_;
};

// The bytes that will have to move become `from`'s own; in a checked round they change as well.
Status FetchJob::change(unsigned round, bool checked) {
  VMEM_ASSIGN_OR_RETURN(Acquired acquired, pool_.acquire(moved_, on(from_)));
  Device& device = context_.runtime.device(from_);
  for (std::size_t i = 0; i < moved_.size() && checked; ++i) {
    std::byte* const bytes = expected_.data() + (moved_[i].address - buffer_.address());
    std::transform(bytes, bytes + moved_[i].bytes, bytes, [&](std::byte byte) {
      return static_cast<std::byte>(std::to_integer<unsigned>(byte) * 5 + round + 1);
    });
    VMEM_RETURN_IF_ERROR(wait(device.copy_from_host(acquired.data(i), bytes, moved_[i].bytes, Stream())));
  }
  return acquired.release();
}

Status FetchJob::fetch(double& seconds, bool checked, BenchRow& row) {
  const Stopwatch time;
  VMEM_ASSIGN_OR_RETURN(Acquired acquired, pool_.acquire(buffer_.all(Access::kRead), on(to_)));
  seconds = time.seconds();
  if (checked) VMEM_RETURN_IF_ERROR(compare(acquired, row));
  return acquired.release();
}

Status FetchJob::compare(const Acquired& acquired, BenchRow& row) {
  Device& device = context_.runtime.device(to_);
  VMEM_RETURN_IF_ERROR(wait(device.copy_to_host(read_back_.data(), acquired.data(), read_back_.size(), Stream())));
  context_.mismatch = compare_bytes(row.name, buffer_.address(), pool_.options().block_bytes, read_back_, expected_);
  row.verified = !context_.mismatch;
  return {};
}

Status FetchJob::run(const char* pattern, std::size_t bytes, std::size_t stride_pages) {
  Device& from = context_.runtime.device(from_);
  Device& to = context_.runtime.device(to_);
  const std::size_t whole = bytes * stride_pages;
  VMEM_ASSIGN_OR_RETURN(buffer_, pool_.allocate(whole));
  for (std::size_t at = 0; stride_pages > 1 && at < whole; at += stride_pages * kPageBytes) {
    moved_.push_back(buffer_.range(at, kPageBytes, Access::kWrite));
  }
  if (moved_.empty()) moved_.push_back(buffer_.all(Access::kWrite));
  expected_.resize(whole);
  read_back_.resize(whole);
  VMEM_RETURN_IF_ERROR(context_.inputs.read(expected_.data(), whole));
  VMEM_RETURN_IF_ERROR(pool_.copy_in(buffer_.address(), expected_.data(), whole));
  VMEM_ASSIGN_OR_RETURN(PlainCopies plain, PlainCopies::create(from, to, bytes));

  BenchRow row;
  row.pattern = pattern;
  row.from = from.info().name;
  row.to = to.info().name;
  row.name = fmt::format("{} of {} from {} to {}", pattern, format_bytes(bytes), row.from, row.to);
  row.bytes = bytes;
  row.simulated = from.info().simulated || to.info().simulated;
  row.verified = true;
  const bool two_hops = from.info().tier != Tier::kHost && to.info().tier != Tier::kHost;
  row.reference.name = two_hops ? "slower of plain driver copies out and in" : "plain driver copy";
  context_.progress.start(row.name);
  // Two rounds warm up: the first makes the frames, on both sides.
  const unsigned last = context_.settings.samples + 1;
  for (unsigned round = 0; round <= last && !context_.mismatch; ++round) {
    const bool checked = round == 0 || round == last;
    VMEM_RETURN_IF_ERROR(change(round, checked));
    double seconds = 0;
    VMEM_RETURN_IF_ERROR(fetch(seconds, checked, row));
    VMEM_ASSIGN_OR_RETURN(const double plain_seconds, plain.seconds());
    context_.progress.update(round + 1, last + 1);
    if (round < 2) continue;
    row.samples.push_back(seconds);
    row.reference.samples.push_back(plain_seconds);
  }
  context_.add_row(std::move(row));
  return {};
}

}  // namespace

Status run_fetch(BenchContext& context, Pool& pool, DeviceIndex from, DeviceIndex to, std::size_t bytes) {
  return FetchJob(context, pool, from, to).run("fetch", bytes, 1);
}

Status run_scattered(BenchContext& context, Pool& pool, DeviceIndex from, DeviceIndex to, std::size_t bytes) {
  return FetchJob(context, pool, from, to).run("scattered", bytes, 2);
}

}  // namespace vmem
