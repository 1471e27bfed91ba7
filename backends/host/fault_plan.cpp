#include "backends/host/fault_plan.hpp"

#include <algorithm>

namespace vmem {
namespace {

bool applies(const Fault& fault, std::string_view call, CallKind kind) {
  if (!fault.call.empty() && fault.call != call) return false;
  if (fault.kind == Fault::Kind::kHang) return kind != CallKind::kPlain;
  if (fault.kind == Fault::Kind::kCorrupt) return kind == CallKind::kData;
  return true;
}

}  // namespace

void FaultPlan::add(const Fault& fault) {
  if (fault.count == 0) return;
  MutexLock lock(mutex_);
  faults_.push_back(fault);
  any_.store(true, std::memory_order_release);
}

void FaultPlan::clear() {
  MutexLock lock(mutex_);
  faults_.clear();
  any_.store(false, std::memory_order_release);
}

std::optional<Fault> FaultPlan::take(std::string_view call, CallKind kind) {
  if (!any_.load(std::memory_order_acquire)) return std::nullopt;
  MutexLock lock(mutex_);
  std::optional<Fault> taken;
  for (Fault& fault : faults_) {
    if (!applies(fault, call, kind)) continue;
    if (fault.after > 0) {
      --fault.after;
    } else if (!taken) {
      taken = fault;
      --fault.count;
    }
  }
  faults_.erase(std::remove_if(faults_.begin(), faults_.end(), [](const Fault& fault) { return fault.count == 0; }),
                faults_.end());
  if (faults_.empty()) any_.store(false, std::memory_order_release);
  return taken;
}

}  // namespace vmem
