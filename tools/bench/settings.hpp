// BenchOptions, checked; and how the buffer, its blocks and the devices' limits are sized for them.
#pragma once

#include <vmem/status.hpp>
#include <vmem/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tools/bench/bench.hpp"

namespace vmem {

struct BenchSettings {
  std::set<std::string_view> patterns;
  std::optional<std::size_t> buffer_bytes;
  unsigned samples = 0;
  std::uint64_t seed = 0;
  bool quick = false;
  // Of `vmem bench copy`; powers of two.
  std::size_t least_copy_bytes = 0;
  std::size_t most_copy_bytes = 0;

  bool has(std::string_view pattern) const { return patterns.count(pattern) != 0; }
};

// Errors: kInvalidValue, naming the option.
Result<BenchSettings> parse_settings(const BenchOptions& options);

struct BenchPlan {
  std::size_t buffer_bytes = 0;  // a multiple of block_bytes
  std::size_t block_bytes = 0;
  std::map<std::string, std::uint64_t> limits;  // of every device of the topology, by name
  std::vector<DeviceIndex> workers;             // the devices that work, in the topology's order
};

// Whether two devices have room for copies of that size: a quarter of the smaller one.
bool copy_fits(const Topology& topology, DeviceIndex from, DeviceIndex to, std::size_t bytes);

// Without a buffer, for copies: the devices that work. kInvalidValue also where the smallest copy fits no pair.
Result<BenchPlan> make_copy_plan(const Topology& topology, const BenchSettings& settings,
                                 const std::vector<std::string>& devices);

// Limits every GPU to a third of the buffer, or to its own limit where that is less, and host memory to what is then
// missing to hold the buffer and a quarter more. So the buffer is at least three times larger than any GPU.
// `available_bytes` bounds the size that is chosen where none was asked for.
// Errors: kInvalidValue (a size too small for the blocks, or too large for the devices; an unknown device).
Result<BenchPlan> make_plan(const Topology& topology, const BenchSettings& settings,
                            const std::vector<std::string>& devices, std::uint64_t available_bytes);

}  // namespace vmem
