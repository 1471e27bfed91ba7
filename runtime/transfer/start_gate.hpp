// Holds a transfer back until the events that it comes after are done.
#pragma once

#include <vmem/event.hpp>
#include <vmem/status.hpp>

#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/support/thread_annotations.hpp"
#include "runtime/transfer/arena.hpp"
#include "runtime/transfer/route_graph.hpp"
#include "runtime/transfer/transfer.hpp"

namespace vmem {

// Thread contract: every member may be called from any thread. The transfer is submitted, failed or cancelled once.
class StartGate : public std::enable_shared_from_this<StartGate> {
 public:
  StartGate(RouteGraph& route, TransferPtr transfer, std::shared_ptr<ArenaDoor> door)
      : route_(route), door_(std::move(door)), transfer_(std::move(transfer)) {}

  // Lets the transfer go when all are done, and fails it with the first error. REQUIRES: called once.
  void wait_for(const std::vector<Event>& events);
  // Fails a transfer that has not gone yet.
  void cancel(const Status& status);

 private:
  void arrive(const Status& status);

  RouteGraph& route_;
  const std::shared_ptr<ArenaDoor> door_;  // shared with the engine, which closes it
  Mutex mutex_;
  TransferPtr transfer_ VMEM_GUARDED_BY(mutex_);  // null once it has gone
  std::size_t pending_ VMEM_GUARDED_BY(mutex_) = 0;
};

}  // namespace vmem
