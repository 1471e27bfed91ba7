#include "tests/doubles/driver/fault_plan.hpp"

#include <utility>

namespace vmem::sim {

void FaultPlan::inject(std::string entry, vmem_double_fault_kind kind, std::uint64_t after, std::uint64_t count,
                       int code) {
  MutexLock lock(mutex_);
  faults_.push_back({std::move(entry), kind, after, count, code});
}

void FaultPlan::clear() {
  MutexLock lock(mutex_);
  faults_.clear();
}

CallFault FaultPlan::call(std::string_view entry) {
  MutexLock lock(mutex_);
  ++num_calls_;
  if (const auto found = calls_.find(entry); found != calls_.end()) {
    ++found->second;
  } else {
    calls_.emplace(entry, 1);
  }
  CallFault met;
  for (auto fault = faults_.begin(); fault != faults_.end();) {
    if (!fault->entry.empty() && fault->entry != entry) {
      ++fault;
      continue;
    }
    if (fault->after > 0) {
      --fault->after;
      ++fault;
      continue;
    }
    switch (fault->kind) {
      case VMEM_DOUBLE_FAIL:
        met.fail = fault->code;
        break;
      case VMEM_DOUBLE_FAIL_WORK:
        met.fail_work = fault->code;
        break;
      case VMEM_DOUBLE_HANG:
        met.hang = true;
        break;
      case VMEM_DOUBLE_CORRUPT:
        met.corrupt = true;
        break;
    }
    fault = fault->count > 1 ? (--fault->count, fault + 1) : faults_.erase(fault);
  }
  return met;
}

std::uint64_t FaultPlan::calls(std::string_view entry) const {
  MutexLock lock(mutex_);
  if (entry.empty()) return num_calls_;
  const auto found = calls_.find(entry);
  return found == calls_.end() ? 0 : found->second;
}

void FaultPlan::forget_calls() {
  MutexLock lock(mutex_);
  calls_.clear();
  num_calls_ = 0;
}

}  // namespace vmem::sim
