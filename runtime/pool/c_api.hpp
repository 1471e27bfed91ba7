// What the C API's handles hold, and how its functions are wrapped.
#pragma once

#include <vmem/vmem.h>
#include <vmem/acquired.hpp>
#include <vmem/event.hpp>
#include <vmem/pool.hpp>
#include <vmem/runtime.hpp>

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "runtime/pool/fork_marker.hpp"

struct vmemDevice_st {
  vmemRuntime_st* runtime;
  vmem::DeviceIndex index;
};

struct vmemRuntime_st {
  std::unique_ptr<vmem::Runtime> runtime;
  std::vector<vmemDevice_st> devices;  // by index; never resized, handles point into it
  std::atomic<std::size_t> num_pools{0};
  vmem::ForkMarker fork;
};

struct vmemPool_st {
  std::unique_ptr<vmemRuntime_st> own_runtime;  // null where the caller brought one
  vmemRuntime_st* runtime = nullptr;
  std::unique_ptr<vmem::Pool> pool;
  std::atomic<std::size_t> num_acquired{0};
};

struct vmemAcquired_st {
  vmemPool_st* pool;
  vmem::Acquired acquired;
};

// Events and prefetches may outlive their pool and runtime, so they know themselves which process they belong to:
// nobody would complete them in a fork of it.
struct vmemEvent_st {
  std::vector<vmem::Event> events;  // the copy is done when all are
  pid_t process = ::getpid();
};

struct vmemPrefetch_st {
  vmem::Prefetch prefetch;
  pid_t process = ::getpid();
};

namespace vmem {

// Remembers a failure's text for the thread and answers with its code.
vmemStatus_t report(const Status& status) noexcept;
vmemStatus_t report(StatusCode code, const char* message) noexcept;

// The body of every C function: a Status becomes its code, and no exception passes.
template <typename Body>
vmemStatus_t c_call(Body body) noexcept {
  try {
    return report(body());
  } catch (const std::bad_alloc&) {
    return report(StatusCode::kOutOfHostMemory, "the process is out of memory");
  } catch (const std::exception& error) {
    return report(StatusCode::kInternal, error.what());
  } catch (...) {
    return report(StatusCode::kInternal, "a library threw something that is no std::exception");
  }
}

// kInvalidValue where an argument is NULL.
Status need(const void* argument, const char* name);
// The same for a handle, and kDeviceFailed after fork.
Status use(vmemRuntime_t runtime);
Status use(vmemDevice_t device);
Status use(vmemPool_t pool);
Status use(vmemEvent_t event);
Status use(vmemPrefetch_t prefetch);
// A device for a call on a pool: kInvalidValue for one of another runtime.
Status use(vmemPool_t pool, vmemDevice_t device);

Device& device_of(vmemDevice_t device);
Stream stream_of(vmemStream_t stream);

// The number in an enum of the caller's, which may be none of the enumerators.
template <typename Enum>
int raw_value(const Enum& value) noexcept {
  static_assert(sizeof(Enum) == sizeof(int));
  int raw = 0;
  std::memcpy(&raw, &value, sizeof(raw));
  return raw;
}

// The C++ enumerator of the same value, or kInvalidValue. `highest` is the last enumerator.
template <typename To, typename From>
Result<To> convert_enum(const From& value, From highest, const char* name) {
  const int raw = raw_value(value);
  if (raw >= 0 && raw <= raw_value(highest)) return static_cast<To>(raw);
  return Status(StatusCode::kInvalidValue, std::string(name) + " is " + std::to_string(raw) + ": expected 0 to " +
                                               std::to_string(raw_value(highest)));
}

// kInvalidValue for a struct_size that can't be one: forgotten, or garbage.
Status check_struct_size(std::size_t size, const char* name);
// kUnsupported where a byte from `known` to `size` is set: an option of a newer header.
Status check_unknown_bytes(const void* given, std::size_t known, std::size_t size, const char* name);

// An option struct of the caller's, of whatever header it was compiled with, over the defaults. A field that is added
// to a struct must not lie in what was padding at its end: there an older program has garbage.
template <typename Options>
Result<Options> read_options(const Options* given, const Options& defaults, const char* name) {
  Options options = defaults;
  if (given == nullptr) return options;
  const std::size_t size = given->struct_size;
  VMEM_RETURN_IF_ERROR(check_struct_size(size, name));
  VMEM_RETURN_IF_ERROR(check_unknown_bytes(given, sizeof(Options), size, name));
  std::memcpy(&options, given, size < sizeof(Options) ? size : sizeof(Options));
  return options;
}

// Fills a struct of the caller's. REQUIRES: check_struct_size(target->struct_size) succeeded.
template <typename Info>
void write_info(Info* target, const Info& info) noexcept {
  const std::size_t size = target->struct_size;
  const std::size_t known = size < sizeof(Info) ? size : sizeof(Info);
  std::memcpy(target, &info, known);
  std::memset(reinterpret_cast<char*>(target) + known, 0, size - known);
  target->struct_size = size;
}

}  // namespace vmem
