#include "runtime/pool/fork_marker.hpp"

#include <sys/mman.h>
#include <unistd.h>

namespace vmem {
namespace {

std::size_t page_bytes() noexcept { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace

ForkMarker::ForkMarker() noexcept : process_(::getpid()) {
  void* const page = ::mmap(nullptr, page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (::madvise(page, page_bytes(), MADV_WIPEONFORK) != 0) {
    ::munmap(page, page_bytes());
    return;
  }
  *static_cast<std::uint32_t*>(page) = 1;
  alive_ = static_cast<const volatile std::uint32_t*>(page);
}

ForkMarker::~ForkMarker() {
  if (alive_ != nullptr) ::munmap(const_cast<std::uint32_t*>(alive_), page_bytes());
}

bool ForkMarker::other_process() const noexcept { return ::getpid() != process_; }

}  // namespace vmem
