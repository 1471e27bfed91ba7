#include "tools/bench/pair_copies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/support/bytes.hpp"
#include "tools/bench/samples.hpp"

namespace vmem {
namespace {

// Plain copies out of one device and into another, side by side, as the two hops of a staged copy run.
class BothAtOnce {
 public:
  static Result<BothAtOnce> create(Device& out, Device& in) {
    VMEM_ASSIGN_OR_RETURN(const Stream out_stream, out.create_stream());
    auto in_stream = in.create_stream();
    if (!in_stream) {
      (void)out.destroy_stream(out_stream);
      return in_stream.error();
    }
    return BothAtOnce(out, out_stream, in, *in_stream);
  }
  BothAtOnce(BothAtOnce&& other) noexcept
      : out_(std::exchange(other.out_, nullptr)),
        in_(other.in_),
        out_stream_(other.out_stream_),
        in_stream_(other.in_stream_) {}
  BothAtOnce& operator=(BothAtOnce&&) = delete;
  ~BothAtOnce() {
    if (out_ == nullptr) return;
    (void)out_->destroy_stream(out_stream_);
    (void)in_->destroy_stream(in_stream_);
  }

  Status run(std::byte* host_to, const void* source, const std::byte* host_from, void* destination, std::size_t bytes) {
    VMEM_ASSIGN_OR_RETURN(const Event out, out_->copy_to_host(host_to, source, bytes, out_stream_));
    VMEM_ASSIGN_OR_RETURN(const Event in, in_->copy_from_host(destination, host_from, bytes, in_stream_));
    VMEM_RETURN_IF_ERROR(out.wait());
    return in.wait();
  }

 private:
  BothAtOnce(Device& out, Stream out_stream, Device& in, Stream in_stream)
      : out_(&out), in_(&in), out_stream_(out_stream), in_stream_(in_stream) {}

  Device* out_;
  Device* in_;
  Stream out_stream_;
  Stream in_stream_;
};

}  // namespace

PairCopies::PairCopies(BenchContext& context, DeviceIndex from, DeviceIndex to, MemcpyTeam& team)
    : context_(context), from_index_(from), to_index_(to), team_(team) {}

bool PairCopies::are_one_card() const {
  const DeviceInfo& a = from().info();
  const DeviceInfo& b = to().info();
  return a.tier == Tier::kDevice && b.tier == Tier::kDevice && !a.simulated && !b.simulated && a.uuid == b.uuid;
}

BenchRow PairCopies::start_row(const char* pattern, std::size_t bytes) const {
  BenchRow row;
  row.pattern = pattern;
  row.from = from().info().name;
  row.to = to().info().name;
  row.bytes = bytes;
  row.simulated = from().info().simulated || to().info().simulated;
  row.verified = true;
  return row;
}

Status PairCopies::fill_source(const DeviceMemory& from, std::size_t bytes) {
  expected_.resize(bytes);
  VMEM_RETURN_IF_ERROR(context_.inputs.read(expected_.data(), bytes));
  return copy_in(from, expected_.data(), bytes);
}

// Puts bytes there of which a copy of the source leaves none.
Status PairCopies::spoil(const DeviceMemory& to, PinnedMemory& staging) const {
  std::transform(expected_.begin(), expected_.end(), staging.data(), [](std::byte byte) { return ~byte; });
  return copy_in(to, staging.data(), expected_.size());
}

Status PairCopies::copy(const DeviceMemory& from, DeviceIndex from_index, const DeviceMemory& to, DeviceIndex to_index,
                        std::size_t bytes) {
  return wait(context_.runtime.copy({to_index, to.address(), Stream()}, {from_index, from.address(), Stream()}, bytes));
}

// One plain copy of the bytes: the slower hop where there are two.
Result<double> PairCopies::plain_copy_seconds(const DeviceMemory& from, const DeviceMemory& to, PinnedMemory& staging,
                                              std::size_t bytes) const {
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

Status PairCopies::time_one_way(const DeviceMemory& from, const DeviceMemory& to, PinnedMemory& staging,
                                BenchRow& row) {
  const bool two_hops = !from.is_host() && !to.is_host();
  row.reference.name = two_hops ? "slower of plain driver copies out and in" : "plain driver copy";
  Reference one_after_other{"plain driver copy out, wait, copy in", {}};
  Reference at_once{"plain driver copies out and in at once", {}};
  Reference twice{fmt::format("memcpy twice by {} threads", kStagedCopyThreads), {}};
  const bool by_cpu = row.simulated && two_hops;
  std::vector<std::byte> copied(by_cpu ? row.bytes : 0);
  std::optional<PinnedMemory> second;
  std::optional<BothAtOnce> both;
  if (are_one_card()) {
    second.emplace(row.bytes, std::vector<Device*>{&this->from()});
    VMEM_ASSIGN_OR_RETURN(auto made, BothAtOnce::create(from.device(), to.device()));
    both.emplace(std::move(made));
  }
  context_.progress.start(row.name);
  const unsigned last = context_.settings.samples;
  for (unsigned round = 0; round <= last && !context_.mismatch; ++round) {
    // The plain copies write the same bytes to the same place, so the first and the last round start from others.
    const bool checked = round == 0 || round == last;
    if (checked) VMEM_RETURN_IF_ERROR(spoil(to, staging));
    const Stopwatch time;
    VMEM_RETURN_IF_ERROR(copy(from, from_index_, to, to_index_, row.bytes));
    const double seconds = time.seconds();
    if (checked) VMEM_RETURN_IF_ERROR(verify(to, staging, row));
    const Stopwatch plain_time;
    VMEM_ASSIGN_OR_RETURN(const double slower_seconds, plain_copy_seconds(from, to, staging, row.bytes));
    const double plain_seconds = plain_time.seconds();
    const Stopwatch both_time;
    if (both) {
      VMEM_RETURN_IF_ERROR(both->run(staging.data(), from.address(), second->data(), to.address(), row.bytes));
    }
    const double both_seconds = both_time.seconds();
    const Stopwatch twice_time;
    if (by_cpu) team_.copy_twice(copied.data(), expected_.data(), row.bytes);
    const double twice_seconds = twice_time.seconds();
    context_.progress.update(round + 1, last + 1);
    if (round == 0) continue;
    row.samples.push_back(seconds);
    row.reference.samples.push_back(slower_seconds);
    one_after_other.samples.push_back(plain_seconds);
    if (both) at_once.samples.push_back(both_seconds);
    if (by_cpu) twice.samples.push_back(twice_seconds);
  }
  // Both hops on one link: each direction has less of it than a copy alone. A simulated link bounds a copy where it is
  // enforced, and the machine's memory where it is not: the slower one does.
  if (both) std::swap(at_once, row.reference);
  if (by_cpu && median(twice.samples) > median(row.reference.samples)) std::swap(twice, row.reference);
  for (Reference* other : {&one_after_other, &at_once, &twice}) {
    if (two_hops && !other->samples.empty()) row.other_references.push_back(std::move(*other));
  }
  return {};
}

Status PairCopies::verify(const DeviceMemory& to, PinnedMemory& staging, BenchRow& row) {
  VMEM_RETURN_IF_ERROR(copy_out(staging.data(), to, expected_.size()));
  context_.mismatch = compare_bytes(row.name, reinterpret_cast<PoolAddress>(to.address()), context_.plan.block_bytes,
                                    {staging.data(), expected_.size()}, expected_);
  row.verified = !context_.mismatch;
  return {};
}

Status PairCopies::one_way(std::size_t bytes) {
  VMEM_ASSIGN_OR_RETURN(const DeviceMemory source, DeviceMemory::create(from(), bytes));
  VMEM_ASSIGN_OR_RETURN(const DeviceMemory target, DeviceMemory::create(to(), bytes));
  const std::vector<Device*> both{&from(), &to()};
  // Of a host device's own memory, too, so that its plain copy is one of pinned memory.
  const DeviceMemory& host = source.is_host() ? source : target;
  const std::optional<Pinned> pinned =
      host.is_host() ? std::make_optional<Pinned>(host.address(), bytes, both) : std::nullopt;
  PinnedMemory staging(bytes, both);
  VMEM_RETURN_IF_ERROR(fill_source(source, bytes));
  BenchRow row = start_row("copy", bytes);
  row.name = fmt::format("copy of {} from {} to {}", format_bytes(bytes), row.from, row.to);
  VMEM_RETURN_IF_ERROR(time_one_way(source, target, staging, row));
  context_.add_row(std::move(row));
  return {};
}

Status PairCopies::exchange(std::size_t bytes) {
  VMEM_ASSIGN_OR_RETURN(const DeviceMemory there, DeviceMemory::create(from(), bytes));
  VMEM_ASSIGN_OR_RETURN(const DeviceMemory there_target, DeviceMemory::create(to(), bytes));
  VMEM_ASSIGN_OR_RETURN(const DeviceMemory back, DeviceMemory::create(to(), bytes));
  VMEM_ASSIGN_OR_RETURN(const DeviceMemory back_target, DeviceMemory::create(from(), bytes));
  PinnedMemory staging(bytes, {&from(), &to()});
  VMEM_RETURN_IF_ERROR(fill_source(there, bytes));
  VMEM_RETURN_IF_ERROR(copy_in(back, expected_.data(), bytes));
  BenchRow row = start_row("exchange", 2 * bytes);
  row.name = fmt::format("exchange of {} between {} and {}", format_bytes(bytes), row.from, row.to);
  row.reference.name = "one copy after the other";
  context_.progress.start(row.name);
  const unsigned last = context_.settings.samples;
  for (unsigned round = 0; round <= last && !context_.mismatch; ++round) {
    const bool checked = round == 0 || round == last;
    for (const DeviceMemory* target : {&there_target, &back_target}) {
      if (checked) VMEM_RETURN_IF_ERROR(spoil(*target, staging));
    }
    const Stopwatch time;
    VMEM_ASSIGN_OR_RETURN(const Event going, context_.runtime.copy({to_index_, there_target.address(), Stream()},
                                                                   {from_index_, there.address(), Stream()}, bytes));
    VMEM_ASSIGN_OR_RETURN(const Event coming, context_.runtime.copy({from_index_, back_target.address(), Stream()},
                                                                    {to_index_, back.address(), Stream()}, bytes));
    VMEM_RETURN_IF_ERROR(going.wait());
    VMEM_RETURN_IF_ERROR(coming.wait());
    const double seconds = time.seconds();
    for (const DeviceMemory* target : {&there_target, &back_target}) {
      if (checked && !context_.mismatch) VMEM_RETURN_IF_ERROR(verify(*target, staging, row));
    }
    const Stopwatch reference_time;
    VMEM_RETURN_IF_ERROR(copy(there, from_index_, there_target, to_index_, bytes));
    VMEM_RETURN_IF_ERROR(copy(back, to_index_, back_target, from_index_, bytes));
    context_.progress.update(round + 1, last + 1);
    if (round == 0) continue;
    row.samples.push_back(seconds);
    row.reference.samples.push_back(reference_time.seconds());
  }
  context_.add_row(std::move(row));
  return {};
}

}  // namespace vmem
