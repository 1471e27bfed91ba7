// Physical memory of one block on one device.
//
// Thread contract: a Frame is its holder's alone.
#pragma once

#include <vmem/backend.hpp>

#include <cstddef>

#include "runtime/memory/extent_allocator.hpp"

namespace vmem {

class FrameStore;
struct FrameSlab;

// A chunk for windows, and the address that it has beside them for its whole life, where devices have it registered:
// null where it has none (on devices, and where no device registers memory).
struct PinnedChunk {
  Chunk chunk;
  void* pinned_address = nullptr;
};

// Physical memory of one block, given back to its store when dropped. Moves, never copies. REQUIRES, when it is
// dropped: it is mapped nowhere, work on it is done, and its store is alive.
class Frame {
 public:
  Frame() noexcept = default;
  ~Frame() { reset(); }
  Frame(Frame&& other) noexcept;
  Frame& operator=(Frame&& other) noexcept;
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  explicit operator bool() const noexcept { return store_ != nullptr; }
  // What was asked for.
  std::size_t asked_bytes() const noexcept { return asked_; }
  // What is there: asked_bytes rounded up to the device's granularity.
  std::size_t bytes() const noexcept { return bytes_; }
  // Of devices with virtual memory: the whole chunk, to be mapped into a window.
  const Chunk& chunk() const noexcept { return chunk_.chunk; }
  // Of the others: the frame's address on its device; null where it is a chunk.
  void* address() const noexcept { return address_; }
  // The best address for copies: of host memory one that devices have registered, where there is one; null where the
  // frame has only the addresses of windows.
  void* copy_address() const noexcept { return address_ != nullptr ? address_ : chunk_.pinned_address; }
  // Where the frame begins in its slab; 0 in a chunk.
  std::size_t chunk_offset() const noexcept { return extent_.offset; }

  // Gives the memory back now.
  void reset() noexcept;

 private:
  friend class FrameStore;

  FrameStore* store_ = nullptr;
  PinnedChunk chunk_;
  void* address_ = nullptr;
  FrameSlab* slab_ = nullptr;
  Extent extent_;
  std::size_t bytes_ = 0;
  std::size_t asked_ = 0;
};

}  // namespace vmem
