#include "runtime/topology/assemble.hpp"

#include <utility>

#include "runtime/topology/device_draft.hpp"
#include "runtime/topology/link_draft.hpp"

namespace vmem {

Result<AssembledTopology> assemble_topology(const AssembleInput& input) {
  // The devices first: links and routes in the file mean the corrected ones, parts of split cards included.
  std::vector<TopologyNote> notes;
  VMEM_ASSIGN_OR_RETURN(const std::vector<DeviceDraft> drafts, draft_devices(input, notes));
  VMEM_ASSIGN_OR_RETURN(std::vector<Link> links, draft_links(input, drafts, notes));
  VMEM_ASSIGN_OR_RETURN(std::vector<Route> routes, draft_routes(input, drafts, links, notes));
  note_missing_peers(drafts, links, notes);
  AssembledTopology assembled;
  std::vector<TopologyDevice> devices;
  for (const DeviceDraft& draft : drafts) {
    devices.push_back(draft.device);
    assembled.backing.push_back(draft.backing);
  }
  assembled.topology =
      Topology(std::move(devices), std::move(links), std::move(routes), std::move(notes), input.absent);
  return assembled;
}

}  // namespace vmem
