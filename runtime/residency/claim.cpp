#include "runtime/residency/claim.hpp"

#include <algorithm>

#include "runtime/residency/block.hpp"
#include "runtime/residency/region.hpp"
#include "runtime/support/bytes.hpp"

namespace vmem {
namespace {

// Splits the pages that a discarding write touches into those that it only partly covers: they are needed.
void set_needed(Piece& piece, std::size_t begin, std::size_t end, Access access) {
  piece.needed_head = piece.pages;
  piece.needed_tail = {piece.pages.end, piece.pages.end};
  if (access != Access::kWriteDiscard) return;
  // A page is covered wholly if the bytes that follow the range in it lie past the block's end.
  const bool head = begin % kPageBytes != 0;
  const bool tail = end % kPageBytes != 0 && end != piece.block->bytes();
  const std::uint32_t first = piece.pages.begin;
  const std::uint32_t last = piece.pages.end;
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
    Piece piece{};
    piece.block = &block;
    piece.pages = {static_cast<std::uint32_t>(begin / kPageBytes),
                   static_cast<std::uint32_t>(divide_up(begin + count, kPageBytes))};
    piece.writes = access != Access::kRead;
    set_needed(piece, begin, begin + count, access);
    pieces.push_back(piece);
    done += count;
  }
  ranges.push_back(
      {&region, offset, bytes, access, first_piece, static_cast<std::uint32_t>(pieces.size()) - first_piece});
}

}  // namespace vmem
