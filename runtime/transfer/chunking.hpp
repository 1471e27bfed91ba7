// How a transfer is cut: ranges into chunks of a size that keeps every hop of the route busy.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/transfer/transfer_engine.hpp"

namespace vmem {

// How large chunks are, and how many may be under way at once.
struct ChunkPlan {
  std::size_t chunk_bytes = 0;
  unsigned depth = 1;
};

// For a pipeline of `num_hops` hops over links of that rate. A chunk costs each hop a fixed time, and the pipeline
// fills and drains once by a chunk a hop; their sum is least where the chunk is the geometric mean of the whole and of
// what the link moves in that fixed time. REQUIRES: bytes > 0, largest_chunk is a power of two.
ChunkPlan plan_chunks(std::size_t bytes, std::size_t num_hops, double bytes_per_second, std::size_t largest_chunk);

// Walks over the bytes of some ranges, chunk by chunk.
class ChunkCursor {
 public:
  // REQUIRES: no range is empty.
  explicit ChunkCursor(std::vector<ByteRange> ranges) : ranges_(std::move(ranges)) {}

  bool is_done() const noexcept { return next_ == ranges_.size(); }
  // The next bytes, at most so many, in at most so many pieces. REQUIRES: !is_done(), both limits > 0.
  std::vector<ByteRange> take(std::size_t most_bytes, std::size_t most_pieces);

 private:
  std::vector<ByteRange> ranges_;
  std::size_t next_ = 0;    // the range that is being walked over
  std::size_t offset_ = 0;  // in it
};

}  // namespace vmem
