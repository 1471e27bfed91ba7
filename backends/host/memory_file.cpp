#include "backends/host/memory_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vmem/types.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/support/bytes.hpp"

namespace vmem {
namespace {

constexpr std::uint64_t kFileBytes = std::uint64_t{1} << 62U;
constexpr std::size_t kHugePageBytes = 2_MiB;

}  // namespace

Result<std::unique_ptr<MemoryFile>> MemoryFile::create(const std::string& name) {
  UniqueFd fd(::memfd_create(name.c_str(), MFD_CLOEXEC));
  if (!fd) return Status(StatusCode::kInternal, "memfd_create failed: " + std::string(std::strerror(errno)));
  std::uint64_t end = kFileBytes;
  // Growing a file past this limit raises SIGXFSZ, which would end the process.
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0) end = std::min<std::uint64_t>(end, limit.rlim_cur);
  if (::ftruncate(fd.get(), static_cast<off_t>(end)) != 0) {
    return Status(StatusCode::kInternal, "a memory file can't have its size: " + std::string(std::strerror(errno)));
  }
  return std::unique_ptr<MemoryFile>(new MemoryFile(std::move(fd), end));
}

Result<std::uint64_t> MemoryFile::allocate(std::size_t bytes) {
  MutexLock lock(mutex_);
  if (const auto it = released_.find(bytes); it != released_.end()) {
    const std::uint64_t offset = it->second.back();
    it->second.pop_back();
    if (it->second.empty()) released_.erase(it);
    return offset;
  }
  // Aligned so that huge pages can be had.
  if (bytes >= kHugePageBytes) next_ = align_up(next_, kHugePageBytes);
  if (next_ > end_ || bytes > end_ - next_) {
    return Status(StatusCode::kOutOfHostMemory, "the memory file is full; raise the limit on file sizes (ulimit -f)");
  }
  return std::exchange(next_, next_ + bytes);
}

void MemoryFile::release(std::uint64_t offset, std::size_t bytes) {
  ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(bytes));
  MutexLock lock(mutex_);
  released_[bytes].push_back(offset);
}

std::uint64_t MemoryFile::committed_bytes() const {
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0) return 0;
  return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

}  // namespace vmem
