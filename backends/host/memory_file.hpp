// The physical memory of one device: a sparse anonymous file (memfd), cut into extents. Pages are there from the first
// write on and go back to the system when their extent is released.
//
// One file a device, not one a chunk: descriptors are few, chunks are many. A second process can map an extent from the
// descriptor and the offset.
//
// Thread contract: every member may be called from any thread.
#pragma once

#include <vmem/status.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/support/thread_annotations.hpp"
#include "runtime/support/unique_fd.hpp"

namespace vmem {

class MemoryFile {
 public:
  static Result<std::unique_ptr<MemoryFile>> create(const std::string& name);

  int fd() const noexcept { return fd_.get(); }
  // The offset of an extent of zeros. REQUIRES: bytes is a multiple of the page size, > 0.
  Result<std::uint64_t> allocate(std::size_t bytes) VMEM_EXCLUDES(mutex_);
  // REQUIRES: an extent from `allocate` that is mapped nowhere.
  void release(std::uint64_t offset, std::size_t bytes) VMEM_EXCLUDES(mutex_);
  // Bytes of pages that the system has given to the file.
  std::uint64_t committed_bytes() const;

 private:
  MemoryFile(UniqueFd fd, std::uint64_t end) : fd_(std::move(fd)), end_(end) {}

  const UniqueFd fd_;
  const std::uint64_t end_;
  Mutex mutex_;
  std::uint64_t next_ VMEM_GUARDED_BY(mutex_) = 0;
  // Extents given back, by size: sizes repeat, and addresses in a file of 2^62 bytes do not run out.
  std::map<std::size_t, std::vector<std::uint64_t>> released_ VMEM_GUARDED_BY(mutex_);
};

}  // namespace vmem
