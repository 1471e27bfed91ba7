// Host pages that devices have registered. While a registration covers them, a child of a fork does not inherit them (a
// device goes on writing to them; a copy in the child must not change), and a simulated GPU's are locked.
#pragma once

#include <vmem/status.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/support/thread_annotations.hpp"

namespace vmem {

struct SystemCalls;

// Thread contract: every member may be called from any thread.
class HostPins {
 public:
  explicit HostPins(const SystemCalls& system) : system_(system) {}

  struct Kind {
    bool locked;
    bool kept_from_children;  // only the pool's own memory: over the application's, the application decides

    friend bool operator==(Kind a, Kind b) {
      return a.locked == b.locked && a.kept_from_children == b.kept_from_children;
    }
  };

  // kOutOfHostMemory where the limit on locked memory stands in the way.
  Status pin(std::uintptr_t begin, std::size_t bytes, Kind kind) VMEM_EXCLUDES(mutex_);
  // Takes one `pin` of exactly this range and kind back. Pages that another pin covers stay as that one wants them.
  void unpin(std::uintptr_t begin, std::size_t bytes, Kind kind) VMEM_EXCLUDES(mutex_);

 private:
  using Pages = std::pair<std::uintptr_t, std::uintptr_t>;  // begin, end
  struct Pin {
    Pages pages;
    Kind kind;
  };

  // The parts of `pages` that no pin with this property covers.
  std::vector<Pages> uncovered(const Pages& pages, bool Kind::*property) const VMEM_REQUIRES(mutex_);

  const SystemCalls& system_;
  Mutex mutex_;
  std::vector<Pin> pins_ VMEM_GUARDED_BY(mutex_);  // with repetitions; mlock itself does not count
};

}  // namespace vmem
