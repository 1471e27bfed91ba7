#include "runtime/residency/device_memory.hpp"

#include <exception>
#include <utility>

#include "runtime/support/bytes.hpp"
#include "runtime/support/check.hpp"

namespace vmem {
namespace {

// The window of the region on the store's device, reserved on first use.
Result<Window*> window_of(Region& region, DeviceIndex device, const FrameStore& store) {
  Window& window = region.windows()[device];
  if (!window) {
    VMEM_ASSIGN_OR_RETURN(window, Window::create(store.device(), align_up(region.bytes(), store.granularity())));
  }
  return &window;
}

}  // namespace

Result<FrameSpan*> DeviceMemory::make_span(Region& region, std::size_t first_block, std::size_t num_blocks,
                                           std::size_t bytes) {
  // Whatever needs memory comes before the frame is mapped.
  if (spans.size() == spans.capacity()) spans.reserve(2 * spans.size() + 8);
  auto span = std::make_unique<FrameSpan>();
  span->device = index;
  span->region = &region;
  span->first_block = first_block;
  span->num_blocks = num_blocks;
  const std::size_t offset = first_block * region.block_bytes();
  if (store->uses_windows()) {
    VMEM_CHECK(num_blocks == 1);
    VMEM_ASSIGN_OR_RETURN(Window * window, window_of(region, index, *store));
    VMEM_ASSIGN_OR_RETURN(span->frame, store->allocate(bytes));
    Status status;
    try {
      status = window->map(offset, span->frame);
    } catch (...) {  // out of memory
      store->free_to_reservation(std::move(span->frame));
      throw;
    }
    if (!status) {
      store->free_to_reservation(std::move(span->frame));
      return status;
    }
    span->address = window->at(offset);
  } else {
    VMEM_ASSIGN_OR_RETURN(span->frame, store->allocate(bytes));
    span->address = span->frame.address();
  }
  span->list_index = spans.size();
  spans.push_back(std::move(span));
  return spans.back().get();
}

bool DeviceMemory::unmap(const FrameSpan& span) {
  if (!store->uses_windows() || !span.mapped) return true;
  Window& window = span.region->windows()[index];
  const std::size_t offset = span.first_block * span.region->block_bytes();
  // A driver that refuses once gets a second chance.
  const auto unmapped = [&]() noexcept {
    try {
      return window.unmap(offset, span.frame.bytes()).is_ok();
    } catch (const std::exception&) {  // out of memory
      return false;
    }
  };
  return unmapped() || unmapped();
}

Status DeviceMemory::hide(FrameSpan& span) {
  if (!store->uses_windows() || !span.mapped) return {};
  VMEM_RETURN_IF_ERROR(
      span.region->windows()[index].unmap(span.first_block * span.region->block_bytes(), span.frame.bytes()));
  span.mapped = false;
  return {};
}

Status DeviceMemory::show(FrameSpan& span) {
  if (span.mapped) return {};
  VMEM_RETURN_IF_ERROR(span.region->windows()[index].map(span.first_block * span.region->block_bytes(), span.frame));
  span.mapped = true;
  return {};
}

std::size_t DeviceMemory::end_span(FrameSpan& span, bool reserve) {
  VMEM_CHECK(span.num_instances == 0);
  std::size_t reserved = 0;
  if (!unmap(span)) {
    // A driver that is gone, or a device that is lost: the memory must not be used for another block.
    store->quarantine(std::move(span.frame));
  } else if (reserve) {
    reserved = span.frame.bytes();
    store->free_to_reservation(std::move(span.frame));
  } else {
    span.frame.reset();
  }
  const std::size_t place = span.list_index;
  if (place + 1 != spans.size()) {
    std::swap(spans[place], spans.back());
    spans[place]->list_index = place;
  }
  spans.pop_back();
  return reserved;
}

}  // namespace vmem
