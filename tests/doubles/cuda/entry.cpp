#include "tests/doubles/cuda/entry.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <vector>

namespace vmem::cuda_double {
namespace {

// Needs no destructor: other libraries' destructors call the driver when this thread's objects are gone.
struct ThreadState {
  std::uint64_t generation = 0;
  std::array<Handle, 64> contexts{};
  std::size_t num_contexts = 0;
  unsigned per_thread_streams = 0;
};
static_assert(std::is_trivially_destructible_v<ThreadState>);

thread_local ThreadState t_state;

ThreadState& thread_state() {
  if (t_state.generation != sim::generation()) {
    t_state.generation = sim::generation();
    t_state.num_contexts = 0;
  }
  return t_state;
}

struct Code {
  Error error;
  int code;
};

constexpr Code kCodes[] = {
    {Error::kNone, kCuSuccess},
    {Error::kInvalidValue, kCuInvalidValue},
    {Error::kInvalidHandle, kCuInvalidHandle},
    {Error::kInvalidDevice, kCuInvalidDevice},
    {Error::kInvalidContext, kCuInvalidContext},
    {Error::kContextDestroyed, kCuContextIsDestroyed},
    {Error::kOutOfMemory, kCuOutOfMemory},
    {Error::kNotReady, kCuNotReady},
    {Error::kNotInitialized, kCuNotInitialized},
    {Error::kDeinitialized, kCuDeinitialized},
    {Error::kNoDevice, kCuNoDevice},
    {Error::kNotFound, kCuNotFound},
    {Error::kNotSupported, kCuNotSupported},
    {Error::kAlreadyMapped, kCuAlreadyMapped},
    {Error::kAlreadyRegistered, kCuHostMemoryAlreadyRegistered},
    {Error::kNotRegistered, kCuHostMemoryNotRegistered},
    {Error::kDeviceUnavailable, kCuDeviceUnavailable},
    {Error::kPeerUnsupported, kCuPeerAccessUnsupported},
    {Error::kPeerAlreadyEnabled, kCuPeerAccessAlreadyEnabled},
    {Error::kPeerNotEnabled, kCuPeerAccessNotEnabled},
    {Error::kCaptureUnsupported, kCuStreamCaptureUnsupported},
    {Error::kCaptureInvalidated, kCuStreamCaptureInvalidated},
    {Error::kCaptureMerge, kCuStreamCaptureMerge},
    {Error::kCaptureUnmatched, kCuStreamCaptureUnmatched},
    {Error::kCaptureUnjoined, kCuStreamCaptureUnjoined},
    {Error::kCaptureIsolation, kCuStreamCaptureIsolation},
    {Error::kCaptureImplicit, kCuStreamCaptureImplicit},
    {Error::kCapturedEvent, kCuCapturedEvent},
    {Error::kCaptureWrongThread, kCuStreamCaptureWrongThread},
    {Error::kIllegalAddress, kCuIllegalAddress},
    {Error::kLaunchFailed, kCuLaunchFailed},
};

int code_of(Error error) {
  for (const Code& each : kCodes) {
    if (each.error == error) return each.code;
  }
  return kCuUnknown;
}

constexpr sim::Vendor kVendor{"NVIDIA double", 32, true, code_of, 0x41};

std::string uuid_text(const Driver& driver, int index) {
  std::string text = "GPU-";
  int at = 0;
  for (const std::uint8_t byte : driver.uuid(index)) {
    char hex[4];
    std::snprintf(hex, sizeof hex, "%02x", byte);
    if (at == 4 || at == 6 || at == 8 || at == 10) text += '-';
    text += hex;
    ++at;
  }
  return text;
}

// As the driver reads CUDA_VISIBLE_DEVICES: up to the first entry that names no device or one named before. A UUID may
// be cut short where it stays unique. MIG devices do not exist here.
std::vector<int> read_visible(const Driver& driver) {
  std::vector<int> visible;
  const char* const variable = std::getenv("CUDA_VISIBLE_DEVICES");
  if (variable == nullptr) {
    for (int index = 0; index < driver.num_devices(); ++index) visible.push_back(index);
    return visible;
  }
  std::string_view rest = variable;
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    std::string_view one = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    while (!one.empty() && one.front() == ' ') one.remove_prefix(1);
    int found = -1;
    if (one.substr(0, 4) == "GPU-") {
      for (int index = 0; index < driver.num_devices(); ++index) {
        if (uuid_text(driver, index).compare(0, one.size(), one) != 0) continue;
        found = found == -1 ? index : -2;
      }
    } else {
      const auto [end, error] = std::from_chars(one.data(), one.data() + one.size(), found);
      static_cast<void>(end);
      if (error != std::errc()) found = -1;
    }
    if (found < 0 || found >= driver.num_devices()) break;
    for (const int before : visible) {
      if (before == found) return visible;
    }
    visible.push_back(found);
  }
  return visible;
}

struct Visible {
  Mutex mutex;
  std::uint64_t generation VMEM_GUARDED_BY(mutex) = 0;
  std::vector<int> indices VMEM_GUARDED_BY(mutex);
};

Visible& visible() {
  static Visible* const instance = new Visible;
  return *instance;
}

// What the process's state alone decides.
CuResult refuse_process() {
  if (sim::is_forked()) return kCuNotInitialized;
  if (sim::is_exiting()) {
    const auto late = sim::current_late_calls();
    if (late == sim::LateCalls::kAbort) {
      std::fprintf(stderr, "the double was called after the exit of the process had begun\n");
      std::abort();
    }
    if (late == sim::LateCalls::kRefuse) return kCuDeinitialized;
  }
  return kCuSuccess;
}

}  // namespace

int version() {
  const int set = sim::current_settings().version;
  return set != 0 ? set : built_version();
}

CuResult result_of(Error error) { return static_cast<CuResult>(code_of(error)); }

CuResult initialize() {
  const sim::Settings settings = sim::current_settings();
  if (settings.personality == sim::Personality::kNoDevice || settings.num_devices == 0) return kCuNoDevice;
  if (settings.personality == sim::Personality::kBrokenInit) return kCuUnknown;
  const Driver& driver = sim::start_driver(kVendor);
  Visible& now = visible();
  MutexLock lock(now.mutex);
  if (now.generation != sim::generation()) {
    now.generation = sim::generation();
    now.indices = read_visible(driver);
  }
  return now.indices.empty() ? kCuNoDevice : kCuSuccess;
}

int num_visible() {
  Visible& now = visible();
  MutexLock lock(now.mutex);
  return static_cast<int>(now.indices.size());
}

std::optional<int> index_of(CuDevice device) {
  Visible& now = visible();
  MutexLock lock(now.mutex);
  if (device < 0 || static_cast<std::size_t>(device) >= now.indices.size()) return std::nullopt;
  return now.indices[static_cast<std::size_t>(device)];
}

CuDevice ordinal_of(int index) {
  Visible& now = visible();
  MutexLock lock(now.mutex);
  for (std::size_t i = 0; i < now.indices.size(); ++i) {
    if (now.indices[i] == index) return static_cast<CuDevice>(i);
  }
  return -1;
}

CuResult begin_free_call(std::string_view name) {
  const sim::CallFault fault = Driver::faults().call(name);
  if (sim::current_personality() == sim::Personality::kStub) return kCuStubLibrary;
  return static_cast<CuResult>(fault.fail);
}

CuResult begin_call(std::string_view name, unsigned needs, Call& call) {
  call.fault = Driver::faults().call(name);
  if (sim::current_personality() == sim::Personality::kStub) return kCuStubLibrary;
  if (const CuResult refused = refuse_process(); refused != kCuSuccess) return refused;
  if (Driver::in_callback()) return kCuNotPermitted;
  if (call.fault.fail != 0) return static_cast<CuResult>(call.fault.fail);
  call.driver = sim::driver();
  if (call.driver == nullptr) return kCuNotInitialized;
  bool was_one = false;
  const Handle current = current_context();
  if (current != 0) call.context = call.driver->context(current, &was_one);
  const int failure = call.driver->failure(call.context != nullptr ? call.context->device : -1);
  if (failure != 0) return static_cast<CuResult>(failure);
  sim::Scheduler::take_waited();
  if ((needs & kContext) != 0 && call.context == nullptr) return was_one ? kCuContextIsDestroyed : kCuInvalidContext;
  if ((needs & kUnsafe) != 0) return result_of(call.driver->check_captures());
  return kCuSuccess;
}

CuResult end_call(const Call& call, CuResult result) {
  if (!sim::Scheduler::take_waited()) return result;
  const int current = call.context != nullptr ? call.context->device : -1;
  for (const int device : {current, call.worked_on}) {
    if (const int failure = call.driver->failure(device); failure != 0) return static_cast<CuResult>(failure);
  }
  return result;
}

PerThreadStreams::PerThreadStreams() { ++thread_state().per_thread_streams; }
PerThreadStreams::~PerThreadStreams() { --thread_state().per_thread_streams; }

Handle current_context() {
  const ThreadState& state = thread_state();
  return state.num_contexts == 0 ? 0 : state.contexts[state.num_contexts - 1];
}

bool push_context(Handle context) {
  ThreadState& state = thread_state();
  if (state.num_contexts == state.contexts.size()) return false;
  state.contexts[state.num_contexts++] = context;
  return true;
}

Handle pop_context() {
  ThreadState& state = thread_state();
  return state.num_contexts == 0 ? 0 : state.contexts[--state.num_contexts];
}

std::shared_ptr<sim::Queue> queue_of(const Call& call, CuStream stream) {
  const Handle handle = as_number(stream);
  const bool of_thread = handle == kCuStreamPerThread || (handle == 0 && thread_state().per_thread_streams != 0);
  if (of_thread) return call.driver->thread_queue(*call.context);
  if (handle == 0 || handle == kCuStreamLegacy) return call.context->legacy;
  return call.driver->queue(handle);
}

}  // namespace vmem::cuda_double
