/// The machine as vmem sees it: devices, the links between them, and the routes that bytes take.
///
/// Found by hwloc and the drivers, corrected by a JSON file (tools/topologies/README.md and topology.schema.json), and
/// measured on request.
///
/// Thread contract: a Topology is immutable once a Runtime has it; its members may be called from any thread.
#pragma once

#include <vmem/export.h>
#include <vmem/device_info.hpp>
#include <vmem/status.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vmem {

/// A device's place in `Topology::devices()`.
using DeviceIndex = std::size_t;

/// Where a link's figures come from, the strongest last.
enum class LinkSource : std::uint8_t { kAssumed, kAdvertised, kMeasured, kFile };

/// One direction of a connection that one copy call can use: host to GPU, GPU to host, GPU to peer, host to host.
struct Link {
  DeviceIndex from = 0;
  DeviceIndex to = 0;
  bool peer = false;                   ///< device to device without host memory between
  double bytes_per_second = 0;         ///< for large copies
  std::chrono::nanoseconds latency{};  ///< of the smallest copy, its wait included
  LinkSource source = LinkSource::kAssumed;
};

/// A way for bytes from one device to another: the devices passed, both ends included. One entry: a copy within the
/// device, whose rate is not a link's: 0.
struct Route {
  std::vector<DeviceIndex> devices;
  double bytes_per_second = 0;         ///< of the slowest link: hops are pipelined
  std::chrono::nanoseconds latency{};  ///< of all links together
  double share = 1.0;                  ///< of the bytes, where several routes are used at once
  bool forced = false;                 ///< named by the topology file
};

/// What surprises about the machine: a narrow slot, no peer path, memory that can't be pinned.
struct TopologyNote {
  std::string device;  ///< empty: the machine
  std::string text;    ///< what was found, what was expected, what to do
};

/// A device with what the topology file and hwloc add to the backend's information.
struct TopologyDevice {
  DeviceInfo info;                     ///< corrected by the file
  std::uint64_t limit_bytes = 0;       ///< the most the pool may use of it; at most info.total_bytes
  std::string card;                    ///< devices with the same card share its capacity and its link
  std::optional<unsigned> link_width;  ///< PCIe lanes in use
  std::optional<unsigned> link_width_max;
  std::optional<double> link_gts;  ///< giga-transfers per second a lane, as last read (idle cards report less)
};

/// A backend that can't be used, and why.
struct AbsentBackend {
  std::string name;
  std::string reason;
};

class VMEM_API Topology {
 public:
  Topology() = default;
  /// REQUIRES: every index of a link or route is a device's; no two links have the same ends in the same order.
  Topology(std::vector<TopologyDevice> devices, std::vector<Link> links, std::vector<Route> forced_routes,
           std::vector<TopologyNote> notes, std::vector<AbsentBackend> absent);

  const std::vector<TopologyDevice>& devices() const noexcept { return devices_; }
  /// Direct links only; at most one for each ordered pair.
  const std::vector<Link>& links() const noexcept { return links_; }
  /// What the topology file forces: `route` answers with these for their ends.
  const std::vector<Route>& forced_routes() const noexcept { return forced_routes_; }
  const std::vector<TopologyNote>& notes() const noexcept { return notes_; }
  const std::vector<AbsentBackend>& absent_backends() const noexcept { return absent_; }

  /// The index of a device by its name; kNotFound names the devices there are.
  Result<DeviceIndex> find(std::string_view name) const;
  /// The direct link, if there is one.
  const Link* link(DeviceIndex from, DeviceIndex to) const noexcept;
  /// The route of least cost for that many bytes over simple paths of up to three links: latency plus bytes over
  /// bandwidth. Of equal costs the one with fewer links wins, then the one through devices of lower index. Passes
  /// through GPUs and host memory alone. kNotFound where the file hid every way; kInvalidValue for an index that is no
  /// device's.
  Result<Route> route(DeviceIndex from, DeviceIndex to, std::size_t bytes) const;
  /// The best of them, and those that shorten the time where they carry a part of the bytes beside it: routes that pass
  /// through no link twice (a card's slot is one link, for host memory and for slow peers). Their `share`s are such
  /// that all end at once. Errors as `route`; a forced route is alone.
  Result<std::vector<Route>> routes(DeviceIndex from, DeviceIndex to, std::size_t bytes) const;
  /// Seconds that a route needs for that many bytes.
  static double cost_seconds(const Route& route, std::size_t bytes) noexcept;

  /// The whole of it as JSON text, keys in a fixed order (tools/topologies/README.md has the form). `memory` is by
  /// device index and may be shorter; an entry with total_bytes 0 is left out.
  std::string to_json(const std::vector<MemoryInfo>& memory = {}) const;

 private:
  // All ways over up to three links.
  std::vector<Route> simple_routes(DeviceIndex from, DeviceIndex to) const;

  std::vector<TopologyDevice> devices_;
  std::vector<Link> links_;
  std::vector<std::size_t> link_of_pair_;  // index into links_ by from * devices + to; kNoLink where there is none
  std::vector<Route> forced_routes_;
  std::vector<TopologyNote> notes_;
  std::vector<AbsentBackend> absent_;
};

}  // namespace vmem
