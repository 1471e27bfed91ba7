#include <vmem/vmem.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>

#include "runtime/pool/c_api.hpp"
#include "runtime/support/format.hpp"

namespace vmem {
namespace {

Result<RuntimeOptions> convert(const vmemRuntimeOptions_t* given) {
  constexpr vmemRuntimeOptions_t kDefaults = VMEM_RUNTIME_OPTIONS_INIT;
  VMEM_ASSIGN_OR_RETURN(const auto c, read_options(given, kDefaults, "vmemRuntimeOptions_t"));
  RuntimeOptions options;
  if (c.topology_file != nullptr) options.topology_file = c.topology_file;
  if (c.backend_dir != nullptr) options.backend_dir = c.backend_dir;
  if (c.simulated_gpus < -1) {
    return Status(StatusCode::kConfigError,
                  format("option simulated_gpus is {}: expected -1 or more", c.simulated_gpus));
  }
  if (c.simulated_gpus >= 0) options.simulated_gpus = static_cast<unsigned>(c.simulated_gpus);
  if (raw_value(c.log_level) != vmemLogDefault) {
    VMEM_ASSIGN_OR_RETURN(options.log_level, convert_enum<LogLevel>(c.log_level, vmemLogDebug, "log_level"));
  }
  options.host_limit_bytes = c.host_limit_bytes;
  options.staging_bytes = c.staging_bytes;
  // Beyond what a duration holds it is too long anyway: the runtime says what it takes.
  options.copy_timeout = std::chrono::milliseconds(std::min<std::uint64_t>(c.copy_timeout_ms, INT64_MAX));
  if (c.log != nullptr) {
    options.log = [log = c.log, user = c.log_user](LogLevel level, std::string_view message) {
      log(static_cast<vmemLogLevel_t>(level), std::string(message).c_str(), user);
    };
  }
  return options;
}

Result<std::unique_ptr<vmemRuntime_st>> open_runtime(const vmemRuntimeOptions_t* given) {
  VMEM_ASSIGN_OR_RETURN(const RuntimeOptions options, convert(given));
  auto handle = std::make_unique<vmemRuntime_st>();
  VMEM_ASSIGN_OR_RETURN(handle->runtime, Runtime::create(options));
  const std::size_t count = handle->runtime->topology().devices().size();
  handle->devices.reserve(count);
  for (DeviceIndex i = 0; i < count; ++i) handle->devices.push_back({handle.get(), i});
  return handle;
}

template <std::size_t N>
void copy_text(char (&target)[N], const std::string& text) {
  const std::size_t bytes = std::min(text.size(), N - 1);
  std::memcpy(target, text.data(), bytes);
  target[bytes] = '\0';
}

vmemDeviceInfo_t convert(const TopologyDevice& device, DeviceIndex index) {
  const DeviceInfo& info = device.info;
  vmemDeviceInfo_t c = VMEM_DEVICE_INFO_INIT;
  copy_text(c.name, info.name);
  copy_text(c.backend, info.backend);
  copy_text(c.vendor, info.vendor);
  copy_text(c.model, info.model);
  copy_text(c.uuid, info.uuid);
  if (info.pci) {
    const PciAddress& pci = *info.pci;
    copy_text(c.pci, format("{:04x}:{:02x}:{:02x}.{}", pci.domain, pci.bus, pci.device, pci.function));
  }
  c.index = static_cast<int>(index);
  c.numa_node = info.numa_node ? static_cast<int>(*info.numa_node) : -1;
  c.tier = static_cast<vmemTier_t>(info.tier);
  c.wave_width = info.wave_width;
  c.simulated = info.simulated ? 1 : 0;
  c.caps = info.caps.bits();
  c.total_bytes = info.total_bytes;
  c.limit_bytes = device.limit_bytes;
  c.granularity = info.granularity;
  return c;
}

// Takes a handle apart. What a forked child has of it is left as it is: threads and drivers are the parent's.
void close_runtime(std::unique_ptr<vmemRuntime_st> handle) {
  if (handle->fork.in_child()) (void)handle.release();
}

Result<PoolOptions> convert(const vmemPoolOptions_t* given) {
  constexpr vmemPoolOptions_t kDefaults = VMEM_POOL_OPTIONS_INIT;
  VMEM_ASSIGN_OR_RETURN(const auto c, read_options(given, kDefaults, "vmemPoolOptions_t"));
  PoolOptions options;
  if (c.name != nullptr) options.name = c.name;
  if (c.block_bytes != 0) options.block_bytes = c.block_bytes;
  if (c.address_bytes != 0) options.address_bytes = c.address_bytes;
  VMEM_ASSIGN_OR_RETURN(options.fit, convert_enum<FitStrategy>(c.fit, vmemFitWorst, "fit"));
  VMEM_ASSIGN_OR_RETURN(options.placement,
                        convert_enum<PlacementStrategy>(c.placement, vmemPlacementWorstFit, "placement"));
  if (c.acquire_deadline_ms < -1) {
    return Status(StatusCode::kInvalidValue,
                  format("acquire_deadline_ms is {}: expected -1 or more", c.acquire_deadline_ms));
  }
  if (c.acquire_deadline_ms >= 0) options.acquire_deadline = std::chrono::milliseconds(c.acquire_deadline_ms);
  if (c.num_limits > 0) VMEM_RETURN_IF_ERROR(need(c.limits, "limits"));
  for (std::size_t i = 0; i < c.num_limits; ++i) {
    VMEM_RETURN_IF_ERROR(need(c.limits[i].device, "limits[].device"));
    if (!options.limits.emplace(c.limits[i].device, c.limits[i].bytes).second) {
      return Status(StatusCode::kInvalidValue, format("limits name device '{}' twice", c.limits[i].device));
    }
  }
  options.unmap_released = c.unmap_released != 0;
  return options;
}

}  // namespace
}  // namespace vmem

using vmem::c_call;
using vmem::need;
using vmem::Status;
using vmem::StatusCode;
using vmem::use;

vmemStatus_t vmemRuntimeCreate(vmemRuntime_t* runtime, const vmemRuntimeOptions_t* options) {
  return c_call([&] {
    VMEM_RETURN_IF_ERROR(need(runtime, "runtime"));
    *runtime = nullptr;
    VMEM_ASSIGN_OR_RETURN(auto handle, vmem::open_runtime(options));
    *runtime = handle.release();
    return Status();
  });
}

vmemStatus_t vmemRuntimeDestroy(vmemRuntime_t runtime) {
  return c_call([&] {
    if (runtime == nullptr) return Status();
    if (const std::size_t pools = runtime->num_pools.load(); pools > 0 && !runtime->fork.in_child()) {
      return Status(StatusCode::kBusy, vmem::format("the runtime still has {} pools; destroy them first", pools));
    }
    vmem::close_runtime(std::unique_ptr<vmemRuntime_st>(runtime));
    return Status();
  });
}

vmemStatus_t vmemGetAbsentBackend(vmemRuntime_t runtime, size_t index, const char** name, const char** reason) {
  return c_call([&] {
    if (name != nullptr) *name = nullptr;
    if (reason != nullptr) *reason = nullptr;
    VMEM_RETURN_IF_ERROR(need(runtime, "runtime"));
    VMEM_RETURN_IF_ERROR(need(name, "name"));
    VMEM_RETURN_IF_ERROR(need(reason, "reason"));
    const auto& absent = runtime->runtime->topology().absent_backends();
    if (index >= absent.size()) {
      return Status(StatusCode::kNotFound,
                    vmem::format("{} backends are absent, none has index {}", absent.size(), index));
    }
    *name = absent[index].name.c_str();
    *reason = absent[index].reason.c_str();
    return Status();
  });
}

vmemStatus_t vmemGetDeviceCount(vmemRuntime_t runtime, int* count) {
  return c_call([&] {
    VMEM_RETURN_IF_ERROR(need(count, "count"));
    *count = 0;
    VMEM_RETURN_IF_ERROR(use(runtime));
    *count = static_cast<int>(runtime->devices.size());
    return Status();
  });
}

vmemStatus_t vmemGetDevice(vmemRuntime_t runtime, int index, vmemDevice_t* device) {
  return c_call([&] {
    VMEM_RETURN_IF_ERROR(need(device, "device"));
    *device = nullptr;
    VMEM_RETURN_IF_ERROR(use(runtime));
    if (index < 0 || static_cast<std::size_t>(index) >= runtime->devices.size()) {
      return Status(StatusCode::kInvalidValue,
                    vmem::format("device {}: the runtime has {} devices", index, runtime->devices.size()));
    }
    *device = &runtime->devices[static_cast<std::size_t>(index)];
    return Status();
  });
}

vmemStatus_t vmemFindDevice(vmemRuntime_t runtime, const char* name, vmemDevice_t* device) {
  return c_call([&] {
    VMEM_RETURN_IF_ERROR(need(device, "device"));
    *device = nullptr;
    VMEM_RETURN_IF_ERROR(use(runtime));
    VMEM_RETURN_IF_ERROR(need(name, "name"));
    VMEM_ASSIGN_OR_RETURN(const vmem::DeviceIndex index, runtime->runtime->find(name));
    *device = &runtime->devices[index];
    return Status();
  });
}

vmemStatus_t vmemGetDeviceInfo(vmemDevice_t device, vmemDeviceInfo_t* info) {
  return c_call([&] {
    VMEM_RETURN_IF_ERROR(need(info, "info"));
    VMEM_RETURN_IF_ERROR(vmem::check_struct_size(info->struct_size, "vmemDeviceInfo_t"));
    VMEM_RETURN_IF_ERROR(use(device));
    const auto& devices = device->runtime->runtime->topology().devices();
    vmem::write_info(info, vmem::convert(devices[device->index], device->index));
    return Status();
  });
}

vmemStatus_t vmemMemGetInfo(vmemDevice_t device, size_t* free_bytes, size_t* total_bytes) {
  return c_call([&] {
    if (free_bytes != nullptr) *free_bytes = 0;
    if (total_bytes != nullptr) *total_bytes = 0;
    if (free_bytes == nullptr) VMEM_RETURN_IF_ERROR(need(total_bytes, "free_bytes' and 'total_bytes"));
    VMEM_RETURN_IF_ERROR(use(device));
    VMEM_ASSIGN_OR_RETURN(const vmem::MemoryInfo memory, vmem::device_of(device).memory_info());
    // The topology file may have corrected the capacity.
    const auto& known = device->runtime->runtime->topology().devices()[device->index];
    if (total_bytes != nullptr) *total_bytes = known.info.total_bytes;
    if (free_bytes != nullptr) *free_bytes = std::min(memory.free_bytes, known.info.total_bytes);
    return Status();
  });
}

vmemStatus_t vmemStreamCreate(vmemDevice_t device, vmemStream_t* stream) {
  return c_call([&] {
    VMEM_RETURN_IF_ERROR(need(stream, "stream"));
    *stream = nullptr;
    VMEM_RETURN_IF_ERROR(use(device));
    VMEM_ASSIGN_OR_RETURN(const vmem::Stream made, vmem::device_of(device).create_stream());
    *stream = made.native();
    return Status();
  });
}

vmemStatus_t vmemStreamDestroy(vmemDevice_t device, vmemStream_t stream) {
  return c_call([&] {
    if (device != nullptr && device->runtime->fork.in_child()) return Status();
    VMEM_RETURN_IF_ERROR(use(device));
    return vmem::device_of(device).destroy_stream(vmem::stream_of(stream));
  });
}

vmemStatus_t vmemStreamSynchronize(vmemDevice_t device, vmemStream_t stream) {
  return c_call([&] {
    VMEM_RETURN_IF_ERROR(use(device));
    VMEM_RETURN_IF_ERROR(vmem::device_of(device).check_stream(vmem::stream_of(stream)));
    VMEM_ASSIGN_OR_RETURN(const vmem::Event event, vmem::device_of(device).record(vmem::stream_of(stream)));
    return event.wait();
  });
}

vmemStatus_t vmemPoolCreate(vmemPool_t* pool, vmemRuntime_t runtime, const vmemPoolOptions_t* options) {
  return c_call([&] {
    VMEM_RETURN_IF_ERROR(need(pool, "pool"));
    *pool = nullptr;
    VMEM_ASSIGN_OR_RETURN(const vmem::PoolOptions converted, vmem::convert(options));
    auto handle = std::make_unique<vmemPool_st>();
    handle->runtime = runtime;
    if (runtime == nullptr) {
      VMEM_ASSIGN_OR_RETURN(handle->own_runtime, vmem::open_runtime(nullptr));
      handle->runtime = handle->own_runtime.get();
    }
    VMEM_RETURN_IF_ERROR(use(handle->runtime));
    VMEM_ASSIGN_OR_RETURN(handle->pool, handle->runtime->runtime->create_pool(converted));
    handle->runtime->num_pools.fetch_add(1);
    *pool = handle.release();
    return Status();
  });
}

vmemStatus_t vmemPoolDestroy(vmemPool_t pool) {
  return c_call([&] {
    if (pool == nullptr) return Status();
    if (pool->runtime->fork.in_child()) return Status();
    if (const std::size_t acquired = pool->num_acquired.load(); acquired > 0) {
      return Status(StatusCode::kBusy, vmem::format("{} acquires of the pool are not released", acquired));
    }
    std::unique_ptr<vmemPool_st> handle(pool);
    handle->pool.reset();
    handle->runtime->num_pools.fetch_sub(1);
    return Status();
  });
}

vmemStatus_t vmemPoolGetRuntime(vmemPool_t pool, vmemRuntime_t* runtime) {
  return c_call([&] {
    VMEM_RETURN_IF_ERROR(need(runtime, "runtime"));
    *runtime = nullptr;
    VMEM_RETURN_IF_ERROR(use(pool));
    *runtime = pool->runtime;
    return Status();
  });
}
