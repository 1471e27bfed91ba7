// Times single copies over direct links, for topology's measure_links.
#pragma once

#include <vmem/backend.hpp>
#include <vmem/topology.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

namespace vmem {

// Copies between a scratch allocation on either device, host memory registered where that is possible, as transfers do.
// Thread contract: one thread at a time.
class LinkMeter {
 public:
  LinkMeter(const std::vector<Device*>& devices, std::size_t scratch_bytes, std::chrono::milliseconds timeout);
  ~LinkMeter();
  LinkMeter(const LinkMeter&) = delete;
  LinkMeter& operator=(const LinkMeter&) = delete;

  // Seconds from enqueueing until the bytes are there. REQUIRES: bytes <= scratch_bytes.
  Result<double> copy(DeviceIndex from, DeviceIndex to, std::size_t bytes);

 private:
  struct Pair;

  Status open(DeviceIndex from, DeviceIndex to);
  Status fill(Device& device, void* address);
  void close() noexcept;
  Result<Event> enqueue(std::size_t bytes);

  const std::vector<Device*> devices_;
  const std::size_t scratch_bytes_;
  const std::chrono::milliseconds timeout_;
  std::unique_ptr<Pair> pair_;
};

}  // namespace vmem
