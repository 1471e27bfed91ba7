// What all devices of one host backend share.
#pragma once

#include <vmem/backend_config.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "backends/host/address_map.hpp"
#include "backends/host/host_pins.hpp"
#include "runtime/support/check.hpp"
#include "runtime/support/thread_annotations.hpp"

namespace vmem {

// The calls on the system that a test may want to see fail, and where its files are.
struct SystemCalls {
  SystemCalls();  // the system's own

  int (*madvise)(void*, std::size_t, int);
  int (*mlock)(const void*, std::size_t);
  int (*munlock)(const void*, std::size_t);
  std::string root;  // "" or a folder that holds another machine's /sys and /proc
};

struct HostMachine {
  HostMachine(SystemCalls calls, std::function<void(LogLevel, std::string_view)> log_to)
      : system(std::move(calls)), log(std::move(log_to)), pins(system) {}

  // Warns the first time that `key` is seen.
  void warn_once(const std::string& key, std::string_view message) VMEM_EXCLUDES(mutex) {
    {
      MutexLock lock(mutex);
      if (!warned.insert(key).second) return;
    }
    if (log) log(LogLevel::kWarn, message);
  }

  const SystemCalls system;
  const std::function<void(LogLevel, std::string_view)> log;
  AddressMap addresses;
  HostPins pins;
  mutable std::atomic<int> num_hung{0};  // tasks that hang by a fault, on any device
  Mutex mutex;
  std::set<std::string> warned VMEM_GUARDED_BY(mutex);
};

}  // namespace vmem
