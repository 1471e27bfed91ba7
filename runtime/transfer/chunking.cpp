#include "runtime/transfer/chunking.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "runtime/support/bytes.hpp"

namespace vmem {
namespace {

// The fixed cost of a copy within a full queue. With 50 GB/s it gives the chunks that a sweep over sizes found best on
// a PCIe gen 5 link: 4 MiB of 64 MiB, 8 MiB of 1 GiB.
constexpr double kSecondsPerCopy = 5e-6;
constexpr std::size_t kSmallestChunk = 64_KiB;
constexpr unsigned kDepth = 6;

}  // namespace

ChunkPlan plan_chunks(std::size_t bytes, std::size_t num_hops, double bytes_per_second, std::size_t largest_chunk) {
  const double fixed_bytes = std::clamp(bytes_per_second * kSecondsPerCopy, 16.0 * 1024, 512.0 * 1024);
  const double best =
      std::sqrt(static_cast<double>(bytes) * fixed_bytes * static_cast<double>(std::max<std::size_t>(1, num_hops - 1)));
  std::size_t chunk = std::bit_ceil(static_cast<std::size_t>(best / 1.5) + 1);
  chunk = std::min(std::max(chunk, kSmallestChunk), largest_chunk);
  const std::size_t num_chunks = divide_up(bytes, chunk);
  return {chunk, static_cast<unsigned>(
                     std::min<std::size_t>(num_chunks, kDepth + num_hops - std::min<std::size_t>(num_hops, 2)))};
}

std::vector<ByteRange> ChunkCursor::take(std::size_t most_bytes, std::size_t most_pieces) {
  std::vector<ByteRange> pieces;
  std::size_t taken = 0;
  while (!is_done() && taken < most_bytes && pieces.size() < most_pieces) {
    const ByteRange& range = ranges_[next_];
    const std::size_t bytes = std::min(range.bytes - offset_, most_bytes - taken);
    pieces.push_back({range.offset + offset_, bytes});
    taken += bytes;
    offset_ += bytes;
    if (offset_ == range.bytes) {
      ++next_;
      offset_ = 0;
    }
  }
  return pieces;
}

}  // namespace vmem
