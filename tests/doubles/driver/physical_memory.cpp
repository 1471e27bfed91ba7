#include "tests/doubles/driver/physical_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/support/check.hpp"

namespace vmem::sim {
namespace {

constexpr std::uint64_t kFileBytes = std::uint64_t{1} << 50U;

UniqueFd make_file(std::uint64_t bytes) {
  UniqueFd file(::memfd_create("vmem-double", MFD_CLOEXEC));
  VMEM_CHECK(file && ::ftruncate(file.get(), static_cast<off_t>(bytes)) == 0);
  return file;
}

}  // namespace

Backing::~Backing() { memory_.release(*this); }

PhysicalMemory::PhysicalMemory(int location, std::size_t capacity)
    : location_(location), capacity_(capacity), file_(make_file(kFileBytes)) {}

std::shared_ptr<Backing> PhysicalMemory::allocate(std::size_t bytes, bool shareable) {
  if (bytes > free_bytes()) return nullptr;
  used_ += bytes;
  if (shareable) {
    UniqueFd file = make_file(bytes);
    auto backing = std::make_shared<Backing>(*this, location_, file.get(), 0, bytes);
    backing->own_file = std::move(file);
    return backing;
  }
  std::uint64_t offset = next_;
  if (auto& offsets = released_[bytes]; !offsets.empty()) {
    offset = offsets.back();
    offsets.pop_back();
  } else {
    next_ += bytes;
  }
  return std::make_shared<Backing>(*this, location_, file_.get(), offset, bytes);
}

std::shared_ptr<Backing> PhysicalMemory::import(UniqueFd fd, std::size_t bytes) {
  auto backing = std::make_shared<Backing>(*this, location_, fd.get(), 0, bytes);
  backing->own_file = std::move(fd);
  used_ += bytes;
  return backing;
}

void PhysicalMemory::release(Backing& backing) {
  used_ -= backing.bytes;
  if (backing.own_file) return;
  VMEM_CHECK(::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(backing.offset),
                         static_cast<off_t>(backing.bytes)) == 0);
  released_[backing.bytes].push_back(backing.offset);
}

}  // namespace vmem::sim
