#include "backends/cuda/driver.hpp"

#include <dlfcn.h>

#include <cstdlib>

#include "runtime/support/format.hpp"

namespace vmem {
namespace {

constexpr int kOldestVersion = 11070;

Status absent(std::string reason) { return Status(StatusCode::kUnsupported, std::move(reason)); }

std::string version_text(int version) { return format("{}.{}", version / 1000, version % 1000 / 10); }

StatusCode code_of(CuResult result) noexcept {
  if (failure_of(result) != CudaFailure::kNone) return StatusCode::kDeviceFailed;
  switch (result) {
    case kCuOutOfMemory:
      return StatusCode::kOutOfDeviceMemory;
    case kCuInvalidValue:
    case kCuInvalidContext:
    case kCuInvalidHandle:
    case kCuHostMemoryNotRegistered:
      return StatusCode::kInvalidValue;
    case kCuNotSupported:
    case kCuNotPermitted:
    case kCuInvalidImage:
    case kCuNoBinaryForGpu:
    case kCuUnsupportedPtxVersion:
    case kCuTooManyPeers:
    case kCuStreamCaptureUnsupported:
    case kCuStreamCaptureInvalidated:
    case kCuStreamCaptureImplicit:
    case kCuCapturedEvent:
    case kCuHostMemoryAlreadyRegistered:
      return StatusCode::kUnsupported;
    case kCuNotFound:
      return StatusCode::kNotFound;
    case kCuTimeout:
      return StatusCode::kTimeout;
    default:
      return StatusCode::kInternal;
  }
}

}  // namespace

CudaFailure failure_of(CuResult result) noexcept {
  switch (result) {
    case kCuNoDevice:
    case kCuDeviceUnavailable:
    // The application has reset the device under us.
    case kCuContextIsDestroyed:
      return CudaFailure::kDevice;
    // After a fork the child's driver answers as one that was never initialised.
    case kCuNotInitialized:
    case kCuDeinitialized:
    case kCuEccUncorrectable:
    case kCuNvlinkUncorrectable:
    case kCuContained:
    case kCuIllegalAddress:
    case kCuLaunchTimeout:
    case kCuAssert:
    case kCuHardwareStackError:
    case kCuIllegalInstruction:
    case kCuMisalignedAddress:
    case kCuInvalidAddressSpace:
    case kCuInvalidPc:
    case kCuLaunchFailed:
      return CudaFailure::kProcess;
    default:
      return CudaFailure::kNone;
  }
}

const char* CudaDriver::resolve(void* handle) {
  const char* missing = nullptr;
  const auto take = [&](CudaEntryGroup group, const char* symbol, auto& member) {
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(::dlsym(handle, symbol));
    if (member != nullptr) return;
    if (group == CudaEntryGroup::kRequired && missing == nullptr) missing = symbol;
    if (group == CudaEntryGroup::kVirtualMemory) has_virtual_memory_ = false;
    if (group == CudaEntryGroup::kStreamSignals) has_stream_signals_ = false;
  };
#define VMEM_CUDA_TAKE(group, symbol, ...) take(CudaEntryGroup::group, #symbol, symbol);
  VMEM_CUDA_ENTRIES(VMEM_CUDA_TAKE)
#undef VMEM_CUDA_TAKE
  return missing;
}

Result<std::unique_ptr<const CudaDriver>> CudaDriver::open(const std::string& library) {
  // RTLD_LOCAL: the application may bring a library of its own that exports the driver's names.
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const reason = ::dlerror();
    return absent(format("no NVIDIA driver: {}", reason != nullptr ? reason : library));
  }
  std::unique_ptr<CudaDriver> driver(new CudaDriver);
  driver->library_ = library;
  const char* const missing = driver->resolve(handle);
  if (driver->cuInit == nullptr || driver->cuDriverGetVersion == nullptr) {
    return absent(format("'{}' is no CUDA driver: it has no {}", library, missing));
  }
  VMEM_RETURN_IF_ERROR(driver->start());
  if (missing != nullptr) {
    return absent(
        format("the driver '{}' for CUDA {} has no {}; update it", library, version_text(driver->version_), missing));
  }
  return std::unique_ptr<const CudaDriver>(std::move(driver));
}

Status CudaDriver::start() {
  CuResult result = cuDriverGetVersion(&version_);
  if (result == kCuSuccess && version_ < kOldestVersion) {
    return absent(format("the driver '{}' is for CUDA {}: vmem needs one for {} or newer", library_,
                         version_text(version_), version_text(kOldestVersion)));
  }
  if (result == kCuSuccess) result = cuInit(0);
  if (result == kCuSuccess) return {};
  std::string reason;
  if (result == kCuStubLibrary) {
    reason = format(
        "'{}' is the CUDA toolkit's stub, not a driver; install the driver or put it first in the "
        "library path",
        library_);
  } else if (result == kCuNoDevice) {
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    reason = visible == nullptr ? std::string("the driver sees no NVIDIA GPU")
                                : format("the driver sees no NVIDIA GPU (CUDA_VISIBLE_DEVICES='{}')", visible);
  } else {
    reason = format("the driver '{}' does not start: {}; nvidia-smi may say more", library_, name_of(result));
  }
  return absent(std::move(reason)).with_driver(result, name_of(result));
}

std::string CudaDriver::name_of(CuResult result) const {
  const char* name = nullptr;
  if (cuGetErrorName != nullptr && cuGetErrorName(result, &name) == kCuSuccess && name != nullptr) return name;
  return format("CUDA error {}", static_cast<int>(result));
}

Status CudaDriver::status(CuResult result, const char* call) const {
  if (result == kCuSuccess) return {};
  const char* text = nullptr;
  if (cuGetErrorString(result, &text) != kCuSuccess || text == nullptr) text = "unknown error";
  return Status(code_of(result), format("{} failed: {}", call, text)).with_driver(result, name_of(result));
}

}  // namespace vmem
