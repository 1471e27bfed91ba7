// The memory of one device, or of the host, as files without a name (memfd): extents of one large sparse file, or a
// file of its own where another process is to map it.
//
// Not synchronised: the driver's mutex is held. Only `Backing` is freed from anywhere its last owner is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "runtime/support/unique_fd.hpp"

namespace vmem::sim {

inline constexpr int kHostLocation = -1;
inline constexpr std::size_t kPage = 4096;

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

class PhysicalMemory;

// Some bytes of a device. Shared by its handle and its mappings: the memory is free when the last of them is gone.
struct Backing {
  Backing(PhysicalMemory& owner, int place, int file, std::uint64_t at, std::size_t size)
      : location(place), fd(file), offset(at), bytes(size), memory_(owner) {}
  ~Backing();
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;

  const int location;
  const int fd;
  const std::uint64_t offset;
  const std::size_t bytes;
  UniqueFd own_file;  // set where the memory is shareable; `fd` is its descriptor

 private:
  PhysicalMemory& memory_;
};

class PhysicalMemory {
 public:
  // `location` is a device's index or kHostLocation.
  PhysicalMemory(int location, std::size_t capacity);

  // Zeros; null where less than `bytes` is free.
  std::shared_ptr<Backing> allocate(std::size_t bytes, bool shareable);
  // Memory of another process, from a descriptor that is now this one's.
  std::shared_ptr<Backing> import(UniqueFd fd, std::size_t bytes);

  std::size_t capacity() const { return capacity_; }
  std::size_t free_bytes() const { return used_ + occupied_ > capacity_ ? 0 : capacity_ - used_ - occupied_; }
  void occupy(std::size_t bytes) { occupied_ = bytes; }

 private:
  friend struct Backing;
  void release(Backing& backing);

  const int location_;
  const std::size_t capacity_;
  UniqueFd file_;
  std::size_t used_ = 0;
  std::size_t occupied_ = 0;
  std::uint64_t next_ = 0;
  std::map<std::size_t, std::vector<std::uint64_t>> released_;  // by size
};

}  // namespace vmem::sim
