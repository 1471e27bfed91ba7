// cuGetProcAddress: entries by name, version and form of the null stream.
#include <cstring>

#include "tests/doubles/cuda/entries.hpp"
#include "tests/doubles/cuda/entry.hpp"

namespace vmem::cuda_double {
namespace {

struct Entry {
  const char* name;
  void* address;
  int version;
  bool per_thread;
};

const Entry kEntries[] = {
#define VMEM_ENTRY(name, symbol, version, ...) {#name, reinterpret_cast<void*>(symbol), version, false},
#define VMEM_THREAD_ENTRY(name, symbol, version, ...) {#name, reinterpret_cast<void*>(symbol), version, true},
#define VMEM_ALIAS(name, symbol, version) {#name, reinterpret_cast<void*>(symbol), version, false},
#include "tests/doubles/cuda/entries.inc"
#undef VMEM_ENTRY
#undef VMEM_THREAD_ENTRY
#undef VMEM_ALIAS
};

// What a look-up found, as cuGetProcAddress_v2 tells it.
enum Found : int { kFound = 0, kNoSuchName = 1, kTooNew = 2 };

constexpr std::uint64_t kPerThreadFlag = 2;

// The newest form that neither the caller nor the driver is too old for. Entries without a form for per-thread streams
// have only one.
Found find(const char* name, int wanted, bool per_thread, void*& address) {
  const Entry* best = nullptr;
  bool exists = false;
  for (const Entry& entry : kEntries) {
    if (std::strcmp(entry.name, name) != 0 || entry.version > version()) continue;
    exists = true;
    if (entry.version > wanted || (entry.per_thread && !per_thread)) continue;
    const bool better = best == nullptr || (entry.per_thread && !best->per_thread) ||
                        (entry.per_thread == best->per_thread && entry.version > best->version);
    if (better) best = &entry;
  }
  if (best == nullptr) return exists ? kTooNew : kNoSuchName;
  address = best->address;
  return kFound;
}

CuResult get_address(const char* name, void** address, int wanted, std::uint64_t flags, int* status) {
  return free_entry("cuGetProcAddress", [&]() -> CuResult {
    if (name == nullptr || address == nullptr || flags > 2) return kCuInvalidValue;
    *address = nullptr;
    const Found found = find(name, wanted, flags == kPerThreadFlag, *address);
    if (status != nullptr) *status = found;
    return found == kFound ? kCuSuccess : kCuNotFound;
  });
}

}  // namespace
}  // namespace vmem::cuda_double

VMEM_CUDA_EXPORT cuGetProcAddress(const char* name, void** address, int wanted, std::uint64_t flags) {
  return vmem::cuda_double::get_address(name, address, wanted, flags, nullptr);
}

VMEM_CUDA_EXPORT cuGetProcAddress_v2(const char* name, void** address, int wanted, std::uint64_t flags, int* status) {
  return vmem::cuda_double::get_address(name, address, wanted, flags, status);
}
