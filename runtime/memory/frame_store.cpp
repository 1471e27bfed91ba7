#include "runtime/memory/frame_store.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "runtime/support/bytes.hpp"
#include "runtime/support/check.hpp"

namespace vmem {

// Memory that Device::allocate gave at once, cut into frames.
struct FrameSlab {
  void* address = nullptr;
  std::size_t bytes = 0;
  ExtentAllocator extents;
};

namespace {

constexpr std::size_t kBlocksInSlab = 4;

// False where a driver's call that gives memory back fails, in whatever way.
template <typename Call>
bool succeeds(Call call) noexcept {
  try {
    return call().is_ok();
  } catch (const std::exception&) {  // out of memory
    return false;
  }
}

// A driver that refuses once gets a second chance.
template <typename Call>
bool succeeds_at_last(Call call) noexcept {
  return succeeds(call) || succeeds(call);
}

bool is_out_of_memory(StatusCode code) noexcept {
  return code == StatusCode::kOutOfDeviceMemory || code == StatusCode::kOutOfHostMemory ||
         code == StatusCode::kOutOfStorage;
}

}  // namespace

Frame::Frame(Frame&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)),
      chunk_(std::exchange(other.chunk_, {})),
      address_(std::exchange(other.address_, nullptr)),
      slab_(std::exchange(other.slab_, nullptr)),
      extent_(std::exchange(other.extent_, {})),
      bytes_(std::exchange(other.bytes_, 0)),
      asked_(std::exchange(other.asked_, 0)) {}

Frame& Frame::operator=(Frame&& other) noexcept {
  if (this != &other) {
    reset();
    store_ = std::exchange(other.store_, nullptr);
    chunk_ = std::exchange(other.chunk_, {});
    address_ = std::exchange(other.address_, nullptr);
    slab_ = std::exchange(other.slab_, nullptr);
    extent_ = std::exchange(other.extent_, {});
    bytes_ = std::exchange(other.bytes_, 0);
    asked_ = std::exchange(other.asked_, 0);
  }
  return *this;
}

void Frame::reset() noexcept {
  if (store_ != nullptr) store_->take_back(*this, FrameStore::Then::kFree);
}

Result<std::unique_ptr<FrameStore>> FrameStore::create(Device& device, const Options& options) {
  const DeviceInfo& info = device.info();
  const auto invalid = [&info](const std::string& message) {
    return Status(StatusCode::kInvalidValue, message).with_device(info.name);
  };
  if (!is_power_of_two(info.granularity)) {
    return invalid("granularity " + std::to_string(info.granularity) + " reported, a power of two expected");
  }
  if (!is_power_of_two(options.block_bytes) || options.block_bytes < info.granularity) {
    return invalid("blocks of " + std::to_string(options.block_bytes) + " bytes asked, a power of two of at least " +
                   format_bytes(info.granularity) + " expected");
  }
  const std::size_t limit = align_down(options.limit_bytes, info.granularity);
  const auto spare = checked_align_up(options.spare_bytes, info.granularity);
  if (!spare || (*spare >= limit && *spare != 0)) {
    return invalid("a limit of " + format_bytes(options.limit_bytes) + " leaves nothing beside " +
                   format_bytes(options.spare_bytes) + " kept spare: raise the limit or use smaller blocks");
  }
  return std::unique_ptr<FrameStore>(new FrameStore(device, options));
}

FrameStore::FrameStore(Device& device, const Options& options)
    : device_(device),
      uses_windows_(device.info().caps.has(DeviceCap::kVirtualMemory)),
      granularity_(device.info().granularity),
      limit_(align_down(options.limit_bytes, granularity_)),
      spare_(align_up(options.spare_bytes, granularity_)),
      block_(options.block_bytes),
      cache_limit_(options.cache_bytes),
      strategy_(options.strategy),
      registrations_(device.info().tier == Tier::kHost ? options.registrations : nullptr) {
  figures_.limit_bytes = limit_;
  figures_.spare_bytes = spare_;
}

FrameStore::~FrameStore() {
  MutexLock lock(mutex_);
  VMEM_CHECK(figures_.num_frames == 0);
  // A driver that refuses once gets a second chance; one that is gone refuses for good, and took the memory with it.
  for (int attempt = 0; attempt < 2; ++attempt) {
    shrink(0);
    std::erase_if(quarantine_, [this](PinnedChunk& chunk) { return destroy(chunk); });
    // What is left holds quarantined frames.
    std::erase_if(slabs_, [this](const auto& slab) { return destroy(*slab); });
  }
}

StatusCode FrameStore::out_of_memory_code() const noexcept {
  switch (device_.info().tier) {
    case Tier::kHost:
      return StatusCode::kOutOfHostMemory;
    case Tier::kStorage:
      return StatusCode::kOutOfStorage;
    case Tier::kDevice:
    case Tier::kRemote:
      break;
  }
  return StatusCode::kOutOfDeviceMemory;
}

Status FrameStore::refused(std::size_t asked, std::size_t free_bytes, const std::string& what_to_do) const {
  return Status(out_of_memory_code(), format_bytes(asked) + " asked, " + format_bytes(free_bytes) + " free (limit " +
                                          format_bytes(limit_) + "): " + what_to_do)
      .with_device(device_.info().name);
}

Status FrameStore::refused_by_driver(const Status& status, std::size_t asked) {
  if (!is_out_of_memory(status.code())) return status.with_device(device_.info().name);
  const Result<MemoryInfo> memory = device_.memory_info();
  const std::size_t free_bytes = memory ? static_cast<std::size_t>(memory->free_bytes) : 0;
  return refused(asked, free_bytes, "the driver has no more, other programs may hold it: lower the limit or free some")
      .with_driver(status.driver_code(), std::string(status.driver_name()));
}

Result<std::size_t> FrameStore::frame_bytes(std::size_t bytes) const {
  if (bytes == 0) {
    return Status(StatusCode::kInvalidValue, "a frame of 0 bytes asked, at least 1 expected")
        .with_device(device_.info().name);
  }
  const auto rounded = checked_align_up(bytes, granularity_);
  if (!rounded) return refused(bytes, limit_, "no device is that large");
  return *rounded;
}

std::size_t FrameStore::available_locked(SpareUse spare) const {
  const std::size_t taken = figures_.used_bytes + figures_.reserved_bytes + (spare == SpareUse::kAllowed ? 0 : spare_);
  return limit_bytes() - std::min(taken, limit_bytes());
}

// The driver has no more than what the store holds.
void FrameStore::withhold() noexcept {
  MutexLock lock(mutex_);
  withheld_.store(limit_ - std::min(limit_, figures_.physical_bytes), std::memory_order_relaxed);
}

void FrameStore::look_for_withheld() noexcept {
  if (withheld_.load(std::memory_order_relaxed) == 0) return;
  std::size_t free_bytes = 0;
  const bool known = succeeds([&]() -> Status {
    VMEM_ASSIGN_OR_RETURN(const MemoryInfo memory, device_.memory_info());
    free_bytes = static_cast<std::size_t>(memory.free_bytes);
    return {};
  });
  if (!known) return;
  MutexLock lock(mutex_);
  const std::size_t room = limit_ - std::min(limit_, figures_.physical_bytes);
  withheld_.store(room - std::min(room, align_down(free_bytes, granularity_)), std::memory_order_relaxed);
}

std::size_t FrameStore::available_bytes(SpareUse spare) {
  look_for_withheld();
  MutexLock lock(mutex_);
  return available_locked(spare);
}

Status FrameStore::reserve(std::size_t bytes, SpareUse spare) {
  VMEM_ASSIGN_OR_RETURN(const std::size_t rounded, frame_bytes(bytes));
  MutexLock lock(mutex_);
  const std::size_t available = available_locked(spare);
  if (rounded > available) return refused(bytes, available, "free or release buffers, or raise the limit");
  figures_.reserved_bytes += rounded;
  return Status::ok();
}

void FrameStore::unreserve(std::size_t bytes) {
  const Result<std::size_t> rounded = frame_bytes(bytes);
  MutexLock lock(mutex_);
  VMEM_CHECK(rounded && *rounded <= figures_.reserved_bytes);
  figures_.reserved_bytes -= *rounded;
}

Result<Frame> FrameStore::allocate(std::size_t bytes) {
  VMEM_ASSIGN_OR_RETURN(const std::size_t rounded, frame_bytes(bytes));
  return uses_windows_ ? allocate_chunk(bytes, rounded) : allocate_extent(bytes, rounded);
}

// Room in the lists for every chunk that is out and one more, so that none fails to come back.
void FrameStore::reserve_for_return() {
  for (std::vector<PinnedChunk>* list : {&cache_, &quarantine_}) {
    const std::size_t needed = list->size() + figures_.num_frames + 1;
    if (list->capacity() < needed) list->reserve(std::max<std::size_t>(2 * needed, 16));
  }
}

void FrameStore::hand_out(Frame& frame, std::size_t asked, std::size_t bytes) noexcept {
  VMEM_CHECK(figures_.reserved_bytes >= bytes);
  frame.store_ = this;
  frame.bytes_ = bytes;
  frame.asked_ = asked;
  figures_.reserved_bytes -= bytes;
  figures_.used_bytes += bytes;
  figures_.asked_bytes += asked;
  figures_.peak_used_bytes = std::max(figures_.peak_used_bytes, figures_.used_bytes);
  peak_asked_ = std::max(peak_asked_, figures_.asked_bytes);
  ++figures_.num_frames;
}

Result<Frame> FrameStore::allocate_chunk(std::size_t asked, std::size_t bytes) {
  {
    MutexLock lock(mutex_);
    reserve_for_return();
    // The one that was dropped last is the likeliest to be in the hardware's caches.
    const auto same = std::find_if(cache_.rbegin(), cache_.rend(),
                                   [&](const PinnedChunk& pinned) { return pinned.chunk.bytes == bytes; });
    if (same != cache_.rend()) {
      Frame frame;
      frame.chunk_ = *same;
      cache_.erase(std::next(same).base());
      cached_ -= bytes;
      hand_out(frame, asked, bytes);
      return frame;
    }
    if (figures_.physical_bytes + bytes > limit_) {
      const std::size_t excess = figures_.physical_bytes + bytes - limit_;
      shrink(cached_ - std::min(cached_, excess));
    }
    if (figures_.physical_bytes + bytes > limit_) {
      return refused(asked, limit_ - figures_.physical_bytes, "the driver did not take dropped memory back");
    }
    // Counted before it is there, so that nobody else counts on it.
    figures_.physical_bytes += bytes;
  }
  Frame frame;
  try {
    VMEM_ASSIGN_OR_RETURN(frame, create_frame(asked, bytes));
  } catch (...) {  // out of memory
    uncount(bytes);
    throw;
  }
  return frame;
}

void FrameStore::uncount(std::size_t bytes) noexcept {
  MutexLock lock(mutex_);
  figures_.physical_bytes -= bytes;
}

// Where it can't be mapped a second time, its copies are pageable.
void FrameStore::pin(PinnedChunk& chunk) noexcept {
  if (registrations_ == nullptr) return;
  const std::size_t bytes = chunk.chunk.bytes;
  void* address = nullptr;
  const bool mapped = succeeds([&]() -> Status {
    VMEM_ASSIGN_OR_RETURN(address, device_.reserve_window(bytes));
    return device_.map(address, chunk.chunk);
  });
  if (!mapped) {
    if (address != nullptr) {
      static_cast<void>(succeeds_at_last([&] { return device_.release_window(address, bytes); }));
    }
    return;
  }
  chunk.pinned_address = address;
  registrations_->add_for_all(address, bytes);
}

// False where the driver did not take it back: then it is as it was, but no longer registered.
bool FrameStore::destroy(PinnedChunk& chunk) noexcept {
  if (chunk.pinned_address != nullptr) {
    registrations_->remove(chunk.pinned_address);
    if (!succeeds([&] { return device_.unmap(chunk.pinned_address, chunk.chunk.bytes); })) return false;
    static_cast<void>(
        succeeds_at_last([&] { return device_.release_window(chunk.pinned_address, chunk.chunk.bytes); }));
    chunk.pinned_address = nullptr;
  }
  return succeeds([&] { return device_.destroy_chunk(chunk.chunk); });
}

bool FrameStore::destroy(FrameSlab& slab) noexcept {
  if (registrations_ != nullptr) registrations_->remove(slab.address);
  return succeeds([&] { return device_.deallocate(slab.address); });
}

// A chunk that is counted; on an error it is no longer.
Result<Frame> FrameStore::create_frame(std::size_t asked, std::size_t bytes) {
  Result<Chunk> chunk = device_.create_chunk(bytes);
  if (!chunk && is_out_of_memory(chunk.error().code())) {
    bool shrunk = false;
    {
      MutexLock lock(mutex_);
      shrunk = shrink(0) != 0;
    }
    if (shrunk) chunk = device_.create_chunk(bytes);
  }
  if (!chunk) {
    Status refusal = refused_by_driver(chunk.error(), asked);
    uncount(bytes);
    if (is_out_of_memory(chunk.error().code())) withhold();
    return refusal;
  }
  PinnedChunk pinned{*chunk, nullptr};
  pin(pinned);
  MutexLock lock(mutex_);
  try {
    reserve_for_return();
  } catch (...) {  // out of memory
    static_cast<void>(destroy(pinned));
    throw;
  }
  figures_.peak_physical_bytes = std::max(figures_.peak_physical_bytes, figures_.physical_bytes);
  Frame frame;
  frame.chunk_ = pinned;
  hand_out(frame, asked, bytes);
  return frame;
}

Frame FrameStore::cut(FrameSlab& slab, std::size_t asked, std::size_t bytes) {
  const bool was_empty = slab.extents.num_used() == 0;
  const std::optional<Extent> extent = slab.extents.allocate(bytes);
  VMEM_CHECK(extent);
  if (was_empty) cached_ -= slab.bytes;
  Frame frame;
  frame.slab_ = &slab;
  frame.extent_ = *extent;
  frame.address_ = static_cast<std::byte*>(slab.address) + extent->offset;
  hand_out(frame, asked, bytes);
  return frame;
}

// The strategy holds over all slabs: the first in order of age, or the one whose free extent is smallest or largest.
std::optional<Frame> FrameStore::cut_from_slabs(std::size_t asked, std::size_t bytes) {
  FrameSlab* chosen = nullptr;
  std::size_t chosen_bytes = 0;
  for (const auto& slab : slabs_) {
    const std::optional<std::size_t> found = slab->extents.fit(bytes, granularity_);
    if (!found) continue;
    const bool better = strategy_ == FitStrategy::kBestFit ? *found < chosen_bytes : *found > chosen_bytes;
    if (chosen == nullptr || better) {
      chosen = slab.get();
      chosen_bytes = *found;
    }
    if (strategy_ == FitStrategy::kFirstFit) break;
  }
  if (chosen == nullptr) return std::nullopt;
  return cut(*chosen, asked, bytes);
}

Result<Frame> FrameStore::allocate_extent(std::size_t asked, std::size_t bytes) {
  {
    MutexLock lock(mutex_);
    if (auto frame = cut_from_slabs(asked, bytes)) return std::move(*frame);
  }
  MutexLock growing(grow_mutex_);
  return cut_from_new_slab(asked, bytes);
}

Result<Frame> FrameStore::cut_from_new_slab(std::size_t asked, std::size_t bytes) {
  std::size_t slab_bytes = 0;
  {
    MutexLock lock(mutex_);
    // Another may have made a slab while this one waited to.
    if (auto frame = cut_from_slabs(asked, bytes)) return std::move(*frame);
    if (limit_ - figures_.physical_bytes < bytes) shrink(0);
    const std::size_t room = limit_ - figures_.physical_bytes;
    if (room < bytes) {
      return refused(asked, limit_ - figures_.used_bytes,
                     "the free memory is in pieces that are too small: release buffers on this device");
    }
    slabs_.reserve(slabs_.size() + 1);
    slab_bytes = std::min(room, std::max(bytes, checked_multiply(block_, kBlocksInSlab).value_or(block_)));
    figures_.physical_bytes += slab_bytes;
  }
  // Taken out again whatever comes of it: a slab that is there is counted below.
  struct Counted {
    FrameStore& store;
    const std::size_t bytes;
    ~Counted() { store.uncount(bytes); }
  };
  auto slab = [&] {
    const Counted counted{*this, slab_bytes};
    return create_slab(slab_bytes, bytes);
  }();
  if (!slab) return refused_by_driver(slab.error(), asked);
  MutexLock lock(mutex_);
  slabs_.push_back(std::move(slab).value());
  FrameSlab& made = *slabs_.back();
  figures_.physical_bytes += made.bytes;
  figures_.peak_physical_bytes = std::max(figures_.peak_physical_bytes, figures_.physical_bytes);
  cached_ += made.bytes;  // it is empty until it is cut
  return cut(made, asked, bytes);
}

// A slab of `bytes`; where the driver has less, of half as many and so on, but at least `smallest`.
Result<std::unique_ptr<FrameSlab>> FrameStore::create_slab(std::size_t bytes, std::size_t smallest) {
  bool may_shrink = true;
  for (;;) {
    // Its books come first: with the memory in hand nothing can fail any more.
    auto extents = ExtentAllocator::create({bytes, granularity_, strategy_});
    VMEM_CHECK(extents);
    auto slab = std::make_unique<FrameSlab>(FrameSlab{nullptr, bytes, std::move(extents).value()});
    Result<void*> address = device_.allocate(bytes);
    if (address) {
      slab->address = *address;
      if (registrations_ != nullptr) registrations_->add_for_all(slab->address, bytes);
      return slab;
    }
    if (!is_out_of_memory(address.error().code())) return address.error();
    if (std::exchange(may_shrink, false)) {
      MutexLock lock(mutex_);
      if (shrink(0) != 0) continue;
    }
    if (bytes == smallest) return address.error();
    bytes = std::max(smallest, align_up(bytes / 2, granularity_));
  }
}

void FrameStore::take_back(Frame& frame, Then then) noexcept {
  MutexLock lock(mutex_);
  const std::size_t bytes = frame.bytes_;
  figures_.asked_bytes -= frame.asked_;
  --figures_.num_frames;
  frame.store_ = nullptr;
  if (then == Then::kQuarantine) {
    // Its extent stays allocated, so its slab never becomes empty.
    figures_.quarantined_bytes += bytes;
    if (uses_windows_) quarantine_.push_back(frame.chunk_);
  } else {
    figures_.used_bytes -= bytes;
    if (then == Then::kReserve) figures_.reserved_bytes += bytes;
    if (uses_windows_) {
      cache_.push_back(frame.chunk_);
      cached_ += bytes;
    } else {
      VMEM_CHECK(frame.slab_->extents.deallocate(frame.extent_));
      if (frame.slab_->extents.num_used() == 0) cached_ += frame.slab_->bytes;
    }
    shrink(cache_limit_);
  }
  frame = Frame();
}

void FrameStore::free_to_reservation(Frame frame) noexcept {
  VMEM_CHECK(frame.store_ == this);
  take_back(frame, Then::kReserve);
}

void FrameStore::quarantine(Frame frame) noexcept {
  VMEM_CHECK(frame.store_ == this);
  take_back(frame, Then::kQuarantine);
}

std::size_t FrameStore::trim() {
  MutexLock lock(mutex_);
  return shrink(0);
}

std::size_t FrameStore::shrink(std::size_t keep) {
  if (cached_ <= keep) return 0;
  const std::size_t before = cached_;
  if (uses_windows_) {
    std::erase_if(cache_, [&](PinnedChunk& chunk) VMEM_NO_THREAD_SAFETY_ANALYSIS {
      if (cached_ <= keep || !destroy(chunk)) return false;
      cached_ -= chunk.chunk.bytes;
      return true;
    });
  } else {
    std::erase_if(slabs_, [&](const std::unique_ptr<FrameSlab>& slab) VMEM_NO_THREAD_SAFETY_ANALYSIS {
      if (cached_ <= keep || slab->extents.num_used() != 0) return false;
      if (!destroy(*slab)) return false;
      cached_ -= slab->bytes;
      return true;
    });
  }
  figures_.physical_bytes -= before - cached_;
  return before - cached_;
}

std::size_t FrameStore::quarantined_bytes() const {
  MutexLock lock(mutex_);
  return figures_.quarantined_bytes;
}

FrameStore::Figures FrameStore::figures() const {
  MutexLock lock(mutex_);
  Figures figures = figures_;
  figures.num_slabs = slabs_.size();
  FragmentationFigures& fragmentation = figures.fragmentation;
  for (const auto& slab : slabs_) {
    fragmentation.free_bytes += slab->extents.free_bytes();
    fragmentation.largest_free_bytes = std::max(fragmentation.largest_free_bytes, slab->extents.largest_free());
    fragmentation.num_free_extents += slab->extents.num_free();
  }
  fragmentation.asked_bytes = figures.asked_bytes;
  fragmentation.reserved_bytes = figures.used_bytes - figures.quarantined_bytes;
  fragmentation.peak_reserved_bytes = figures.peak_physical_bytes;
  fragmentation.peak_live_bytes = peak_asked_;
  return figures;
}

}  // namespace vmem
