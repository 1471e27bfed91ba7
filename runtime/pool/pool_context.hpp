// What a runtime lends to each of its pools. All of it outlives them.
#pragma once

#include <vmem/backend.hpp>
#include <vmem/topology.hpp>

#include <vector>

namespace vmem {

class ForkMarker;
class Logger;
class TransferEngine;

struct PoolContext {
  Logger* log = nullptr;
  const Topology* topology = nullptr;
  std::vector<Device*> devices;  // in the order of topology->devices()
  TransferEngine* transfers = nullptr;
  // True in a child after fork: nothing of the pool may be touched or taken down there.
  const ForkMarker* fork = nullptr;
};

}  // namespace vmem
