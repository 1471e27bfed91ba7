#include "tests/doubles/driver/process.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

namespace vmem::sim {
namespace {

std::atomic<Driver*> g_driver{nullptr};
std::atomic<std::uint64_t> g_generation{1};
std::atomic<bool> g_forked{false};
std::atomic<bool> g_exiting{false};

// Copies of what every call asks for.
std::atomic<bool> g_settings_read{false};
std::atomic<Personality> g_personality{Personality::kWorking};
std::atomic<LateCalls> g_late_calls{LateCalls::kRefuse};

// Never destroyed: calls come as late as from other libraries' destructors.
struct Pending {
  Mutex mutex;
  std::optional<Settings> settings VMEM_GUARDED_BY(mutex);

  Settings& get() VMEM_REQUIRES(mutex) {
    if (!settings) {
      settings = Settings::from_environment();
      changed();
    }
    return *settings;
  }
  void changed() VMEM_REQUIRES(mutex) {
    g_personality = settings->personality;
    g_late_calls = settings->late_calls;
    g_settings_read = true;
    for (const auto& fault : settings->faults) {
      Driver::faults().inject(fault.entry, fault.kind, fault.after, 1, fault.code);
    }
    settings->faults.clear();
  }
};

Pending& pending() {
  static Pending* const instance = new Pending;
  return *instance;
}

void watch_process() {
  static const bool watched = [] {
    ::pthread_atfork(nullptr, nullptr, [] {
      if (g_driver.load() != nullptr) g_forked = true;
    });
    std::atexit([] { g_exiting = true; });
    return true;
  }();
  static_cast<void>(watched);
}

// A test that names kernels which are not there must not run without them.
void add_kernels(const std::string& library) {
  using AddKernels = void (*)(decltype(&vmem_double_add_kernel) add);
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto give =
      handle != nullptr ? reinterpret_cast<AddKernels>(::dlsym(handle, "vmem_double_add_kernels")) : nullptr;
  if (give == nullptr) {
    std::fprintf(stderr, "VMEM_DOUBLE_KERNELS: '%s' gives no kernels\n", library.c_str());
    std::abort();
  }
  give(vmem_double_add_kernel);
}

}  // namespace

Driver* driver() { return g_driver.load(); }

std::uint64_t generation() { return g_generation.load(); }

bool is_forked() { return g_forked.load(); }

bool is_exiting() { return g_exiting.load(); }

Settings current_settings() {
  Pending& now = pending();
  MutexLock lock(now.mutex);
  return now.get();
}

Personality current_personality() {
  if (!g_settings_read) current_settings();
  return g_personality;
}

LateCalls current_late_calls() {
  if (!g_settings_read) current_settings();
  return g_late_calls;
}

Driver& start_driver(const Vendor& vendor) {
  Pending& now = pending();
  MutexLock lock(now.mutex);
  if (g_driver.load() == nullptr) {
    watch_process();
    if (!now.get().kernels.empty()) add_kernels(now.get().kernels);
    g_driver = new Driver(now.get(), vendor);
  }
  return *g_driver.load();
}

}  // namespace vmem::sim

// -- The control interface -------------------------------------------------------------------------------------------

using vmem::sim::Driver;

#define VMEM_DOUBLE_EXPORT extern "C" __attribute__((visibility("default")))

VMEM_DOUBLE_EXPORT void vmem_double_reset(void) {
  vmem::sim::Pending& now = vmem::sim::pending();
  vmem::MutexLock lock(now.mutex);
  std::unique_ptr<Driver> old(vmem::sim::g_driver.exchange(nullptr));
  ++vmem::sim::g_generation;
  old.reset();
  Driver::faults().clear();
  Driver::faults().forget_calls();
  now.settings.reset();
  vmem::sim::g_settings_read = false;
}

VMEM_DOUBLE_EXPORT int vmem_double_set(const char* key, const char* value) {
  if (key == nullptr || value == nullptr) return -1;
  vmem::sim::Pending& now = vmem::sim::pending();
  vmem::MutexLock lock(now.mutex);
  if (!now.get().set(key, value)) return -1;
  now.changed();
  return 0;
}

VMEM_DOUBLE_EXPORT void vmem_double_inject(const char* entry, vmem_double_fault_kind kind, uint64_t after,
                                           uint64_t count, int code) {
  Driver::faults().inject(entry == nullptr ? "" : entry, kind, after, count, code);
}

VMEM_DOUBLE_EXPORT void vmem_double_clear_faults(void) { Driver::faults().clear(); }

VMEM_DOUBLE_EXPORT void vmem_double_release_hung(void) {
  if (Driver* const driver = vmem::sim::driver()) driver->release_hung();
}

VMEM_DOUBLE_EXPORT uint64_t vmem_double_num_hung(void) {
  Driver* const driver = vmem::sim::driver();
  return driver == nullptr ? 0 : driver->num_hung();
}

VMEM_DOUBLE_EXPORT void vmem_double_lose_device(int device, int code) {
  if (Driver* const driver = vmem::sim::driver()) driver->lose_device(device, code);
}

VMEM_DOUBLE_EXPORT void vmem_double_fail_all(int code) {
  if (Driver* const driver = vmem::sim::driver()) driver->fail_all(code);
}

VMEM_DOUBLE_EXPORT void vmem_double_set_peer(int device, int peer, vmem_double_peer behaviour) {
  if (Driver* const driver = vmem::sim::driver()) driver->set_peer(device, peer, behaviour);
}

VMEM_DOUBLE_EXPORT void vmem_double_occupy(int device, uint64_t bytes) {
  if (Driver* const driver = vmem::sim::driver()) driver->occupy(device, bytes);
}

VMEM_DOUBLE_EXPORT uint64_t vmem_double_calls(const char* entry) {
  return Driver::faults().calls(entry == nullptr ? "" : entry);
}

VMEM_DOUBLE_EXPORT void vmem_double_forget_calls(void) { Driver::faults().forget_calls(); }

VMEM_DOUBLE_EXPORT uint64_t vmem_double_count(const char* what) {
  Driver* const driver = vmem::sim::driver();
  return driver == nullptr ? 0 : driver->count(what);
}

VMEM_DOUBLE_EXPORT int vmem_double_add_kernel(const char* name, const char* source, void (*body)(void)) {
  if (name == nullptr || source == nullptr || body == nullptr) return -1;
  return Driver::kernels().add(name, source, reinterpret_cast<vmem::KernelBody>(body)) ? 0 : -1;
}
