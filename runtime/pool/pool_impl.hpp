// A pool: the stages put together. runtime/README.md walks an allocation through it.
#pragma once

#include <vmem/pool.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/policy/lru_policy.hpp"
#include "runtime/pool/buffer_table.hpp"
#include "runtime/pool/fork_marker.hpp"
#include "runtime/pool/grant.hpp"
#include "runtime/pool/plan_runner.hpp"
#include "runtime/pool/pool_context.hpp"
#include "runtime/pool/prefetcher.hpp"
#include "runtime/residency/residency.hpp"
#include "runtime/support/stripes.hpp"

namespace vmem {

// CONCURRENCY: holds no lock of its own; the buffer table, the residency, the transfer engine and the prefetcher have
// theirs, taken in this order.
class VMEM_LOCAL Pool::Impl {
 public:
  static Result<std::unique_ptr<Impl>> create(PoolContext context, const PoolOptions& options);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  // The end of prefetches. False where something is acquired: then the pool must be left as it is, for good.
  bool end() noexcept;

  Result<PoolAddress> allocate(std::size_t bytes, const BufferOptions& options);
  Status free(PoolAddress address);

  Result<Acquired> acquire(std::span<const AcquireRange> ranges, const AcquireOptions& options);
  Status release(Acquired::Grant& grant);
  static Status status_of(const Acquired::Grant& grant);

  Result<Prefetch> prefetch(PoolAddress address, std::size_t bytes, DeviceIndex device);
  // The prefetcher's work: fetches, and lets go.
  Status fetch_now(PoolAddress address, std::size_t bytes, DeviceIndex device, const std::atomic<bool>& cancelled);
  Status advise(PoolAddress address, std::size_t bytes, Advice advice, DeviceIndex device);

  Status copy_in(PoolAddress destination, const void* host, std::size_t bytes);
  Status copy_out(void* host, PoolAddress source, std::size_t bytes);
  Status copy(PoolAddress destination, PoolAddress source, std::size_t bytes);
  Status fill(PoolAddress address, std::uint8_t value, std::size_t bytes);

  bool contains(PoolAddress address) const noexcept { return buffers_->contains(address); }
  Result<Translation> translate(PoolAddress address);
  Result<std::vector<std::size_t>> residency(PoolAddress address, std::size_t bytes);
  PoolStats stats();
  Status status();
  const PoolOptions& options() const noexcept { return options_; }

 private:
  // A range inside one block, and the device on which it is best worked on.
  struct Part {
    std::size_t bytes;
    DeviceIndex device;
  };

  Impl(PoolContext context, const PoolOptions& options);

  static StatusCode code_of(const Status& status) noexcept { return status.code(); }
  template <typename T>
  static StatusCode code_of(const Result<T>& result) {
    return result ? StatusCode::kOk : result.error().code();
  }

  static Status check_options(const PoolContext& context, const PoolOptions& options);
  // The checks of every call; inline where they pass, as they nearly always do.
  Status check_fork() const { return context_.fork->in_child() ? forked() : Status(); }
  Status check_device(DeviceIndex device) const {
    return device < context_.devices.size() ? Status() : no_such_device(device);
  }
  Status check_stream(const AcquireOptions& options) const {
    return options.stream.has_value() ? check_given_stream(options) : Status();
  }
  static Status forked();
  Status no_such_device(DeviceIndex device) const;
  Status check_given_stream(const AcquireOptions& options) const;

  // Calls `look` in a read section. Where it finds no buffer, one may be hidden by a free that is refused in the end:
  // then it looks again.
  template <typename Look>
  auto look_up(Look look) -> decltype(look()) {
    std::optional<std::uint64_t> frees;  // that had begun when none was undecided
    for (;;) {
      auto found = [&] {
        const ReadSections::Reader reader(buffers_->sections());
        return look();
      }();
      if (code_of(found) != StatusCode::kInvalidValue) return found;
      const std::uint64_t now = buffers_->wait_until_decided();
      if (frees == now) return found;
      frees = now;
    }
  }

  // pool_impl.cpp
  Status bring(Claim& claim, Patience& patience);
  Status prefer(PoolAddress address, std::optional<DeviceIndex> device);

  // acquire.cpp
  Status make_claim(std::span<const AcquireRange> ranges, Claim& claim, std::vector<std::size_t>& order);
  Status add_range(const AcquireRange& range, const AcquireRange* before, Claim& claim);
  Status hold(std::span<const AcquireRange> ranges, Claim& claim, std::vector<std::size_t>& order, Patience& patience);
  Status fetch(Claim& claim, Patience& patience);
  Status wait_for_one_piece(Claim& claim, Patience& patience, const Status& reason);
  bool take_in_failures(const Status& status);
  Status order_after(Claim& claim, Patience& patience);
  Status record_use(const Claim& claim, std::optional<Event>& use);

  // inspect.cpp
  Result<Translation> entry_of(PoolAddress address);
  Result<std::vector<std::size_t>> residency_of(const AcquireRange& range);

  // copies.cpp
  Result<const BufferRecord*> buffer_with(PoolAddress address, std::size_t bytes) const;
  Result<Part> part_at(PoolAddress address, std::size_t bytes);
  Result<Part> part_of(PoolAddress address, std::size_t bytes);
  Status transfer(DeviceIndex to, void* destination, DeviceIndex from, const void* source, std::size_t bytes);
  Result<DeviceIndex> host_device() const;

  std::atomic<bool> abandoned_{false};  // ended while something was acquired: devices may be gone
  const PoolContext context_;
  const PoolOptions options_;
  LruPolicy policy_;
  std::unique_ptr<Residency> residency_;
  std::unique_ptr<BufferTable> buffers_;
  MoveCounters moves_;
  StripedCounter acquires_;
  std::atomic<std::uint64_t> fetched_{0};
  std::atomic<std::uint64_t> failed_{0};
  std::unique_ptr<Prefetcher> prefetcher_;  // its thread ends first
};

}  // namespace vmem
