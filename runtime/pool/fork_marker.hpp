// Tells whether this process is a fork of the one that made the marker: drivers, queues and threads did not come along.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace vmem {

// One page that the kernel wipes in a child, so that asking is one load; where it can't (Linux before 4.14), a
// comparison of process ids.
//
// Thread contract: `in_child` may be called from any thread.
class ForkMarker {
 public:
  ForkMarker() noexcept;
  ~ForkMarker();
  ForkMarker(const ForkMarker&) = delete;
  ForkMarker& operator=(const ForkMarker&) = delete;

  bool in_child() const noexcept { return alive_ != nullptr ? *alive_ == 0 : other_process(); }

 private:
  bool other_process() const noexcept;

  const volatile std::uint32_t* alive_ = nullptr;
  pid_t process_;
};

}  // namespace vmem
