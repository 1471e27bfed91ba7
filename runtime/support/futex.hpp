// Linux's futex on a word of this process: what a lock sleeps on when it can't be had at once.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace vmem {

using FutexWord = std::atomic<std::uint32_t>;

// Sleeps while the word has the value, until it is woken or the deadline has passed: false only for the latter. It may
// come back for no reason.
bool futex_wait(const FutexWord& word, std::uint32_t value,
                std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max()) noexcept;
void futex_wake_one(const FutexWord& word) noexcept;
void futex_wake_all(const FutexWord& word) noexcept;

}  // namespace vmem
