// Sees every granted access: what history and prediction are made from.
#pragma once

#include <vmem/topology.hpp>
#include <vmem/types.hpp>

#include <cstdint>

namespace vmem {

// Thread contract: called from every acquiring thread, under the block's mutex: it must be cheap and take no lock of
// the pool.
class AccessObserver {
 public:
  struct Event {
    PoolAddress address;  // of the first byte accessed in the block
    std::size_t bytes;
    DeviceIndex device;
    Access access;
    bool resident;  // the pages were there
  };

  virtual ~AccessObserver() = default;
  virtual void on_access(const Event& event) noexcept = 0;
};

}  // namespace vmem
