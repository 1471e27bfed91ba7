// A growing array whose first N elements need no allocation: for the short lists of the hot path.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

#include "runtime/support/check.hpp"

namespace vmem {

// Elements are trivial, so that growth is a copy of bytes. Not copyable and not movable: it lives where it is made.
template <typename T, std::size_t N>
class InlineVector {
  static_assert(std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T>);

 public:
  InlineVector() noexcept = default;
  InlineVector(const InlineVector&) = delete;
  InlineVector& operator=(const InlineVector&) = delete;

  void push_back(const T& value) { append() = value; }
  // One more, to be written: its members have no value yet.
  T& append() {
    if (size_ == capacity_) grow();
    return data_[size_++];
  }
  // Order is not kept. REQUIRES: index < size().
  void erase_unordered(std::size_t index) noexcept {
    VMEM_CHECK(index < size_);
    data_[index] = data_[--size_];
  }
  void clear() noexcept { size_ = 0; }

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T& operator[](std::size_t index) noexcept { return data_[index]; }
  const T& operator[](std::size_t index) const noexcept { return data_[index]; }
  T* begin() noexcept { return data_; }
  T* end() noexcept { return data_ + size_; }
  const T* begin() const noexcept { return data_; }
  const T* end() const noexcept { return data_ + size_; }

 private:
  void grow() {
    const std::size_t capacity = capacity_ * 2;
    VMEM_CHECK(capacity > size_);
    auto larger = std::make_unique<T[]>(capacity);
    for (std::size_t i = 0; i < size_; ++i) larger[i] = data_[i];
    heap_ = std::move(larger);
    data_ = heap_.get();
    capacity_ = capacity;
  }

  T inline_[N];
  std::unique_ptr<T[]> heap_;
  T* data_ = inline_;
  std::size_t size_ = 0;
  std::size_t capacity_ = N;
};

}  // namespace vmem
