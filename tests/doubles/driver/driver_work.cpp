// Driver: copies, fills, kernels and words that streams write and wait for.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/doubles/driver/access_guard.hpp"
#include "tests/doubles/driver/driver.hpp"

namespace vmem::sim {
namespace {

// Up to here a copy from pageable memory takes the bytes with it; above, the call lasts until they have been read.
constexpr std::size_t kTakenAlong = std::size_t{64} << 10U;

thread_local bool t_in_callback = false;

bool corrupts(const CallFault* fault) { return fault != nullptr && fault->corrupt; }

// A kernel that follows a pointer to the program's own memory would find something there, which a device does not.
bool is_in_process(std::uint64_t address) {
  unsigned char resident = 0;
  return ::mincore(reinterpret_cast<void*>(address / kPage * kPage), kPage, &resident) == 0;
}

bool holds(Driver::Condition condition, std::uint64_t found, std::uint64_t value, unsigned bytes) {
  switch (condition) {
    case Driver::Condition::kAtLeast:  // cyclic
      return bytes == 4 ? static_cast<std::int32_t>(static_cast<std::uint32_t>(found - value)) >= 0
                        : static_cast<std::int64_t>(found - value) >= 0;
    case Driver::Condition::kEqual:
      return found == value;
    case Driver::Condition::kAnd:
      return (found & value) != 0;
    case Driver::Condition::kNor:
      break;
  }
  return (~(found | value) & (bytes == 4 ? 0xFFFFFFFFU : ~std::uint64_t{0})) != 0;
}

}  // namespace

bool Driver::in_callback() { return t_in_callback; }

// -- Copies and fills ------------------------------------------------------------------------------------------------

char* Driver::reach(const Place& place, std::size_t bytes, bool write) const {
  const bool in_arena = addresses_.contains(place.address);
  if (!in_arena) return place.host ? reinterpret_cast<char*>(place.address) : nullptr;
  const View view = place.host ? kCpuView : view_of(place.device);
  if (!addresses_.accessible(view, place.address, bytes, write)) return nullptr;
  return addresses_.pointer(view, place.address);
}

int Driver::owner_of(Address address) const {
  const auto found = addresses_.find(address);
  return !found || found.mapping->backing == nullptr ? kHostLocation : found.mapping->backing->location;
}

bool Driver::settle(Place& place, std::size_t bytes, bool write, int device, bool staged) {
  if (!place.host && !addresses_.contains(place.address)) {
    // Pinned memory is at the same address for devices.
    if (!is_pinned(reinterpret_cast<const char*>(place.address), bytes)) return false;
    place.host = true;
    return true;
  }
  if (place.host) return reach(place, bytes, write) != nullptr;
  const int own = place.device;
  place.device = device;
  if (reach(place, bytes, write) != nullptr) return true;
  if (staged) place.device = own;
  return !settings_.checks_ranges || (staged && reach(place, bytes, write) != nullptr);
}

WorkEnd Driver::run_copy(const Place& to, const Place& from, std::size_t bytes, bool corrupt) {
  char* destination = nullptr;
  const char* source = nullptr;
  {
    MutexLock lock(driver_mutex);
    destination = reach(to, bytes, true);
    source = reach(from, bytes, false);
  }
  if (destination == nullptr || source == nullptr) return {Error::kIllegalAddress, 0};
  const bool done = run_guarded([&] {
    std::memmove(destination, source, bytes);
    if (corrupt) destination[bytes / 2] = static_cast<char>(~destination[bytes / 2]);
  });
  return {done ? Error::kNone : Error::kIllegalAddress, 0};
}

Error Driver::copy(const std::shared_ptr<Queue>& queue, Place to, Place from, std::size_t bytes, bool staged,
                   Wait wait) {
  if (bytes == 0) return Error::kNone;
  MutexLock lock(driver_mutex);
  staged = staged && !to.host && !from.host;
  const int device = queue->device;
  if (!settle(to, bytes, true, device, staged) || !settle(from, bytes, false, device, staged)) {
    return Error::kInvalidValue;
  }
  vmem_double_peer behaviour = VMEM_DOUBLE_PEER_WORKS;
  if (!to.host && !from.host) {
    const int destination = owner_of(to.address), source = owner_of(from.address);
    if (destination != source && destination != kHostLocation && source != kHostLocation) {
      const bool direct = to.device == device && from.device == device;
      ++(direct ? peer_copies_ : staged_copies_);
      if (direct) behaviour = link(device, destination == device ? source : destination);
    }
  }
  const bool corrupt = corrupts(call_fault());
  Work work = [this, to, from, bytes, corrupt, behaviour](Running& running) {
    if (behaviour == VMEM_DOUBLE_PEER_CRASHES) std::abort();
    if (behaviour == VMEM_DOUBLE_PEER_HANGS && !running.hang()) return WorkEnd();
    return run_copy(to, from, bytes, corrupt);
  };
  const auto pageable = [&](const Place& place) {
    driver_mutex.assert_held();
    return place.host && !addresses_.contains(place.address) &&
           !is_pinned(reinterpret_cast<const char*>(place.address), bytes);
  };
  if (wait == Wait::kNo && queue->capture == nullptr && (pageable(to) || pageable(from))) {
    if (!to.host && bytes <= kTakenAlong) {
      const char* const source = reinterpret_cast<const char*>(from.address);
      auto taken = std::make_shared<std::vector<char>>(source, source + bytes);
      work = [this, to, bytes, corrupt, taken](Running&) {
        return run_copy(to, {reinterpret_cast<Address>(taken->data()), true, 0}, bytes, corrupt);
      };
    } else {
      wait = Wait::kAsDriversDo;
    }
  }
  return submit_and_wait(queue, std::move(work), wait);
}

Error Driver::fill(const std::shared_ptr<Queue>& queue, Address address, std::uint32_t value, unsigned width,
                   std::size_t count, Wait wait) {
  if (count == 0) return Error::kNone;
  if (count > SIZE_MAX / width || address % width != 0) return Error::kInvalidValue;
  const std::size_t bytes = count * width;
  MutexLock lock(driver_mutex);
  Place to{address, false, queue->device};
  if (!settle(to, bytes, true, queue->device, false)) return Error::kInvalidValue;
  const bool corrupt = corrupts(call_fault());
  const auto work = [this, to, value, width, bytes, corrupt](Running&) {
    char* destination = nullptr;
    {
      MutexLock held(driver_mutex);
      destination = reach(to, bytes, true);
    }
    if (destination == nullptr) return WorkEnd{Error::kIllegalAddress, 0};
    const bool done = run_guarded([&] {
      if (width == 1) {
        std::memset(destination, static_cast<int>(value), bytes);
      } else {
        for (std::size_t at = 0; at < bytes; at += width) std::memcpy(destination + at, &value, width);
      }
      if (corrupt) destination[bytes / 2] = static_cast<char>(~destination[bytes / 2]);
    });
    return WorkEnd{done ? Error::kNone : Error::kIllegalAddress, 0};
  };
  return submit_and_wait(queue, work, wait);
}

// -- Kernels ---------------------------------------------------------------------------------------------------------

bool Driver::translate(int device, std::uint64_t& value, bool pointer) {
  if (addresses_.contains(value)) {
    value = reinterpret_cast<std::uint64_t>(addresses_.pointer(view_of(device), value));
    return true;
  }
  return !pointer || pinned_at(reinterpret_cast<const char*>(value)) != nullptr || !is_in_process(value);
}

WorkEnd Driver::run_kernel(int device, const Kernel& kernel, const Launch& shape,
                           const std::vector<std::byte>& values) {
  std::vector<std::byte> translated = values;
  std::vector<const void*> arguments;
  {
    MutexLock lock(driver_mutex);
    for (const Parameter& parameter : kernel.parameters) {
      std::byte* const place = translated.data() + parameter.offset;
      arguments.push_back(place);
      if (parameter.bytes != sizeof(std::uint64_t)) continue;
      std::uint64_t value = 0;
      std::memcpy(&value, place, sizeof value);
      if (!translate(device, value, parameter.pointer)) return {Error::kIllegalAddress, 0};
      std::memcpy(place, &value, sizeof value);
    }
  }
  const KernelContext context{shape.grid, shape.block, wave_width(), arguments.data(), arguments.size()};
  const bool done = run_guarded([&] { kernel.body(context); });
  return {done ? Error::kNone : Error::kIllegalAddress, 0};
}

Error Driver::launch(const std::shared_ptr<Queue>& queue, const Function& function, const Launch& launch) {
  std::uint64_t threads = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    if (launch.grid[i] == 0 || launch.block[i] == 0) return Error::kInvalidValue;
    threads *= launch.block[i];
    if (threads > 1024) return Error::kInvalidValue;
  }
  if (launch.block[2] > 64 || launch.grid[1] > 65535 || launch.grid[2] > 65535) return Error::kInvalidValue;
  const auto& parameters = function.kernel.parameters;
  std::vector<std::byte> values(parameters.empty() ? 0 : parameters.back().offset + parameters.back().bytes);
  if (!values.empty() && launch.parameters == nullptr) {
    if (launch.buffer.size() < values.size()) return Error::kInvalidValue;
    std::copy_n(launch.buffer.begin(), values.size(), values.begin());
  } else {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (launch.parameters[i] == nullptr) return Error::kInvalidValue;
      std::memcpy(values.data() + parameters[i].offset, launch.parameters[i], parameters[i].bytes);
    }
  }
  Launch shape = launch;
  shape.parameters = nullptr;
  shape.buffer = {};
  MutexLock lock(driver_mutex);
  const auto work = [this, kernel = function.kernel, shape, values = std::move(values)](Running& running) {
    return run_kernel(running.device(), kernel, shape, values);
  };
  return submit_and_wait(queue, work, Wait::kNo);
}

Error Driver::load_module(Context& context, const void* image, Handle& handle) {
  if (image == nullptr) return Error::kInvalidValue;
  auto module = std::make_shared<Module>();
  module->context = &context;
  const auto* const text = static_cast<const char*>(image);
  const auto printable = [](char c) { return (c >= ' ' && c <= '~') || c == '\n' || c == '\t' || c == '\r'; };
  // Binary images begin with a number of their format, and their length is not known.
  if (printable(text[0]) && printable(text[1]) && printable(text[2]) && printable(text[3])) module->image = text;
  MutexLock lock(driver_mutex);
  handle = modules_.add(std::move(module));
  return Error::kNone;
}

Error Driver::unload_module(Handle handle) {
  MutexLock lock(driver_mutex);
  const auto module = modules_.take(handle);
  if (module == nullptr) return Error::kInvalidHandle;
  drain(module->context->device);
  for (const auto& [name, function] : module->functions) functions_.take(function);
  return Error::kNone;
}

Error Driver::find_function(Handle handle, const char* name, Handle& function) {
  if (name == nullptr) return Error::kInvalidValue;
  MutexLock lock(driver_mutex);
  const auto module = modules_.find(handle);
  if (module == nullptr) return Error::kInvalidHandle;
  if (const auto known = module->functions.find(name); known != module->functions.end()) {
    function = known->second;
    return Error::kNone;
  }
  if (!module->image.empty() && module->image.find(name) == std::string::npos) return Error::kNotFound;
  auto kernel = kernels().find(module->image, name);
  if (!kernel) return Error::kNotFound;
  function = functions_.add(std::make_shared<Function>(Function{handle, std::move(*kernel)}));
  module->functions.emplace(name, function);
  return Error::kNone;
}

std::shared_ptr<Function> Driver::function(Handle handle) {
  MutexLock lock(driver_mutex);
  return functions_.find(handle);
}

// -- Words and callbacks ---------------------------------------------------------------------------------------------

char* Driver::word(int device, Address address, unsigned bytes) {
  Place place{address, false, device};
  if (!addresses_.contains(address)) {
    if (!is_pinned(reinterpret_cast<const char*>(address), bytes)) return nullptr;
    place.host = true;
  }
  return reach(place, bytes, true);
}

Error Driver::write_value(const std::shared_ptr<Queue>& queue, Address address, std::uint64_t value, unsigned bytes) {
  if (!settings_.stream_values) return Error::kNotSupported;
  if (address % bytes != 0) return Error::kInvalidValue;
  MutexLock lock(driver_mutex);
  if (word(queue->device, address, bytes) == nullptr) return Error::kInvalidValue;
  const auto work = [this, address, value, bytes](Running& running) {
    MutexLock held(driver_mutex);
    char* const place = word(running.device(), address, bytes);
    if (place == nullptr) return WorkEnd{Error::kIllegalAddress, 0};
    if (bytes == 4) {
      __atomic_store_n(reinterpret_cast<std::uint32_t*>(place), static_cast<std::uint32_t>(value), __ATOMIC_SEQ_CST);
    } else {
      __atomic_store_n(reinterpret_cast<std::uint64_t*>(place), value, __ATOMIC_SEQ_CST);
    }
    return WorkEnd();
  };
  return submit_and_wait(queue, work, Wait::kNo);
}

Error Driver::wait_value(const std::shared_ptr<Queue>& queue, Address address, std::uint64_t value, unsigned bytes,
                         Condition condition) {
  if (!settings_.stream_values) return Error::kNotSupported;
  if (address % bytes != 0) return Error::kInvalidValue;
  MutexLock lock(driver_mutex);
  if (word(queue->device, address, bytes) == nullptr) return Error::kInvalidValue;
  const auto work = [this, address, value, bytes, condition](Running& running) {
    bool gone = false;
    running.poll([&] {
      MutexLock held(driver_mutex);
      const char* const place = word(running.device(), address, bytes);
      gone = place == nullptr;
      if (gone) return true;
      const std::uint64_t found =
          bytes == 4 ? __atomic_load_n(reinterpret_cast<const std::uint32_t*>(place), __ATOMIC_SEQ_CST)
                     : __atomic_load_n(reinterpret_cast<const std::uint64_t*>(place), __ATOMIC_SEQ_CST);
      return holds(condition, found, value, bytes);
    });
    return gone ? WorkEnd{Error::kIllegalAddress, 0} : WorkEnd();
  };
  return submit_and_wait(queue, work, Wait::kNo);
}

Error Driver::call_host(const std::shared_ptr<Queue>& queue, void (*callback)(void*), void* argument) {
  if (callback == nullptr) return Error::kInvalidValue;
  MutexLock lock(driver_mutex);
  const auto work = [callback, argument](Running&) {
    t_in_callback = true;
    callback(argument);
    t_in_callback = false;
    return WorkEnd();
  };
  return submit_and_wait(queue, work, Wait::kNo);
}

}  // namespace vmem::sim
