// Links and forced routes between drafted devices.
#pragma once

#include <vmem/status.hpp>
#include <vmem/topology.hpp>

#include <vector>

#include "runtime/topology/device_draft.hpp"

namespace vmem {

// Sorted by from, then to.
Result<std::vector<Link>> draft_links(const AssembleInput& input, const std::vector<DeviceDraft>& devices,
                                      std::vector<TopologyNote>& notes);

Result<std::vector<Route>> draft_routes(const AssembleInput& input, const std::vector<DeviceDraft>& devices,
                                        const std::vector<Link>& links, std::vector<TopologyNote>& notes);

// Notes on pairs of GPUs whose bytes pass through host memory.
void note_missing_peers(const std::vector<DeviceDraft>& devices, const std::vector<Link>& links,
                        std::vector<TopologyNote>& notes);

}  // namespace vmem
