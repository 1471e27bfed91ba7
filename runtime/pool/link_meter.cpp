#include "runtime/pool/link_meter.hpp"

namespace vmem {

// What one pair needs; kept while the pair stays the same, so that only copies are timed.
struct LinkMeter::Pair {
  DeviceIndex from = 0;
  DeviceIndex to = 0;
  void* source = nullptr;
  void* destination = nullptr;
  Device* mover = nullptr;     // whose copy call and stream it is
  void* registered = nullptr;  // the side of it that is pinned for the mover
  Stream stream;
};

LinkMeter::LinkMeter(const std::vector<Device*>& devices, std::size_t scratch_bytes, std::chrono::milliseconds timeout)
    : devices_(devices), scratch_bytes_(scratch_bytes), timeout_(timeout) {}

LinkMeter::~LinkMeter() { close(); }

Result<double> LinkMeter::copy(DeviceIndex from, DeviceIndex to, std::size_t bytes) {
  if (!pair_ || pair_->from != from || pair_->to != to) {
    close();
    const Status opened = open(from, to);
    if (!opened) {
      close();
      return opened;
    }
  }
  const auto start = std::chrono::steady_clock::now();
  VMEM_ASSIGN_OR_RETURN(const Event event, enqueue(bytes));
  const Status status = event.wait(start + timeout_);
  if (!event.is_done()) {
    // The stream's end would wait for the copy, and the copy may still touch the memory: both are left to the device.
    pair_.reset();
  }
  VMEM_RETURN_IF_ERROR(status);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Status LinkMeter::open(DeviceIndex from, DeviceIndex to) {
  pair_ = std::make_unique<Pair>();
  pair_->from = from;
  pair_->to = to;
  Device& source = *devices_[from];
  Device& destination = *devices_[to];
  VMEM_ASSIGN_OR_RETURN(pair_->source, source.allocate(scratch_bytes_));
  VMEM_ASSIGN_OR_RETURN(pair_->destination, destination.allocate(scratch_bytes_));
  // Written before it is timed: host memory that nobody has touched has no pages yet.
  VMEM_RETURN_IF_ERROR(fill(source, pair_->source));
  VMEM_RETURN_IF_ERROR(fill(destination, pair_->destination));

  const bool to_host = destination.info().tier == Tier::kHost && source.info().tier != Tier::kHost;
  const bool from_host = source.info().tier == Tier::kHost;
  pair_->mover = from_host ? &destination : &source;
  VMEM_ASSIGN_OR_RETURN(pair_->stream, pair_->mover->create_stream());
  if ((from_host || to_host) && pair_->mover->info().caps.has(DeviceCap::kHostRegistration)) {
    void* const host = from_host ? pair_->source : pair_->destination;
    // A limit on pinned memory makes the copy pageable, which is then what transfers get, too.
    if (pair_->mover->register_host(host, scratch_bytes_)) pair_->registered = host;
  }
  return Status();
}

Status LinkMeter::fill(Device& device, void* address) {
  VMEM_ASSIGN_OR_RETURN(const Event event, device.fill(address, 0x5A, scratch_bytes_, Stream()));
  return event.wait(std::chrono::steady_clock::now() + timeout_);
}

Result<Event> LinkMeter::enqueue(std::size_t bytes) {
  if (devices_[pair_->from]->info().tier == Tier::kHost) {
    return pair_->mover->copy_from_host(pair_->destination, pair_->source, bytes, pair_->stream);
  }
  if (devices_[pair_->to]->info().tier == Tier::kHost) {
    return pair_->mover->copy_to_host(pair_->destination, pair_->source, bytes, pair_->stream);
  }
  return pair_->mover->copy_to_peer(*devices_[pair_->to], pair_->destination, pair_->source, bytes, pair_->stream);
}

void LinkMeter::close() noexcept {
  if (!pair_) return;
  // The stream first: its end waits for copies that were given up. What a lost device does not take back is gone with
  // it.
  if (pair_->stream.has_value()) (void)pair_->mover->destroy_stream(pair_->stream);
  if (pair_->registered != nullptr) (void)pair_->mover->unregister_host(pair_->registered);
  if (pair_->destination != nullptr) (void)devices_[pair_->to]->deallocate(pair_->destination);
  if (pair_->source != nullptr) (void)devices_[pair_->from]->deallocate(pair_->source);
  pair_.reset();
}

}  // namespace vmem
