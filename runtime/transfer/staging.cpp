#include "runtime/transfer/staging.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "runtime/support/bytes.hpp"
#include "runtime/support/format.hpp"

namespace vmem {
namespace {

constexpr std::size_t kLargestBuffer = 8_MiB;
constexpr std::size_t kBuffersWithinLimit = 8;  // so many at least, or a chunk could not overlap the next

}  // namespace

StagingRing::StagingRing(std::vector<Device*> devices, std::size_t limit_bytes, HostRegistrations& registrations,
                         Logger& logger)
    : devices_(std::move(devices)),
      limit_bytes_(limit_bytes),
      buffer_bytes_(std::min(kLargestBuffer, std::bit_floor(limit_bytes / kBuffersWithinLimit))),
      registrations_(registrations),
      logger_(logger) {
  MutexLock lock(mutex_);
  idle_.resize(devices_.size());
}

StagingRing::~StagingRing() {
  MutexLock lock(mutex_);
  reclaim_ended();
  for (auto& idle : idle_) {
    for (StagingBuffer* buffer : idle) free_buffer(*buffer);
    idle.clear();
  }
}

Result<LanePtr> StagingRing::take(const LaneShape& shape, Waiter* waiter) {
  if (shape.places.empty()) return std::make_shared<Lane>();
  MutexLock lock(mutex_);
  auto lane = assemble(shape);
  // What others hold will come back; without others nobody can help.
  if (lane || num_taken_ == 0) return lane;
  if (waiter != nullptr && std::find(waiters_.begin(), waiters_.end(), waiter) == waiters_.end()) {
    waiters_.push_back(waiter);
    has_waiters_.store(true, std::memory_order_relaxed);
  }
  return Status(StatusCode::kBusy, "all staging memory is in use");
}

Result<LanePtr> StagingRing::take_now(const LaneShape& shape) {
  MutexLock lock(mutex_);
  reclaim_ended();
  // Half of the limit stays with those who wait for a lane and are told when one comes back.
  if (2 * lingering_.size() * buffer_bytes_ >= limit_bytes_) {
    return Status(StatusCode::kBusy, "much staging memory is in use");
  }
  return assemble(shape);
}

Result<LanePtr> StagingRing::assemble(const LaneShape& shape) {
  reclaim_ended();
  auto lane = std::make_shared<Lane>();
  lane->buffers.reserve(shape.places.size());
  lingering_.reserve(lingering_.size() + num_taken_ + 1);  // so that no lane fails to come back
  try {
    for (std::size_t i = 0; i < shape.places.size(); ++i) {
      auto buffer = obtain(shape.places[i]);
      if (!buffer) {
        put_back(*lane);
        return buffer.error();
      }
      lane->buffers.push_back(*buffer);
      for (const DeviceIndex user : shape.users[i]) register_with(**buffer, user);
    }
  } catch (...) {  // out of memory
    put_back(*lane);
    throw;
  }
  ++num_taken_;
  return lane;
}

bool StagingRing::has_room_at(DeviceIndex place) {
  MutexLock lock(mutex_);
  const bool has_one =
      std::any_of(buffers_.begin(), buffers_.end(), [place](const auto& buffer) { return buffer->place == place; });
  if (has_one) return true;
  auto buffer = obtain(place);
  if (!buffer) return false;
  idle_[place].push_back(*buffer);
  return true;
}

void StagingRing::give_back(const LanePtr& lane) {
  if (lane->buffers.empty()) return;
  std::vector<Waiter*> waiters;
  {
    MutexLock lock(mutex_);
    --num_taken_;
    if (lane->busy.load(std::memory_order_acquire) == 0) {
      put_back(*lane);
    } else {
      lingering_.push_back(lane);
    }
    reclaim_ended();
    waiters.swap(waiters_);
    has_waiters_.store(false, std::memory_order_relaxed);
  }
  for (Waiter* waiter : waiters) waiter->lane_available();
}

void StagingRing::put_back(Lane& lane) {
  for (StagingBuffer* buffer : lane.buffers) idle_[buffer->place].push_back(buffer);
  lane.buffers.clear();
}

void StagingRing::reclaim_ended() {
  std::erase_if(lingering_, [this](const LanePtr& lane) {
    mutex_.assert_held();
    if (lane->busy.load(std::memory_order_acquire) != 0) return false;
    put_back(*lane);
    return true;
  });
}

Result<StagingBuffer*> StagingRing::obtain(DeviceIndex place) {
  auto& idle = idle_[place];
  if (!idle.empty()) {
    StagingBuffer* buffer = idle.back();
    idle.pop_back();
    return buffer;
  }
  if (!make_room(place)) {
    return Status(StatusCode::kOutOfHostMemory,
                  format("no staging memory: {} of at most {} are in use, {} lanes by copies that have not ended",
                         format_bytes(allocated_bytes_), format_bytes(limit_bytes_), lingering_.size()));
  }
  return allocate(place);
}

bool StagingRing::make_room(DeviceIndex place) {
  const std::size_t needed = footprint(place);
  for (auto& idle : idle_) {
    while (allocated_bytes_ + needed > limit_bytes_ && !idle.empty()) {
      free_buffer(*idle.back());
      idle.pop_back();
    }
  }
  return allocated_bytes_ + needed <= limit_bytes_;
}

Result<StagingBuffer*> StagingRing::allocate(DeviceIndex place) {
  // With the memory in hand nothing fails any more, nor when a lane gives it back.
  auto buffer = std::make_unique<StagingBuffer>();
  buffers_.reserve(buffers_.size() + 1);
  idle_[place].reserve(buffers_.size() + 1);
  VMEM_ASSIGN_OR_RETURN(void* address, devices_[place]->allocate(buffer_bytes_));
  buffer->place = place;
  buffer->address = static_cast<std::byte*>(address);
  allocated_bytes_ += footprint(place);
  peak_bytes_ = std::max(peak_bytes_, allocated_bytes_);
  buffers_.push_back(std::move(buffer));
  return buffers_.back().get();
}

void StagingRing::register_with(const StagingBuffer& buffer, DeviceIndex user) {
  if (devices_[buffer.place]->info().tier == Tier::kHost) registrations_.add(buffer.address, buffer_bytes_, user);
}

void StagingRing::free_buffer(StagingBuffer& buffer) {
  registrations_.remove(buffer.address);
  if (const Status status = devices_[buffer.place]->deallocate(buffer.address); !status) {
    logger_.warn(format("a staging buffer could not be freed: {}", status.to_string()));
  }
  allocated_bytes_ -= footprint(buffer.place);
  std::erase_if(buffers_, [&](const auto& owned) { return owned.get() == &buffer; });
}

std::size_t StagingRing::footprint(DeviceIndex place) const {
  return align_up(buffer_bytes_, std::max<std::size_t>(1, devices_[place]->info().granularity));
}

std::size_t StagingRing::allocated_bytes() const {
  MutexLock lock(mutex_);
  return allocated_bytes_;
}

std::size_t StagingRing::peak_bytes() const {
  MutexLock lock(mutex_);
  return peak_bytes_;
}

std::size_t StagingRing::idle_buffers() const {
  MutexLock lock(mutex_);
  std::size_t count = 0;
  for (const auto& idle : idle_) count += idle.size();
  return count;
}

}  // namespace vmem
