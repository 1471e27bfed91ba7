// A set of a block's pages. Empty and full sets, which most are, take no memory beyond the object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace vmem {

// Pages [begin, end) of a block.
struct PageRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  std::uint32_t size() const noexcept { return end - begin; }
  bool empty() const noexcept { return begin >= end; }
  bool overlaps(PageRange other) const noexcept { return begin < other.end && other.begin < end; }
  bool contains(PageRange other) const noexcept { return begin <= other.begin && other.end <= end; }
  friend bool operator==(PageRange a, PageRange b) noexcept = default;
};

inline PageRange intersect(PageRange a, PageRange b) noexcept {
  const std::uint32_t begin = a.begin > b.begin ? a.begin : b.begin;
  const std::uint32_t end = a.end < b.end ? a.end : b.end;
  return begin < end ? PageRange{begin, end} : PageRange{begin, begin};
}

// Thread contract: none of its own. Sets that meet in an operation have the same number of pages; ranges lie inside.
class PageMask {
 public:
  PageMask() noexcept = default;
  // The empty set of a block with that many pages.
  explicit PageMask(std::uint32_t num_pages) noexcept : num_pages_(num_pages) {}
  static PageMask full(std::uint32_t num_pages);
  static PageMask of(std::uint32_t num_pages, PageRange range);
  PageMask(const PageMask& other);
  PageMask& operator=(const PageMask& other);
  PageMask(PageMask&&) noexcept = default;
  PageMask& operator=(PageMask&&) noexcept = default;

  std::uint32_t num_pages() const noexcept { return num_pages_; }
  std::uint32_t count() const noexcept { return count_; }
  bool none() const noexcept { return count_ == 0; }
  bool all() const noexcept { return count_ == num_pages_; }
  PageRange whole() const noexcept { return {0, num_pages_}; }

  bool test(std::uint32_t page) const noexcept;
  // Every page of the range is in the set; true for an empty range.
  bool covers(PageRange range) const noexcept;
  bool overlaps(PageRange range) const noexcept;
  // Every page of the other set is in this one.
  bool covers(const PageMask& other) const noexcept;

  void set(PageRange range);
  void clear(PageRange range);
  PageMask& operator|=(const PageMask& other);
  PageMask& operator&=(const PageMask& other);
  PageMask& operator-=(const PageMask& other);
  friend PageMask operator|(PageMask a, const PageMask& b) { return a |= b; }
  friend PageMask operator&(PageMask a, const PageMask& b) { return a &= b; }
  friend PageMask operator-(PageMask a, const PageMask& b) { return a -= b; }
  friend bool operator==(const PageMask& a, const PageMask& b) noexcept { return a.count_ == b.count_ && a.covers(b); }

  // Calls visit(PageRange) for each maximal run of pages in the set, ascending.
  template <typename Visit>
  void for_each_run(Visit visit) const {
    std::uint32_t page = next_in(0);
    while (page < num_pages_) {
      const std::uint32_t end = next_out(page);
      visit(PageRange{page, end});
      page = next_in(end);
    }
  }

  std::size_t heap_bytes() const noexcept { return words_ ? num_words() * sizeof(std::uint64_t) : 0; }

 private:
  std::size_t num_words() const noexcept { return (num_pages_ + 63U) / 64U; }
  std::uint64_t word(std::size_t index) const noexcept;
  std::uint64_t used_bits(std::size_t index) const noexcept;
  // First page at or after `page` that is in, or not in, the set; num_pages() if none.
  std::uint32_t next_in(std::uint32_t page) const noexcept;
  std::uint32_t next_out(std::uint32_t page) const noexcept;
  void spread();    // makes the words
  void collapse();  // counts, and drops the words of empty and full sets

  std::uint32_t num_pages_ = 0;
  std::uint32_t count_ = 0;
  std::unique_ptr<std::uint64_t[]> words_;  // null: all pages, or none, as count_ says
};

}  // namespace vmem
