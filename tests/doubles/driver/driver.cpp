#include "tests/doubles/driver/driver.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string_view>

#include "runtime/support/check.hpp"

namespace vmem::sim {
namespace {

#if defined(__SANITIZE_THREAD__)
#define VMEM_UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define VMEM_UNDER_TSAN 1
#endif
#endif

// ThreadSanitizer leaves little of the address space.
#if defined(VMEM_UNDER_TSAN)
constexpr std::size_t kArenaBytes = std::size_t{64} << 30U;
#else
constexpr std::size_t kArenaBytes = std::size_t{1} << 40U;
#endif
constexpr std::size_t kHostCapacity = std::size_t{1} << 40U;

}  // namespace

Handle next_handle() {
  static std::atomic<Handle> last{0x10000};
  return last.fetch_add(0x10) + 0x10;
}

KernelTable& Driver::kernels() {
  static KernelTable* const table = new KernelTable;
  return *table;
}

FaultPlan& Driver::faults() {
  static FaultPlan* const plan = new FaultPlan;
  return *plan;
}

Driver::Driver(Settings settings, const Vendor& vendor)
    : settings_(std::move(settings)),
      vendor_(vendor),
      scheduler_(failures_,
                 [this](int device, WorkEnd end) {
                   driver_mutex.assert_held();
                   const int code = end.error == Error::kInjected ? end.code : vendor_.code_of(end.error);
                   int& failure = vendor_.failures_spread ? failures_.process
                                                          : failures_.devices[static_cast<std::size_t>(device)];
                   if (failure == 0) failure = code;
                   scheduler_.wake();
                 }),
      addresses_(settings_.num_devices, settings_.arena_bytes != 0 ? settings_.arena_bytes : kArenaBytes) {
  MutexLock lock(driver_mutex);
  for (int device = 0; device < settings_.num_devices; ++device) {
    memories_.push_back(std::make_unique<PhysicalMemory>(device, settings_.capacity));
  }
  memories_.push_back(std::make_unique<PhysicalMemory>(kHostLocation, kHostCapacity));
  const auto num_devices = static_cast<std::size_t>(settings_.num_devices);
  failures_.devices.resize(num_devices);
  primaries_.resize(num_devices);
  locks_.resize(num_devices);
}

Driver::~Driver() {
  MutexLock lock(driver_mutex);
  scheduler_.stop();
  while (!pinned_.empty()) free_pinned(pinned_.begin()->first);
}

std::array<std::uint8_t, 16> Driver::uuid(int device) const {
  std::array<std::uint8_t, 16> uuid{};
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    uuid[i] = static_cast<std::uint8_t>(vendor_.pci_bus * 16 + i * 7 + static_cast<std::size_t>(device) * 31 + 1);
  }
  return uuid;
}

// -- Failures --------------------------------------------------------------------------------------------------------

int Driver::failure(int device) {
  MutexLock lock(driver_mutex);
  return failures_.of(device);
}

void Driver::lose_device(int device, int code) {
  MutexLock lock(driver_mutex);
  if (device < 0 || device >= settings_.num_devices) return;
  failures_.devices[static_cast<std::size_t>(device)] = code;
  scheduler_.wake();
}

void Driver::fail_all(int code) {
  MutexLock lock(driver_mutex);
  failures_.process = code;
  scheduler_.wake();
}

void Driver::release_hung() {
  MutexLock lock(driver_mutex);
  scheduler_.release_hung();
}

std::uint64_t Driver::num_hung() {
  MutexLock lock(driver_mutex);
  return scheduler_.num_hung();
}

void Driver::set_peer(int device, int peer, vmem_double_peer behaviour) {
  MutexLock lock(driver_mutex);
  settings_.links[{device, peer}] = behaviour;
}

void Driver::occupy(int device, std::size_t bytes) {
  MutexLock lock(driver_mutex);
  if (device >= 0 && device < settings_.num_devices) memory_at(device).occupy(bytes);
}

std::uint64_t Driver::count(std::string_view what) {
  MutexLock lock(driver_mutex);
  if (what == "contexts") return contexts_.size();
  if (what == "streams") return queues_.size();
  if (what == "events") return events_.size();
  if (what == "allocations") return allocations_.size();
  if (what == "chunks") return chunks_.size();
  if (what == "reservations") return addresses_.num_reservations();
  if (what == "mappings") return addresses_.num_mappings();
  if (what == "registrations") return pinned_.size();
  if (what == "modules") return modules_.size();
  if (what == "graphs") return graphs_.size();
  if (what == "work") return scheduler_.num_pending();
  if (what == "peer_copies") return peer_copies_;
  if (what == "staged_copies") return staged_copies_;
  return UINT64_MAX;
}

vmem_double_peer Driver::link(int device, int peer) const { return settings_.link(device, peer); }

// -- Contexts --------------------------------------------------------------------------------------------------------

bool Driver::occupy_exclusively(int device) {
  UniqueFd& held = locks_[static_cast<std::size_t>(device)];
  if (settings_.exclusive.empty() || held) return true;
  const std::string path = settings_.exclusive + "/device" + std::to_string(device);
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return false;
  held = std::move(file);
  return true;
}

Error Driver::make_context(int device, bool primary, unsigned flags, Handle& handle) {
  if (!occupy_exclusively(device)) return Error::kDeviceUnavailable;
  auto context = std::make_shared<Context>();
  context->device = device;
  context->primary = primary;
  context->flags = flags;
  handle = contexts_.add(context);
  context->handle = handle;
  context->id = handle;
  context->legacy = make_queue(*context, true, 0);
  context->legacy->legacy = true;
  return Error::kNone;
}

void Driver::end_context(const std::shared_ptr<Context>& context) {
  for (const auto& weak : context->queues) {
    if (const auto queue = weak.lock()) {
      scheduler_.wait(queue->tail, context->device);
      scheduler_.close(*queue);
    }
  }
  context->alive = false;
  queues_.erase_if([&](const Queue& queue) { return queue.context == context.get(); });
  events_.erase_if([&](const Event& event) { return event.context == context.get(); });
  functions_.erase_if([&](const Function& function) {
    driver_mutex.assert_held();
    const auto module = modules_.find(function.module);
    return module != nullptr && module->context == context.get();
  });
  modules_.erase_if([&](const Module& module) { return module.context == context.get(); });
  for (auto each = allocations_.begin(); each != allocations_.end();) {
    const Address address = each->first;
    const bool mine = each->second.context == context->handle;
    ++each;
    if (mine) free_allocation(address);
  }
  for (auto each = pinned_.begin(); each != pinned_.end();) {
    char* const host = each->first;
    const bool mine = each->second.context == context->handle;
    ++each;
    if (mine) free_pinned(host);
  }
  ended_contexts_.insert(context->handle);
  contexts_.take(context->handle);
  // Queues that still run borrow it; there are few contexts.
  static std::vector<std::shared_ptr<Context>>* const kept = new std::vector<std::shared_ptr<Context>>;
  kept->push_back(context);
}

Error Driver::retain_primary(int device, Handle& context) {
  MutexLock lock(driver_mutex);
  Primary& primary = primaries_[static_cast<std::size_t>(device)];
  if (primary.context == 0) {
    const Error error = make_context(device, true, primary.flags, primary.context);
    if (error != Error::kNone) return error;
  }
  ++primary.retains;
  context = primary.context;
  return Error::kNone;
}

Error Driver::release_primary(int device) {
  MutexLock lock(driver_mutex);
  Primary& primary = primaries_[static_cast<std::size_t>(device)];
  if (primary.retains == 0) return Error::kInvalidContext;
  if (--primary.retains > 0) return Error::kNone;
  const auto context = contexts_.find(primary.context);
  primary.context = 0;
  end_context(context);
  return Error::kNone;
}

Error Driver::reset_primary(int device) {
  MutexLock lock(driver_mutex);
  Primary& primary = primaries_[static_cast<std::size_t>(device)];
  if (primary.context == 0) return Error::kNone;
  const auto context = contexts_.find(primary.context);
  primary = Primary{0, 0, primary.flags};
  end_context(context);
  return Error::kNone;
}

Error Driver::set_primary_flags(int device, unsigned flags) {
  MutexLock lock(driver_mutex);
  Primary& primary = primaries_[static_cast<std::size_t>(device)];
  primary.flags = flags;
  if (const auto context = contexts_.find(primary.context)) context->flags = flags;
  return Error::kNone;
}

void Driver::primary_state(int device, unsigned& flags, bool& active) {
  MutexLock lock(driver_mutex);
  const Primary& primary = primaries_[static_cast<std::size_t>(device)];
  flags = primary.flags;
  active = primary.context != 0;
}

Error Driver::create_context(int device, unsigned flags, Handle& context) {
  MutexLock lock(driver_mutex);
  return make_context(device, false, flags, context);
}

Error Driver::destroy_context(Handle handle) {
  MutexLock lock(driver_mutex);
  const auto context = contexts_.find(handle);
  if (context == nullptr) return ended_contexts_.count(handle) != 0 ? Error::kContextDestroyed : Error::kInvalidContext;
  if (context->primary) return Error::kInvalidContext;
  end_context(context);
  return Error::kNone;
}

std::shared_ptr<Context> Driver::context(Handle handle, bool* was_one) {
  MutexLock lock(driver_mutex);
  if (was_one != nullptr) *was_one = ended_contexts_.count(handle) != 0;
  return contexts_.find(handle);
}

Error Driver::synchronize(const Context& context) {
  MutexLock lock(driver_mutex);
  std::vector<std::shared_ptr<Marker>> tails;
  for (const auto& weak : context.queues) {
    const auto queue = weak.lock();
    if (queue == nullptr) continue;
    if (queue->capture != nullptr) {
      invalidate(*queue->capture);
      return Error::kCaptureUnsupported;
    }
    tails.push_back(queue->tail);
  }
  for (const auto& tail : tails) scheduler_.wait(tail, context.device);
  return Error::kNone;
}

void Driver::drain(int device) {
  std::vector<std::shared_ptr<Marker>> tails;
  for (const auto& [handle, context] : contexts_) {
    if (context->device != device) continue;
    for (const auto& weak : context->queues) {
      if (const auto queue = weak.lock()) tails.push_back(queue->tail);
    }
  }
  for (const auto& tail : tails) scheduler_.wait(tail, device);
}

// -- Peers -----------------------------------------------------------------------------------------------------------

bool Driver::can_access_peer(int device, int peer) {
  MutexLock lock(driver_mutex);
  return device != peer && link(device, peer) != VMEM_DOUBLE_PEER_ABSENT;
}

Error Driver::enable_peer(int device, int peer) {
  MutexLock lock(driver_mutex);
  if (device == peer) return Error::kInvalidDevice;
  if (link(device, peer) == VMEM_DOUBLE_PEER_ABSENT) return Error::kPeerUnsupported;
  if (!peers_.emplace(device, peer).second) return Error::kPeerAlreadyEnabled;
  for (const auto& [address, allocation] : allocations_) {
    if (allocation.device != peer) continue;
    const Error error = grant(address, allocation.mapped_bytes, device, peer, Protection::kReadWrite);
    VMEM_CHECK(error == Error::kNone);
  }
  return Error::kNone;
}

Error Driver::disable_peer(int device, int peer) {
  MutexLock lock(driver_mutex);
  if (peers_.erase({device, peer}) == 0) return Error::kPeerNotEnabled;
  for (const auto& [address, allocation] : allocations_) {
    if (allocation.device != peer) continue;
    const Error error = grant(address, allocation.mapped_bytes, device, peer, Protection::kNone);
    VMEM_CHECK(error == Error::kNone);
  }
  return Error::kNone;
}

}  // namespace vmem::sim
