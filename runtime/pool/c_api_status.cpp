#include <vmem/vmem.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "runtime/pool/c_api.hpp"
#include "runtime/support/format.hpp"

namespace vmem {
namespace {

constexpr std::size_t kMessageBytes = 1024;
constexpr std::size_t kMaxStructBytes = 4096;

// Without a constructor or destructor: it can be read at any time of a thread's life, also from other destructors.
thread_local std::array<char, kMessageBytes> last_message;

struct ErrorText {
  const char* name;
  const char* text;
};

constexpr std::array<ErrorText, 16> kErrors = {{
    {"vmemSuccess", "success"},
    {"vmemErrorInvalidValue", "an argument is wrong"},
    {"vmemErrorNotFound", "no such device, file or name"},
    {"vmemErrorUnsupported", "not supported by the device, the driver or this build"},
    {"vmemErrorBusy", "held by others"},
    {"vmemErrorCancelled", "cancelled"},
    {"vmemErrorTimeout", "a copy did not complete in time"},
    {"vmemErrorDeviceFailed", "the device has failed"},
    {"vmemErrorOutOfDeviceMemory", "out of device memory"},
    {"vmemErrorOutOfHostMemory", "out of host memory"},
    {"vmemErrorOutOfStorage", "out of storage"},
    {"vmemErrorOutOfAddresses", "out of pool addresses"},
    {"vmemErrorDataLost", "data did not arrive or failed its check"},
    {"vmemErrorIo", "a file could not be read or written"},
    {"vmemErrorConfig", "wrong configuration"},
    {"vmemErrorInternal", "an internal error"},
}};

static_assert(vmemErrorInternal == static_cast<int>(StatusCode::kInternal));
static_assert(vmemErrorOutOfAddresses == static_cast<int>(StatusCode::kOutOfAddresses));
static_assert(vmemErrorDeviceFailed == static_cast<int>(StatusCode::kDeviceFailed));
static_assert(vmemErrorBusy == static_cast<int>(StatusCode::kBusy));

const ErrorText& text_of(vmemStatus_t status) noexcept {
  static constexpr ErrorText kUnknown = {"unknown vmemStatus_t", "a value that is no vmemStatus_t"};
  const auto index = static_cast<unsigned>(raw_value(status));
  return index < kErrors.size() ? kErrors[index] : kUnknown;
}

}  // namespace

vmemStatus_t report(StatusCode code, const char* message) noexcept {
  std::snprintf(last_message.data(), last_message.size(), "%s", message);
  return static_cast<vmemStatus_t>(code);
}

vmemStatus_t report(const Status& status) noexcept {
  if (status.is_ok()) return vmemSuccess;
  try {
    return report(status.code(), status.to_string().c_str());
  } catch (const std::bad_alloc&) {
    return report(status.code(), "no memory for the message");
  }
}

Status need(const void* argument, const char* name) {
  if (argument != nullptr) return Status();
  return Status(StatusCode::kInvalidValue, format("argument '{}' is NULL", name));
}

namespace {

Status forked() {
  return Status(StatusCode::kDeviceFailed,
                "this process is a fork of the one that opened the runtime, and devices don't survive fork; open a "
                "runtime of its own in the child, best after exec");
}

}  // namespace

Status use(vmemRuntime_t runtime) {
  VMEM_RETURN_IF_ERROR(need(runtime, "runtime"));
  return runtime->fork.in_child() ? forked() : Status();
}

Status use(vmemDevice_t device) {
  VMEM_RETURN_IF_ERROR(need(device, "device"));
  return use(device->runtime);
}

Status use(vmemPool_t pool) {
  VMEM_RETURN_IF_ERROR(need(pool, "pool"));
  return use(pool->runtime);
}

Status use(vmemEvent_t event) {
  VMEM_RETURN_IF_ERROR(need(event, "event"));
  return event->process == ::getpid() ? Status() : forked();
}

Status use(vmemPrefetch_t prefetch) {
  VMEM_RETURN_IF_ERROR(need(prefetch, "prefetch"));
  return prefetch->process == ::getpid() ? Status() : forked();
}

Status use(vmemPool_t pool, vmemDevice_t device) {
  VMEM_RETURN_IF_ERROR(use(pool));
  VMEM_RETURN_IF_ERROR(need(device, "device"));
  if (device->runtime == pool->runtime) return Status();
  return Status(StatusCode::kInvalidValue, "the device belongs to another runtime than the pool");
}

Device& device_of(vmemDevice_t device) { return device->runtime->runtime->device(device->index); }

Stream stream_of(vmemStream_t stream) { return stream == VMEM_NO_STREAM ? Stream() : Stream(stream); }

Status check_struct_size(std::size_t size, const char* name) {
  if (size >= sizeof(std::size_t) && size <= kMaxStructBytes) return Status();
  return Status(
      StatusCode::kInvalidValue,
      format("{}.struct_size is {}: set it to sizeof({}), as the macro VMEM_..._INIT does", name, size, name));
}

Status check_unknown_bytes(const void* given, std::size_t known, std::size_t size, const char* name) {
  if (size <= known) return Status();
  const char* const bytes = static_cast<const char*>(given);
  if (std::all_of(bytes + known, bytes + size, [](char byte) { return byte == 0; })) return Status();
  return Status(StatusCode::kUnsupported,
                format("{} has {} bytes and sets some beyond the {} that vmem {} knows; use a newer vmem", name, size,
                       known, VMEM_VERSION_STRING));
}

}  // namespace vmem

const char* vmemGetErrorName(vmemStatus_t status) { return vmem::text_of(status).name; }

const char* vmemGetErrorString(vmemStatus_t status) { return vmem::text_of(status).text; }

const char* vmemGetLastErrorMessage(void) { return vmem::last_message.data(); }

vmemStatus_t vmemGetVersion(int* version) {
  return vmem::c_call([&] {
    VMEM_RETURN_IF_ERROR(vmem::need(version, "version"));
    *version = VMEM_VERSION;
    return vmem::Status();
  });
}
