#include "tools/bench/settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <vmem/types.hpp>

#include <algorithm>
#include <bit>

#include "runtime/support/bytes.hpp"

namespace vmem {
namespace {

constexpr std::size_t kQuickBytes = 96_MiB;
constexpr std::size_t kLargestDefaultBytes = 3_GiB;
constexpr std::size_t kParts = 3;              // how much larger than a GPU's share the buffer is
constexpr std::size_t kDeviceBlocks = 32;      // that a share should hold
constexpr std::size_t kLeastDeviceBlocks = 4;  // that a list of ranges and its successors need
constexpr std::size_t kLargestCopy = 64_GiB;
constexpr std::size_t kMostOfCopies = 4_GiB;
constexpr std::size_t kMostOfQuickCopies = 16_MiB;
constexpr unsigned kSamples = 7;
constexpr unsigned kQuickSamples = 3;

Status invalid(std::string message) { return Status(StatusCode::kInvalidValue, std::move(message)); }

std::size_t choose_buffer_bytes(const BenchSettings& settings, std::uint64_t available_bytes) {
  if (settings.buffer_bytes) return *settings.buffer_bytes;
  // The plain run, the pool, and what simulated devices keep besides: six times leaves the machine usable.
  const std::size_t room = std::max<std::size_t>(available_bytes / 6, 64_MiB);
  return std::min(settings.quick ? kQuickBytes : kLargestDefaultBytes, room);
}

// A power of two between the granularity of all devices and the default.
std::size_t choose_block_bytes(const Topology& topology, std::size_t buffer_bytes) {
  std::size_t granularity = 64_KiB;
  for (const TopologyDevice& device : topology.devices()) granularity = std::max(granularity, device.info.granularity);
  const std::size_t wanted = std::bit_floor(std::max<std::size_t>(buffer_bytes / kParts / kDeviceBlocks, 1));
  return std::clamp(wanted, granularity, std::max(granularity, kDefaultBlockBytes));
}

Result<std::vector<DeviceIndex>> find_workers(const Topology& topology, const std::vector<std::string>& names) {
  std::vector<DeviceIndex> workers;
  for (DeviceIndex i = 0; i < topology.devices().size(); ++i) {
    const DeviceInfo& info = topology.devices()[i].info;
    const bool wanted = names.empty() || std::find(names.begin(), names.end(), info.name) != names.end();
    if (wanted && (info.tier == Tier::kDevice || info.tier == Tier::kHost)) workers.push_back(i);
  }
  for (const std::string& name : names) {
    if (auto found = topology.find(name); !found) return found.error();
  }
  if (workers.empty()) return invalid("no device can work: the topology has neither a GPU nor host memory");
  return workers;
}

// What GPUs may take; returns how much of the whole is still to be held.
std::uint64_t limit_gpus(const Topology& topology, BenchPlan& plan, std::uint64_t missing) {
  const std::uint64_t share = align_up(plan.buffer_bytes / kParts, plan.block_bytes);
  for (const TopologyDevice& device : topology.devices()) {
    if (device.info.tier == Tier::kHost) continue;
    const std::uint64_t limit = std::min<std::uint64_t>(share, device.limit_bytes);
    plan.limits[device.info.name] = limit;
    missing -= std::min(missing, limit);
  }
  return missing;
}

std::uint64_t limit_host(const Topology& topology, BenchPlan& plan, std::uint64_t missing) {
  const std::uint64_t share = align_up(plan.buffer_bytes / kParts, plan.block_bytes);
  for (const TopologyDevice& device : topology.devices()) {
    if (device.info.tier != Tier::kHost) continue;
    const std::uint64_t wanted = align_up(std::max(missing, share), plan.block_bytes);
    const std::uint64_t limit = std::min<std::uint64_t>(wanted, device.limit_bytes);
    plan.limits[device.info.name] = limit;
    missing -= std::min(missing, limit);
  }
  return missing;
}

Status parse_copy_sizes(const BenchOptions& options, BenchSettings& settings) {
  if (!options.size.empty() || !options.patterns.empty()) {
    return invalid("--size and --pattern are options of 'vmem bench'; 'vmem bench copy' takes --least and --most");
  }
  const auto parse = [](const char* option, const std::string& text, std::size_t& bytes) -> Status {
    auto parsed = parse_bytes(text);
    if (!parsed) return invalid(fmt::format("{}: {}", option, parsed.error().message()));
    if (*parsed < kPageBytes || *parsed > kLargestCopy || !is_power_of_two(*parsed)) {
      return invalid(fmt::format("{}: {} given, a power of two from {} to {} expected", option, text,
                                 format_bytes(kPageBytes), format_bytes(kLargestCopy)));
    }
    bytes = *parsed;
    return {};
  };
  VMEM_RETURN_IF_ERROR(parse("--least", options.least_copy, settings.least_copy_bytes));
  settings.most_copy_bytes = std::max(settings.quick ? kMostOfQuickCopies : kMostOfCopies, settings.least_copy_bytes);
  if (!options.most_copy.empty()) {
    VMEM_RETURN_IF_ERROR(parse("--most", options.most_copy, settings.most_copy_bytes));
  }
  if (settings.least_copy_bytes <= settings.most_copy_bytes) return {};
  return invalid(fmt::format("--least {} is more than --most {}", format_bytes(settings.least_copy_bytes),
                             format_bytes(settings.most_copy_bytes)));
}

}  // namespace

const std::vector<std::string_view>& bench_patterns() {
  static const std::vector<std::string_view> kPatterns = {"copy",      "sequential", "strided", "random",  "mixed",
                                                          "iterating", "triad",      "matmul",  "stencil", "sparse"};
  return kPatterns;
}

Result<BenchSettings> parse_settings(const BenchOptions& options) {
  BenchSettings settings;
  settings.seed = options.seed;
  settings.quick = options.quick;
  settings.samples = options.samples.value_or(options.quick ? kQuickSamples : kSamples);
  if (settings.samples == 0) return invalid("--samples 0: at least one timed round is needed");
  if (!options.size.empty()) {
    auto bytes = parse_bytes(options.size);
    if (!bytes) return invalid(fmt::format("--size: {}", bytes.error().message()));
    settings.buffer_bytes = *bytes;
  }
  if (options.copies) VMEM_RETURN_IF_ERROR(parse_copy_sizes(options, settings));
  const auto& known = bench_patterns();
  for (const std::string& name : options.patterns) {
    const auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end())
      return invalid(fmt::format("--pattern {}: expected one of {}", name, fmt::join(known, ", ")));
    settings.patterns.insert(*found);
  }
  if (options.patterns.empty()) settings.patterns.insert(known.begin(), known.end());
  return settings;
}

bool copy_fits(const Topology& topology, DeviceIndex from, DeviceIndex to, std::size_t bytes) {
  const auto& devices = topology.devices();
  return bytes <= std::min(devices[from].info.total_bytes, devices[to].info.total_bytes) / 4;
}

Result<BenchPlan> make_copy_plan(const Topology& topology, const BenchSettings& settings,
                                 const std::vector<std::string>& devices) {
  BenchPlan plan;
  VMEM_ASSIGN_OR_RETURN(plan.workers, find_workers(topology, devices));
  plan.block_bytes = kDefaultBlockBytes;
  for (const DeviceIndex from : plan.workers) {
    for (const DeviceIndex to : plan.workers) {
      if (from != to && copy_fits(topology, from, to, settings.least_copy_bytes)) return plan;
    }
  }
  return invalid(fmt::format("nothing to copy: two devices are needed, and {} must be at most a quarter of both",
                             format_bytes(settings.least_copy_bytes)));
}

Result<BenchPlan> make_plan(const Topology& topology, const BenchSettings& settings,
                            const std::vector<std::string>& devices, std::uint64_t available_bytes) {
  BenchPlan plan;
  VMEM_ASSIGN_OR_RETURN(plan.workers, find_workers(topology, devices));
  const std::size_t asked = choose_buffer_bytes(settings, available_bytes);
  plan.block_bytes = choose_block_bytes(topology, asked);
  if (asked < kParts * kLeastDeviceBlocks * plan.block_bytes) {
    return invalid(fmt::format("--size: {} is too small: blocks have {}, and {} of them are the least",
                               format_bytes(asked), format_bytes(plan.block_bytes), kParts * kLeastDeviceBlocks));
  }
  const auto rounded = checked_align_up(asked, plan.block_bytes);
  // Half as much again: each device keeps a block spare, and while a range is written its bytes from before are kept.
  const auto whole = rounded ? checked_add(*rounded, *rounded / 2) : std::nullopt;
  if (!whole) return invalid(fmt::format("--size: {} is more than can be addressed", format_bytes(asked)));
  plan.buffer_bytes = *rounded;
  const std::uint64_t missing = limit_host(topology, plan, limit_gpus(topology, plan, *whole));
  if (missing > 0) {
    return invalid(
        fmt::format("--size: {} needs {} over all devices, {} more than they may give to the pool; use a smaller size",
                    format_bytes(plan.buffer_bytes), format_bytes(*whole), format_bytes(missing)));
  }
  return plan;
}

}  // namespace vmem
