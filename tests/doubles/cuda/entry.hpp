// What every entry of the CUDA double does before and after its own work, and what a thread has current.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "tests/doubles/cuda/abi.hpp"
#include "tests/doubles/driver/process.hpp"

// An exported entry.
#define VMEM_CUDA_EXPORT extern "C" __attribute__((visibility("default"))) vmem::CuResult

// The form of an entry whose null stream is the thread's own default stream: `suffix` is _ptsz or _ptds.
#define VMEM_CUDA_PER_THREAD(symbol, suffix, parameters, arguments) \
  VMEM_CUDA_EXPORT symbol##suffix parameters {                      \
    const vmem::cuda_double::PerThreadStreams scope;                \
    return symbol arguments;                                        \
  }

namespace vmem::cuda_double {

using sim::Address;
using sim::Driver;
using sim::Error;
using sim::Handle;

// What the library was linked as; version.cpp defines it for each.
int built_version();
// The same, unless it is set to be another.
int version();
CuResult result_of(Error error);
inline CuResult result_of(CuResult result) { return result; }
inline CuResult result_of(int code) { return static_cast<CuResult>(code); }

template <typename T>
T as_handle(Handle handle) {
  return reinterpret_cast<T>(handle);
}
template <typename T>
Handle as_number(T handle) {
  return reinterpret_cast<Handle>(handle);
}

// -- Devices: what the program sees is chosen and ordered by CUDA_VISIBLE_DEVICES -----------------------------------

// Starts the driver; 100 where the program sees no device.
CuResult initialize();
int num_visible();
// The driver's index of a visible device; nothing for a wrong ordinal.
std::optional<int> index_of(CuDevice device);
// kHostLocation stays what it is; -1 for a device that is not visible.
CuDevice ordinal_of(int index);

// -- Entries ---------------------------------------------------------------------------------------------------------

enum Needs : unsigned {
  kInitialized = 0,
  kContext = 1,  // a current context
  kUnsafe = 2    // forbidden while another stream is captured
};

struct Call {
  Driver* driver = nullptr;
  std::shared_ptr<sim::Context> context;  // the current one; may be null where none is needed
  int worked_on = -1;                     // a device, where the call is not for the current context's
  sim::CallFault fault;
};

// Counts, injects, refuses. kCuSuccess: the entry may do its work.
CuResult begin_call(std::string_view name, unsigned needs, Call& call);
// For entries that work before initialisation and after failures.
CuResult begin_free_call(std::string_view name);
// The answer of a call that answered so: after a call that waited, a failure that came up meanwhile comes first. Others
// do not look, so that it does not depend on the moment which call reports the failure of work.
CuResult end_call(const Call& call, CuResult result);

class CallFaultScope {
 public:
  explicit CallFaultScope(const sim::CallFault& fault) { Driver::set_call_fault(&fault); }
  ~CallFaultScope() { Driver::set_call_fault(nullptr); }
  CallFaultScope(const CallFaultScope&) = delete;
  CallFaultScope& operator=(const CallFaultScope&) = delete;
};

// Name without the version's suffix, what it needs, and `body(call)`, which answers with an Error or a CuResult.
template <typename Body>
CuResult entry(std::string_view name, unsigned needs, Body body) {
  Call call;
  const CuResult refused = begin_call(name, needs, call);
  if (refused != kCuSuccess) return refused;
  const CallFaultScope scope(call.fault);
  return end_call(call, result_of(body(call)));
}

template <typename Body>
CuResult free_entry(std::string_view name, Body body) {
  const CuResult refused = begin_free_call(name);
  return refused != kCuSuccess ? refused : result_of(body());
}

// Of one device by its ordinal: `body(call, index)`.
template <typename Body>
CuResult device_entry(std::string_view name, CuDevice device, Body body) {
  return entry(name, kInitialized, [&](Call& call) -> CuResult {
    const auto index = index_of(device);
    if (!index) return kCuInvalidDevice;
    const int failure = call.driver->failure(*index);
    return failure != 0 ? static_cast<CuResult>(failure) : result_of(body(call, *index));
  });
}

// -- What a thread has current ---------------------------------------------------------------------------------------

// While one lives on this thread, the null stream is the thread's own default stream.
class PerThreadStreams {
 public:
  PerThreadStreams();
  ~PerThreadStreams();
  PerThreadStreams(const PerThreadStreams&) = delete;
  PerThreadStreams& operator=(const PerThreadStreams&) = delete;
};

// 0 where there is none.
Handle current_context();
// False where the stack is full.
bool push_context(Handle context);
// 0 where the stack is empty.
Handle pop_context();

// A stream's queue; null for a handle that is none. Default streams are the current context's.
std::shared_ptr<sim::Queue> queue_of(const Call& call, CuStream stream);

// Work on a stream: `body(call, queue)`.
template <typename Body>
CuResult stream_entry(std::string_view name, unsigned needs, CuStream stream, Body body) {
  return entry(name, needs | kContext, [&](Call& call) -> CuResult {
    const auto queue = queue_of(call, stream);
    if (queue == nullptr) return kCuInvalidHandle;
    const int failure = call.driver->failure(queue->device);
    if (failure != 0) return static_cast<CuResult>(failure);
    call.worked_on = queue->device;
    return result_of(body(call, queue));
  });
}

}  // namespace vmem::cuda_double
