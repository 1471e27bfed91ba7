// Ranges of addresses with memory behind them, by where they begin. They don't overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

namespace vmem {

// Not synchronised: its owner guards it.
class AddressRanges {
 public:
  void add(std::uint64_t begin, std::size_t bytes) { ranges_[begin] = bytes; }
  void remove(std::uint64_t begin) { ranges_.erase(begin); }

  // True if neighbouring ranges cover all of it. REQUIRES: begin + bytes does not overflow.
  bool covers(std::uint64_t begin, std::size_t bytes) const {
    const std::uint64_t end = begin + bytes;
    auto it = at_or_before(begin);
    for (std::uint64_t at = begin; at < end; ++it) {
      if (it == ranges_.end() || it->first > at || it->first + it->second <= at) return false;
      at = it->first + it->second;
    }
    return true;
  }

  // True if any byte of it is in a range. REQUIRES: bytes > 0, begin + bytes does not overflow.
  bool touches(std::uint64_t begin, std::size_t bytes) const {
    auto it = at_or_before(begin);
    if (it == ranges_.end()) return false;
    if (it->first + it->second <= begin) ++it;
    return it != ranges_.end() && it->first < begin + bytes;
  }

 private:
  // The last range that begins at or before `begin`, else the first.
  std::map<std::uint64_t, std::size_t>::const_iterator at_or_before(std::uint64_t begin) const {
    const auto after = ranges_.upper_bound(begin);
    return after == ranges_.begin() ? after : std::prev(after);
  }

  std::map<std::uint64_t, std::size_t> ranges_;
};

}  // namespace vmem
