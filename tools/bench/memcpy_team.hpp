// What memcpy can do: the references of copies that pass through host memory.
#pragma once

#include <cstddef>
#include <memory>

namespace vmem {

// A simulated GPU copies on one thread for each direction: so many carry a staged copy between two of them.
inline constexpr unsigned kStagedCopyThreads = 2;

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

// The same bytes by a pipeline written by hand: one thread copies into a ring of staging buffers, another out of it, as
// the two devices' queues of a staged copy do. What is between two threads can't stay in the cache of one core.
void copy_by_pipeline(std::byte* destination, const std::byte* source, std::size_t bytes, std::size_t buffer_bytes,
                      std::size_t num_buffers);

}  // namespace vmem
