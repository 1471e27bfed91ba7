#include "runtime/residency/page_mask.hpp"

#include <algorithm>
#include <bit>

#include "runtime/support/check.hpp"

namespace vmem {
namespace {

// Bits [begin, end) of a word that starts at page `base`.
std::uint64_t bits_between(std::uint32_t base, PageRange range) noexcept {
  const std::uint32_t begin = std::max(range.begin, base) - base;
  const std::uint32_t end = std::min(range.end, base + 64) - base;
  if (begin >= end) return 0;
  const std::uint64_t below_end = end == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << end) - 1;
  return below_end & ~((std::uint64_t{1} << begin) - 1);
}

}  // namespace

PageMask PageMask::full(std::uint32_t num_pages) {
  PageMask mask(num_pages);
  mask.count_ = num_pages;
  return mask;
}

PageMask PageMask::of(std::uint32_t num_pages, PageRange range) {
  PageMask mask(num_pages);
  mask.set(range);
  return mask;
}

PageMask::PageMask(const PageMask& other) : num_pages_(other.num_pages_), count_(other.count_) {
  if (!other.words_) return;
  words_ = std::make_unique<std::uint64_t[]>(num_words());
  std::copy_n(other.words_.get(), num_words(), words_.get());
}

PageMask& PageMask::operator=(const PageMask& other) {
  if (this != &other) *this = PageMask(other);
  return *this;
}

std::uint64_t PageMask::used_bits(std::size_t index) const noexcept {
  return bits_between(static_cast<std::uint32_t>(index * 64), {0, num_pages_});
}

std::uint64_t PageMask::word(std::size_t index) const noexcept {
  if (words_) return words_[index];
  return count_ == 0 ? 0 : used_bits(index);
}

bool PageMask::test(std::uint32_t page) const noexcept { return (word(page / 64) >> (page % 64) & 1U) != 0; }

bool PageMask::covers(PageRange range) const noexcept {
  if (range.empty() || all()) return true;
  if (none()) return false;
  return next_out(range.begin) >= range.end;
}

bool PageMask::overlaps(PageRange range) const noexcept {
  if (range.empty() || none()) return false;
  if (all()) return true;
  return next_in(range.begin) < range.end;
}

bool PageMask::covers(const PageMask& other) const noexcept {
  if (other.none() || all()) return true;
  if (other.count_ > count_) return false;
  for (std::size_t i = 0; i < num_words(); ++i) {
    if ((other.word(i) & ~word(i)) != 0) return false;
  }
  return true;
}

void PageMask::set(PageRange range) {
  VMEM_CHECK(range.end <= num_pages_);
  if (range.empty() || all()) return;
  if (range.size() == num_pages_) {
    *this = full(num_pages_);
    return;
  }
  spread();
  for (std::size_t i = range.begin / 64; i * 64 < range.end; ++i) {
    const std::uint64_t bits = bits_between(static_cast<std::uint32_t>(i * 64), range);
    count_ += static_cast<std::uint32_t>(std::popcount(bits & ~words_[i]));
    words_[i] |= bits;
  }
  if (all()) words_.reset();
}

void PageMask::clear(PageRange range) {
  VMEM_CHECK(range.end <= num_pages_);
  if (range.empty() || none()) return;
  if (range.size() == num_pages_) {
    *this = PageMask(num_pages_);
    return;
  }
  spread();
  for (std::size_t i = range.begin / 64; i * 64 < range.end; ++i) {
    const std::uint64_t bits = bits_between(static_cast<std::uint32_t>(i * 64), range);
    count_ -= static_cast<std::uint32_t>(std::popcount(bits & words_[i]));
    words_[i] &= ~bits;
  }
  if (none()) words_.reset();
}

PageMask& PageMask::operator|=(const PageMask& other) {
  if (other.none() || all()) return *this;
  if (none() || other.all()) return *this = other;
  spread();
  for (std::size_t i = 0; i < num_words(); ++i) words_[i] |= other.word(i);
  collapse();
  return *this;
}

PageMask& PageMask::operator&=(const PageMask& other) {
  if (other.all() || none()) return *this;
  if (all() || other.none()) return *this = other;
  spread();
  for (std::size_t i = 0; i < num_words(); ++i) words_[i] &= other.word(i);
  collapse();
  return *this;
}

PageMask& PageMask::operator-=(const PageMask& other) {
  if (other.none() || none()) return *this;
  if (other.all()) return *this = PageMask(num_pages_);
  spread();
  for (std::size_t i = 0; i < num_words(); ++i) words_[i] &= ~other.word(i);
  collapse();
  return *this;
}

std::uint32_t PageMask::next_in(std::uint32_t page) const noexcept {
  if (page >= num_pages_ || none()) return num_pages_;
  if (all()) return page;
  std::size_t index = page / 64;
  std::uint64_t bits = words_[index] & (~std::uint64_t{0} << (page % 64));
  while (bits == 0) {
    if (++index == num_words()) return num_pages_;
    bits = words_[index];
  }
  return static_cast<std::uint32_t>(index * 64) + static_cast<std::uint32_t>(std::countr_zero(bits));
}

std::uint32_t PageMask::next_out(std::uint32_t page) const noexcept {
  if (page >= num_pages_ || all()) return num_pages_;
  if (none()) return page;
  std::size_t index = page / 64;
  std::uint64_t bits = ~words_[index] & (~std::uint64_t{0} << (page % 64));
  while (bits == 0) {
    if (++index == num_words()) return num_pages_;
    bits = ~words_[index];
  }
  // Bits beyond the last page are never set, so the answer may lie past it.
  return std::min(num_pages_,
                  static_cast<std::uint32_t>(index * 64) + static_cast<std::uint32_t>(std::countr_zero(bits)));
}

void PageMask::spread() {
  if (words_) return;
  auto words = std::make_unique<std::uint64_t[]>(num_words());
  for (std::size_t i = 0; i < num_words(); ++i) words[i] = word(i);
  words_ = std::move(words);
}

void PageMask::collapse() {
  count_ = 0;
  for (std::size_t i = 0; i < num_words(); ++i) count_ += static_cast<std::uint32_t>(std::popcount(words_[i]));
  if (none() || all()) words_.reset();
}

}  // namespace vmem
