// What surrounds calls of the driver: the device's context is current, and no capture elsewhere in the process is
// disturbed. Both are as before when it ends.
#pragma once

#include "backends/cuda/machine.hpp"
#include "backends/cuda/process_exit.hpp"

namespace vmem {

// The calling thread makes calls that a capture of another thread would be invalidated by (event queries, allocations).
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const CudaDriver& driver) : driver_(driver) { exchange(); }
  ~RelaxedCapture() { exchange(); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  void exchange() noexcept {
    if (!process_is_exiting()) static_cast<void>(driver_.cuThreadExchangeStreamCaptureMode(&mode_));
  }

  const CudaDriver& driver_;
  CuStreamCaptureMode mode_ = kCuCaptureRelaxed;
};

// Makes a device's context current for a scope. Where it is already, that is all that it asks.
class CurrentContext {
 public:
  explicit CurrentContext(CudaContext& context);
  ~CurrentContext() { end(); }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

  const Status& status() const noexcept { return status_; }
  void end() noexcept;

 private:
  CudaContext& context_;
  Status status_;
  bool pushed_ = false;
};

// Both. `status` is an error where the device has failed or its context can't be made current.
class DriverCall {
 public:
  explicit DriverCall(CudaContext& context) : relaxed_(context.driver()), current_(context) {}
  const Status& status() const noexcept { return current_.status(); }
  void end() noexcept { current_.end(); }

 private:
  RelaxedCapture relaxed_;
  CurrentContext current_;
};

}  // namespace vmem
