#include "runtime/residency/claim.hpp"

#include <algorithm>

#include "runtime/residency/block.hpp"
#include "runtime/residency/region.hpp"
#include "runtime/support/bytes.hpp"

namespace vmem {
namespace {

// Splits the pages that a discarding write touches into those that it only partly covers: they are needed.
void set_needed(Piece& piece, PageRange pages, std::size_t begin, std::size_t end, Access access) {
  piece.needed_head = pages;
  piece.needed_tail = {pages.end, pages.end};
  if (access != Access::kWriteDiscard) return;
  // A page is covered wholly if the bytes that follow the range in it lie past the block's end.
  const bool head = begin % kPageBytes != 0;
  const bool tail = end % kPageBytes != 0 && end != piece.block->bytes();
  const auto [first, last] = pages;
  piece.needed_head = {first, head ? first + 1 : first};
  piece.needed_tail = {tail ? last - 1 : last, last};
  if (head && tail && last - first == 1) piece.needed_tail = {last, last};
}

}  // namespace

void Claim::add(Region& region, std::size_t offset, std::size_t bytes, Access access) {
  const auto first_piece = static_cast<std::uint32_t>(pieces.size());
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t index = region.block_index(offset + done);
    const std::size_t begin = offset + done - index * region.block_bytes();
    Block& block = region.block(index);
    const std::size_t count = std::min(bytes - done, block.bytes() - begin);
    const PageRange pages{static_cast<std::uint32_t>(begin / kPageBytes),
                          static_cast<std::uint32_t>(divide_up(begin + count, kPageBytes))};
    // Written in place: the processor holds up a copy of what was just written in smaller parts.
    Piece& piece = pieces.append();
    piece.block = &block;
    piece.pages = pages;
    piece.base = nullptr;
    piece.writes = access != Access::kRead;
    piece.held = piece.pinned = piece.resident = false;
    set_needed(piece, pages, begin, begin + count, access);
    done += count;
  }
  ClaimRange& range = ranges.append();
  range.region = &region;
  range.offset = offset;
  range.bytes = bytes;
  range.access = access;
  range.first_piece = first_piece;
  range.num_pieces = static_cast<std::uint32_t>(pieces.size()) - first_piece;
}

}  // namespace vmem
