// What an acquire asks for, cut into blocks: the residency's side of a granted list.
#pragma once

#include <vmem/event.hpp>
#include <vmem/topology.hpp>
#include <vmem/types.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/residency/page_mask.hpp"
#include "runtime/support/inline_vector.hpp"

namespace vmem {

class Block;
class Region;

// A range of one region, as asked for.
struct ClaimRange {
  Region* region;
  std::size_t offset;  // in the region, bytes
  std::size_t bytes;
  Access access;
  std::uint32_t first_piece;  // its pieces are consecutive
  std::uint32_t num_pieces;
};

// The part of a range that lies in one block.
struct Piece {
  Block* block;
  PageRange pages;
  PageRange needed_head;  // of `pages`, what must be fetched: all for reads and writes, the partly covered ends for a
  PageRange needed_tail;  // discarding write
  void* base;             // the block's address on the claim's device, once it is there
  bool writes;
  bool held;      // its hold is registered in the block
  bool pinned;    // its instance counts it
  bool resident;  // nothing to do for it when the hold was made
};

struct Claim {
  DeviceIndex device = 0;
  Stream stream;
  InlineVector<ClaimRange, 2> ranges;  // in the order of addresses
  InlineVector<Piece, 2> pieces;       // likewise
  bool resident = false;               // all pieces were
  bool refetches = false;              // it is not refused where a fetch has failed before: it fetches the pages again
  std::vector<Event> waits;            // work released on streams, and copies of bytes it discards, that it comes after
  std::vector<Event> arrivals;         // copies of what it needs that were under way when the claim was granted

  // Cuts the range into pieces. REQUIRES: ranges are added in the order of addresses. Makes blocks; may throw
  // bad_alloc.
  void add(Region& region, std::size_t offset, std::size_t bytes, Access access);
};

}  // namespace vmem
