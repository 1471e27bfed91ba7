/// What a pool has done and holds, as plain counters. A snapshot: fields are read one after another while work goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vmem {

/// One device's part. All sizes in bytes.
struct DeviceStats {
  std::string name;
  std::uint64_t limit_bytes = 0;     ///< what the pool may use there
  std::uint64_t used_bytes = 0;      ///< frames in use
  std::uint64_t peak_bytes = 0;      ///< the most that was in use at once
  std::uint64_t reserved_bytes = 0;  ///< taken from the driver: frames in use and kept for reuse
  std::uint64_t pinned_bytes = 0;    ///< in blocks that are held or pinned now
  std::uint64_t instances = 0;       ///< blocks that have a copy there
  double fragmentation = 0;          ///< 1 - largest free extent / free bytes (runtime/memory/fragmentation.hpp)
  bool failed = false;
};

/// What moved from one device to another, and why.
struct MoveStats {
  std::string from;
  std::string to;
  std::uint64_t fetched_bytes = 0;  ///< because an acquire or a prefetch asked
  std::uint64_t evicted_bytes = 0;  ///< because room was needed
  std::uint64_t copied_bytes = 0;   ///< by copies of pointers and of pool ranges
  std::uint64_t moves = 0;
};

struct PoolStats {
  std::uint64_t buffers = 0;
  std::uint64_t allocated_bytes = 0;    ///< as asked for
  std::uint64_t blocks_touched = 0;     ///< blocks that have bookkeeping
  std::uint64_t bookkeeping_bytes = 0;  ///< memory of the tables
  std::uint64_t acquires = 0;           ///< granted lists
  std::uint64_t acquires_resident = 0;  ///< of these, all pages were there
  std::uint64_t acquires_failed = 0;
  std::uint64_t waits = 0;      ///< acquires that waited for holders or for memory
  std::uint64_t evictions = 0;  ///< block copies that were moved or dropped to make room
  std::uint64_t peak_staging_bytes = 0;
  double address_fragmentation = 0;
  std::vector<DeviceStats> devices;  ///< in the topology's order
  std::vector<MoveStats> moves;      ///< pairs that moved something
};

}  // namespace vmem
