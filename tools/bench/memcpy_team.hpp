// What memcpy can do with all cores: the reference of copies that pass through host memory.
#pragma once

#include <cstddef>
#include <memory>

namespace vmem {

// Threads that wait for work, so that a copy does not pay for their start.
//
// Thread contract: one thread.
class MemcpyTeam {
 public:
  explicit MemcpyTeam(unsigned num_threads);
  ~MemcpyTeam();
  MemcpyTeam(const MemcpyTeam&) = delete;
  MemcpyTeam& operator=(const MemcpyTeam&) = delete;

  // Copies by way of a staging piece that each thread keeps and that fits its cache: every byte is copied twice.
  void copy_twice(std::byte* destination, const std::byte* source, std::size_t bytes);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vmem
