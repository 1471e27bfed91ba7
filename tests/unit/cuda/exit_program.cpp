// Holds a backend with work in flight while the process ends: exit_program MODULE WHO. `WHO` says what holds it.
#include <dlfcn.h>
#include <vmem/backend_config.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace vmem;

struct Holder {
  std::unique_ptr<Backend> backend;
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<Event> events;
  void* window = nullptr;
  Chunk chunk;
  std::vector<std::uint8_t> host = std::vector<std::uint8_t>(8192);

  // As a pool that is closed: it gives back, then ends devices and backend.
  Holder() = default;
  Holder(Holder&&) = default;
  ~Holder() {
    for (const Event& event : events) static_cast<void>(event.is_done());
    if (!devices.empty() && window != nullptr) {
      static_cast<void>(devices[0]->unmap(window, chunk.bytes));
      static_cast<void>(devices[0]->destroy_chunk(chunk));
      static_cast<void>(devices[0]->unregister_host(host.data()));
    }
    for (const Event& event : events) static_cast<void>(event.wait());
  }
};

Holder g_before;  // destroyed after everything that begins later
thread_local Holder t_holder;

Status fill(Holder& holder, const char* module) {
  void* const handle = ::dlopen(module, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return Status(StatusCode::kNotFound, ::dlerror());
  const auto entry = reinterpret_cast<decltype(&vmem_backend_entry)>(::dlsym(handle, "vmem_backend_entry"));
  BackendConfig config;
  config.log = [](LogLevel, std::string_view) {};
  VMEM_ASSIGN_OR_RETURN(holder.backend, entry()->create(config));
  VMEM_ASSIGN_OR_RETURN(holder.devices, holder.backend->discover());
  Device& device = *holder.devices.at(0);
  const std::size_t bytes = device.info().granularity;
  VMEM_ASSIGN_OR_RETURN(const Stream stream, device.create_stream());
  VMEM_ASSIGN_OR_RETURN(holder.chunk, device.create_chunk(bytes));
  VMEM_ASSIGN_OR_RETURN(holder.window, device.reserve_window(bytes));
  VMEM_RETURN_IF_ERROR(device.map(holder.window, holder.chunk));
  VMEM_RETURN_IF_ERROR(device.register_host(holder.host.data(), holder.host.size()).error());
  for (int i = 0; i < 8; ++i) {
    VMEM_ASSIGN_OR_RETURN(const Event event, device.fill(holder.window, 1, bytes, stream));
    event.then([](const Status&) {});
    holder.events.push_back(event);
  }
  return {};
}

}  // namespace

// AddressSanitizer asks it at the start: what nobody destroys is a leak on purpose here.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }

int main(int count, char** arguments) {
  if (count != 3) return 2;
  const std::string who = arguments[2];
  Holder* holder = &g_before;
  if (who == "atexit-before") {
    // Registered before the driver's handlers, hence called after them.
    static Holder* const held = new Holder;
    std::atexit([] { delete held; });
    holder = held;
  } else if (who == "thread-local") {
    holder = &t_holder;
  } else if (who == "nobody") {
    holder = new Holder;
  }
  std::unique_ptr<Holder> local;
  if (who == "main") {
    local = std::make_unique<Holder>();
    holder = local.get();
  }
  if (const Status status = fill(*holder, arguments[1]); !status) {
    std::fprintf(stderr, "%s\n", status.to_string().c_str());
    return 1;
  }
  if (who == "static-after") {
    static Holder after = std::move(g_before);
    static_cast<void>(after);
  }
  if (who == "atexit-after") {
    static Holder* const held = &g_before;
    std::atexit([] {
      held->devices.clear();
      held->backend.reset();
    });
  }
  if (who == "exit") std::exit(0);
  return 0;
}
