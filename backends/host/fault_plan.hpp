// The faults that were asked for and have not happened yet.
#pragma once

#include <vmem/backend.hpp>

#include <atomic>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/support/thread_annotations.hpp"

namespace vmem {

// What a call is, as far as faults care: only data can be corrupted, only work that completes later can hang.
enum class CallKind : std::uint8_t { kPlain, kWork, kData };

// Thread contract: every member may be called from any thread.
class FaultPlan {
 public:
  void add(const Fault& fault) VMEM_EXCLUDES(mutex_);
  void clear() VMEM_EXCLUDES(mutex_);
  // Counts a call, and answers with the fault that it is to suffer. Of several, the first added.
  std::optional<Fault> take(std::string_view call, CallKind kind) VMEM_EXCLUDES(mutex_);

 private:
  std::atomic<bool> any_{false};  // spares calls the mutex where no fault was ever asked for
  Mutex mutex_;
  std::vector<Fault> faults_ VMEM_GUARDED_BY(mutex_);
};

}  // namespace vmem
