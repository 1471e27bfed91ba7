#include "backends/cuda/process_exit.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "backends/cuda/machine.hpp"
#include "runtime/support/thread_annotations.hpp"

namespace vmem {
namespace {

// The process has one end, so there is one of these. Never destroyed: the backend's objects may be the last to go.
struct Watch {
  Mutex mutex;
  std::vector<std::weak_ptr<CudaMachine>> machines VMEM_GUARDED_BY(mutex);
  std::set<std::string> drivers VMEM_GUARDED_BY(mutex);
};

std::atomic<bool> g_exiting{false};

Watch& watch() {
  static auto& instance = *new Watch;  // never destroyed: the process may end in any order
  return instance;
}

void begin_exit() {
  g_exiting.store(true, std::memory_order_seq_cst);
  std::vector<std::weak_ptr<CudaMachine>> machines;
  {
    MutexLock lock(watch().mutex);
    machines.swap(watch().machines);
  }
  for (const auto& weak : machines) {
    if (const auto machine = weak.lock()) machine->poller.stop_for_exit();
  }
}

}  // namespace

bool process_is_exiting() noexcept { return g_exiting.load(std::memory_order_acquire); }

void end_with_process(const std::shared_ptr<CudaMachine>& machine) {
  MutexLock lock(watch().mutex);
  auto& machines = watch().machines;
  std::erase_if(machines, [](const auto& other) { return other.expired(); });
  machines.push_back(machine);
  // For each driver anew: it has registered handlers of its own since.
  if (watch().drivers.insert(machine->driver->library()).second) std::atexit(begin_exit);
}

}  // namespace vmem
