// Copies between two devices' own memory by `Runtime::copy`, at one size.
#pragma once

#include <vmem/status.hpp>
#include <vmem/topology.hpp>

#include <cstddef>
#include <vector>

#include "tools/bench/bench_context.hpp"
#include "tools/bench/device_memory.hpp"
#include "tools/bench/memcpy_team.hpp"

namespace vmem {

// Thread contract: one thread.
class PairCopies {
 public:
  PairCopies(BenchContext& context, DeviceIndex from, DeviceIndex to, MemcpyTeam& team);

  // One row each. The devices must have room for `bytes` once, for an exchange twice.
  Status one_way(std::size_t bytes);
  Status exchange(std::size_t bytes);

 private:
  Status fill_source(const DeviceMemory& from, std::size_t bytes);
  Status spoil(const DeviceMemory& to, PinnedMemory& staging) const;
  Status copy(const DeviceMemory& from, DeviceIndex from_index, const DeviceMemory& to, DeviceIndex to_index,
              std::size_t bytes);
  Status time_one_way(const DeviceMemory& from, const DeviceMemory& to, PinnedMemory& staging, BenchRow& row);
  Result<double> plain_copy_seconds(const DeviceMemory& from, const DeviceMemory& to, PinnedMemory& staging,
                                    std::size_t bytes) const;
  Status verify(const DeviceMemory& to, PinnedMemory& staging, BenchRow& row);
  BenchRow start_row(const char* pattern, std::size_t bytes) const;
  Device& from() const { return context_.runtime.device(from_index_); }
  Device& to() const { return context_.runtime.device(to_index_); }
  // Both hops of a staged copy then cross one link.
  bool are_one_card() const;

  BenchContext& context_;
  const DeviceIndex from_index_;
  const DeviceIndex to_index_;
  MemcpyTeam& team_;
  std::vector<std::byte> expected_;
};

}  // namespace vmem
