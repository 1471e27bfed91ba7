// What has to happen before a claim's bytes are there: who leaves, which frames are made, what is copied.
//
// A plan is made at once under the plan lock: its memory is reserved and its blocks are marked `moving`, or nothing is.
// From then on it waits for transfers and events only, never for another plan or holder, so that it always ends.
// It is carried out step by step (Residency's begin_... and commit_... calls, with the transfers between them by the
// pool); each move commits alone, and a plan that fails half-way leaves what was moved where it is.
#pragma once

#include <vmem/event.hpp>
#include <vmem/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/residency/block.hpp"

namespace vmem {

struct Claim;

// Bytes of a block to copy from one instance to another, or to fill with zeros where there is no source.
struct Move {
  Block* block = nullptr;
  DeviceIndex from = 0;
  DeviceIndex to = 0;
  void* source = nullptr;
  void* destination = nullptr;
  PageMask pages;
  std::vector<Event> after;
  bool fill = false;
};

// One block of a span that leaves. `to` has a reservation or an instance of the block.
struct Departure {
  Block* block = nullptr;
  DeviceIndex to = 0;
  std::size_t reserved_bytes = 0;  // at `to`, for its frame; 0 where the block has an instance there already
};

struct Eviction {
  FrameSpan* span = nullptr;
  std::vector<Departure> departures;
};

// Frames to be made on the claim's device for blocks of a region in a row.
struct Arriving {
  Region* region = nullptr;
  std::size_t first_block = 0;
  std::size_t num_blocks = 0;
  std::size_t bytes = 0;  // of the frame
};

// An instance that lies where a claim can't use it (without virtual memory) and moves on its device, or leaves it.
struct Relocation {
  Block* block = nullptr;
  FrameSpan* span = nullptr;
};

struct Plan {
  DeviceIndex device = 0;
  std::vector<Eviction> evictions;
  std::vector<Arriving> frames;
  std::vector<Relocation> relocations;
  std::vector<Block*> moving;      // marked; unmarked by finish
  std::size_t reserved_bytes = 0;  // on `device`, not yet spent on frames
  std::size_t needed_bytes = 0;    // of frames that are still to be made
  bool evict_first = false;        // frames are made when all that leaves has left: free bytes are in pieces
  bool makes_room = false;         // it only evicts, elsewhere: then a plan has to be made again
  bool active = false;
};

}  // namespace vmem
