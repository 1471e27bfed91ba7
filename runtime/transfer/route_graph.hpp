// The oneTBB graph of one route: chunks meet lanes, then pass a node for each hop.
#pragma once

#include <memory>

#include "runtime/transfer/arena.hpp"
#include "runtime/transfer/hop.hpp"
#include "runtime/transfer/staging.hpp"
#include "runtime/transfer/transfer.hpp"
#include "runtime/transfer/transfer_path.hpp"

namespace vmem {

// STRUCTURE: chunks wait in one queue, lanes in another; a reserving join pairs them, so no more chunks are under way
// than there are lanes. Each hop is an async_node: its body hands the chunk to a device, whose completion puts the
// chunk into the next node. The last node gives the lane to the next chunk, or back to the ring when no chunk waits or
// another route does.
//
// CONCURRENCY: one mutex over the transfers and the counts; it is taken before the ring's. Device calls are made by the
// engine's threads only; completions hand over and return. No exception leaves a body: a graph that one has passed
// through can't be used again.
class RouteGraph final : public StagingRing::Waiter {
 public:
  RouteGraph(TransferPath path, const HopExecutor& hops, StagingRing& ring, TransferArena& arena);
  // REQUIRES: every transfer has ended.
  ~RouteGraph() override;
  RouteGraph(const RouteGraph&) = delete;
  RouteGraph& operator=(const RouteGraph&) = delete;

  const TransferPath& path() const noexcept;
  const LaneShape& lane_shape() const noexcept;
  // Takes the transfer; its end is told by its completion. May allocate and register staging memory.
  void submit(TransferPtr transfer);
  // More lanes may be had.
  void lane_available() override;

 private:
  struct Nodes;
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace vmem
