// What a call of the simulated driver answers; each vendor's double has its own number for it.
#pragma once

#include <cstdint>

namespace vmem::sim {

enum class Error : std::uint8_t {
  kNone,
  kInvalidValue,
  kInvalidHandle,
  kInvalidDevice,
  kInvalidContext,
  kContextDestroyed,
  kOutOfMemory,
  kNotReady,
  kNotInitialized,
  kDeinitialized,
  kNoDevice,
  kNotFound,
  kNotSupported,
  kAlreadyMapped,
  kAlreadyRegistered,
  kNotRegistered,
  kDeviceUnavailable,
  kPeerUnsupported,
  kPeerAlreadyEnabled,
  kPeerNotEnabled,
  kCaptureUnsupported,
  kCaptureInvalidated,
  kCaptureMerge,
  kCaptureUnmatched,
  kCaptureUnjoined,
  kCaptureIsolation,
  kCaptureImplicit,
  kCapturedEvent,
  kCaptureWrongThread,
  // Work ends with these; they are sticky.
  kIllegalAddress,
  kLaunchFailed,
  // The number is in the fault that was injected.
  kInjected
};

}  // namespace vmem::sim
