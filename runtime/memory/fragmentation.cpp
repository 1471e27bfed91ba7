#include "runtime/memory/fragmentation.hpp"

namespace vmem {

FragmentationFigures measure_fragmentation(const ExtentAllocator& allocator, std::size_t asked_bytes,
                                           std::size_t peak_live_bytes) {
  FragmentationFigures figures;
  const std::size_t high_water = allocator.high_water();
  allocator.for_each([&](const Extent& extent, bool used) {
    if (used || extent.offset >= high_water) return;
    const std::size_t bytes = std::min(extent.end(), high_water) - extent.offset;
    figures.free_bytes += bytes;
    figures.largest_free_bytes = std::max(figures.largest_free_bytes, bytes);
    ++figures.num_free_extents;
  });
  figures.asked_bytes = asked_bytes;
  figures.reserved_bytes = allocator.used_bytes();
  figures.peak_reserved_bytes = high_water;
  figures.peak_live_bytes = peak_live_bytes;
  return figures;
}

}  // namespace vmem
