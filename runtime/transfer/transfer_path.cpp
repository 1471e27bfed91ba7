#include "runtime/transfer/transfer_path.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "runtime/support/bytes.hpp"
#include "runtime/support/format.hpp"
#include "runtime/transfer/chunking.hpp"

namespace vmem {
namespace {

constexpr std::size_t kFewRanges = 16;
constexpr std::size_t kSmallRange = 64_KiB;

bool copies_straight(const Topology& topology, const HopExecutor& hops, DeviceIndex from, DeviceIndex to) {
  if (hops.is_host(from) || hops.is_host(to) || from == to) return true;
  const Link* link = topology.link(from, to);
  const Device& device = hops.device(from);
  return (link == nullptr || link->peer) && device.info().caps.has(DeviceCap::kPeerCopy) &&
         device.can_access_peer(hops.device(to));
}

// The host memory that both reach fastest; among equals the one on a NUMA node of theirs.
std::optional<DeviceIndex> nearest_host(const Topology& topology, const HopExecutor& hops, DeviceIndex from,
                                        DeviceIndex to) {
  std::optional<DeviceIndex> nearest;
  double best = -1;
  for (DeviceIndex host = 0; host < topology.devices().size(); ++host) {
    if (!hops.is_host(host)) continue;
    const Link* out = topology.link(from, host);
    const Link* in = topology.link(host, to);
    double rate = out != nullptr && in != nullptr ? std::min(out->bytes_per_second, in->bytes_per_second) : 0;
    const auto node = hops.device(host).info().numa_node;
    for (const DeviceIndex end : {from, to}) {
      if (node && hops.device(end).info().numa_node == node) rate += 1;
    }
    if (rate > best) {
      best = rate;
      nearest = host;
    }
  }
  return nearest;
}

Status check_endpoint(const Endpoint& endpoint, std::size_t num_devices, const char* which) {
  if (endpoint.device >= num_devices) {
    return Status(StatusCode::kInvalidValue,
                  format("{} device {} does not exist: there are {}", which, endpoint.device, num_devices));
  }
  if (endpoint.address == nullptr) {
    return Status(StatusCode::kInvalidValue, format("the {} address is null", which));
  }
  return Status();
}

}  // namespace

Result<TransferPath> plan_path(const Topology& topology, const HopExecutor& hops, const Route& route, bool packed) {
  const DeviceIndex from = route.devices.front();
  const DeviceIndex to = route.devices.back();
  TransferPath path;
  path.bytes_per_second = route.bytes_per_second;
  path.places.push_back(from);
  for (std::size_t i = 1; i < route.devices.size(); ++i) {
    const DeviceIndex next = route.devices[i];
    if (!copies_straight(topology, hops, path.places.back(), next)) {
      const auto host = nearest_host(topology, hops, path.places.back(), next);
      if (!host) {
        return Status(StatusCode::kNotFound,
                      format("no host memory to stage copies from '{}' to '{}' in",
                             hops.device(path.places.back()).info().name, hops.device(next).info().name));
      }
      path.places.push_back(*host);
    }
    path.places.push_back(next);
  }
  if (path.places.size() == 1) path.places.push_back(to);
  if (packed && path.num_hops() == 1 && hops.is_host(from) != hops.is_host(to)) {
    path.places.insert(path.places.begin() + 1, hops.is_host(from) ? from : to);
  }
  for (const DeviceIndex place : path.places) {
    const Tier tier = hops.device(place).info().tier;
    if (tier != Tier::kHost && tier != Tier::kDevice) {
      return Status(StatusCode::kUnsupported, "only device and host memory can be copied")
          .with_device(hops.device(place).info().name);
    }
  }
  return path;
}

std::vector<std::vector<ByteRange>> parts_of(const std::vector<ByteRange>& ranges, const std::vector<Route>& routes) {
  std::size_t bytes = 0;
  for (const ByteRange& range : ranges) bytes += range.bytes;
  std::vector<std::vector<ByteRange>> parts;
  ChunkCursor cursor(ranges);
  double share = 0;
  std::size_t cut = 0;
  for (std::size_t i = 0; i < routes.size(); ++i) {
    share += routes[i].share;
    const auto wanted = static_cast<std::size_t>(static_cast<double>(bytes) * std::clamp(share, 0.0, 1.0));
    const std::size_t end = i + 1 == routes.size() ? bytes : std::min(align_up(wanted, kPageBytes), bytes);
    parts.push_back(end > cut ? cursor.take(end - cut, SIZE_MAX) : std::vector<ByteRange>());
    cut = std::max(cut, end);
  }
  return parts;
}

Result<std::vector<ByteRange>> checked_ranges(const TransferRequest& request, std::size_t num_devices) {
  std::vector<ByteRange> ranges;
  ranges.reserve(request.ranges.size());
  std::size_t end = 0;
  for (const ByteRange& range : request.ranges) {
    if (range.bytes == 0) continue;
    const auto range_end = checked_add(range.offset, range.bytes);
    if (!range_end) {
      return Status(StatusCode::kInvalidValue,
                    format("a range of {} bytes at offset {} overflows", range.bytes, range.offset));
    }
    if (range.offset < end) {
      return Status(StatusCode::kInvalidValue,
                    format("the range at offset {} begins before the one before it ends, at {}: ranges are "
                           "disjoint and ascend",
                           range.offset, end));
    }
    if (!ranges.empty() && range.offset == end) {
      ranges.back().bytes += range.bytes;
    } else {
      ranges.push_back(range);
    }
    end = *range_end;
  }
  if (request.source.device >= num_devices || request.destination.device >= num_devices || !ranges.empty()) {
    VMEM_RETURN_IF_ERROR(check_endpoint(request.source, num_devices, "source"));
    VMEM_RETURN_IF_ERROR(check_endpoint(request.destination, num_devices, "destination"));
  }
  for (const Endpoint& endpoint : {request.source, request.destination}) {
    if (!checked_add(reinterpret_cast<std::uintptr_t>(endpoint.address), end)) {
      return Status(StatusCode::kInvalidValue, format("{} bytes from the address on overflow", end));
    }
  }
  if (request.source.device == request.destination.device && !ranges.empty()) {
    const auto source = reinterpret_cast<std::uintptr_t>(request.source.address);
    const auto destination = reinterpret_cast<std::uintptr_t>(request.destination.address);
    const auto distance = source < destination ? destination - source : source - destination;
    if (distance < end - ranges.front().offset) {
      return Status(StatusCode::kInvalidValue, "source and destination overlap");
    }
  }
  return ranges;
}

bool are_scattered(const std::vector<ByteRange>& ranges) {
  if (ranges.size() <= kFewRanges) return false;
  std::size_t bytes = 0;
  for (const ByteRange& range : ranges) bytes += range.bytes;
  return bytes / ranges.size() < kSmallRange;
}

}  // namespace vmem
