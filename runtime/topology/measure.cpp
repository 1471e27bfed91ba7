#include "runtime/topology/measure.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace vmem {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The median time of `count` copies, in seconds.
Result<double> time_copies(const LinkCopy& copy, const Link& link, std::size_t bytes, unsigned count) {
  std::vector<double> seconds;
  for (unsigned i = 0; i < std::max(count, 1U); ++i) {
    VMEM_ASSIGN_OR_RETURN(const double taken, copy(link.from, link.to, bytes));
    if (!std::isfinite(taken) || taken <= 0) {
      return Status(StatusCode::kInternal, "a copy took " + std::to_string(taken) + " seconds; expected more than 0");
    }
    seconds.push_back(taken);
  }
  return median(std::move(seconds));
}

Result<Link> measure_link(const Link& link, const LinkCopy& copy, const MeasureOptions& options) {
  if (options.warm_ups > 0) {
    VMEM_ASSIGN_OR_RETURN([[maybe_unused]] const double ignored,
                          time_copies(copy, link, options.large_bytes, options.warm_ups));
  }
  VMEM_ASSIGN_OR_RETURN(const double large, time_copies(copy, link, options.large_bytes, options.large_copies));
  VMEM_ASSIGN_OR_RETURN(const double small, time_copies(copy, link, options.small_bytes, options.small_copies));
  Link measured = link;
  measured.source = LinkSource::kMeasured;
  measured.latency = std::chrono::nanoseconds(std::llround(std::min(small, large) * 1e9));
  // A link whose small copies are no faster than its large ones tells nothing about its latency.
  const bool separable = large > small * 1.001 && options.large_bytes > options.small_bytes;
  if (!separable) measured.latency = std::chrono::nanoseconds(0);
  measured.bytes_per_second = static_cast<double>(options.large_bytes) / (separable ? large - small : large);
  return measured;
}

}  // namespace

LinkMeasurements measure_links(const Topology& topology, const LinkCopy& copy, const MeasureOptions& options) {
  LinkMeasurements measurements;
  for (const Link& link : topology.links()) {
    if (link.source == LinkSource::kFile) continue;
    auto measured = measure_link(link, copy, options);
    if (measured) {
      measurements.links.push_back(*measured);
      continue;
    }
    measurements.notes.push_back({topology.devices()[link.from].info.name,
                                  "its link to '" + topology.devices()[link.to].info.name +
                                      "' can't be measured and keeps its estimate: " + measured.error().to_string()});
  }
  return measurements;
}

Topology with_measurements(const Topology& topology, const LinkMeasurements& measurements) {
  std::vector<Link> links = topology.links();
  for (Link& link : links) {
    for (const Link& measured : measurements.links) {
      if (measured.from != link.from || measured.to != link.to || link.source == LinkSource::kFile) continue;
      link.bytes_per_second = measured.bytes_per_second;
      link.latency = measured.latency;
      link.source = LinkSource::kMeasured;
    }
  }
  std::vector<TopologyNote> notes = topology.notes();
  notes.insert(notes.end(), measurements.notes.begin(), measurements.notes.end());
  // Only to look links up in.
  const Topology measured(topology.devices(), links, {}, {}, {});
  std::vector<Route> routes = topology.forced_routes();
  for (Route& route : routes) {
    route.latency = {};
    for (std::size_t hop = 0; hop + 1 < route.devices.size(); ++hop) {
      const Link* link = measured.link(route.devices[hop], route.devices[hop + 1]);
      if (link == nullptr) continue;
      route.latency += link->latency;
      route.bytes_per_second =
          hop == 0 ? link->bytes_per_second : std::min(route.bytes_per_second, link->bytes_per_second);
    }
  }
  return Topology(topology.devices(), std::move(links), std::move(routes), std::move(notes),
                  topology.absent_backends());
}

}  // namespace vmem
