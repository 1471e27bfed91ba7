// From a route of the topology to the places that bytes pass, and the checks of a request.
#pragma once

#include <vmem/status.hpp>
#include <vmem/topology.hpp>

#include <cstddef>
#include <vector>

#include "runtime/transfer/hop.hpp"
#include "runtime/transfer/transfer_engine.hpp"

namespace vmem {

// The places that bytes pass, both ends included; between two of them lies one hop. A place in between is a staging
// buffer there, which may be on the device of an end: pages are packed so.
struct TransferPath {
  std::vector<DeviceIndex> places;
  double bytes_per_second = 0;

  std::size_t num_hops() const noexcept { return places.size() - 1; }
};

// The places of a route, with host memory put between devices that can't copy to each other, and with `packed` a
// staging buffer beside a host end, so that scattered bytes cross the link in one piece.
Result<TransferPath> plan_path(const Topology& topology, const HopExecutor& hops, const Route& route, bool packed);

// The ranges cut into one part for each route, in order and by the routes' shares, at multiples of pages. Parts may be
// empty. REQUIRES: the shares add up to one.
std::vector<std::vector<ByteRange>> parts_of(const std::vector<ByteRange>& ranges, const std::vector<Route>& routes);

// The ranges without empty ones and with neighbours joined; kInvalidValue where they descend, overlap or overflow, or
// where source and destination overlap in one address space of copies.
Result<std::vector<ByteRange>> checked_ranges(const TransferRequest& request, std::size_t num_devices);

// Many ranges that are small: worth packing.
bool are_scattered(const std::vector<ByteRange>& ranges);

}  // namespace vmem
