// Counts calls by entry, and knows which of them misbehave.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/support/thread_annotations.hpp"
#include "tests/doubles/driver/settings.hpp"

namespace vmem::sim {

// What one call meets.
struct CallFault {
  int fail = 0;  // the call's own answer, 0: none
  int fail_work = 0;
  bool hang = false;
  bool corrupt = false;
};

class FaultPlan {
 public:
  void inject(std::string entry, vmem_double_fault_kind kind, std::uint64_t after, std::uint64_t count, int code)
      VMEM_EXCLUDES(mutex_);
  void clear() VMEM_EXCLUDES(mutex_);

  // Counts a call and answers with what it meets.
  CallFault call(std::string_view entry) VMEM_EXCLUDES(mutex_);
  std::uint64_t calls(std::string_view entry) const VMEM_EXCLUDES(mutex_);
  void forget_calls() VMEM_EXCLUDES(mutex_);

 private:
  struct Planned {
    std::string entry;
    vmem_double_fault_kind kind;
    std::uint64_t after;
    std::uint64_t count;
    int code;
  };

  mutable Mutex mutex_;
  std::vector<Planned> faults_ VMEM_GUARDED_BY(mutex_);
  std::map<std::string, std::uint64_t, std::less<>> calls_ VMEM_GUARDED_BY(mutex_);
  std::uint64_t num_calls_ VMEM_GUARDED_BY(mutex_) = 0;
};

}  // namespace vmem::sim
