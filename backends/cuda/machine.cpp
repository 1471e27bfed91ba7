#include "backends/cuda/machine.hpp"

#include <unistd.h>

#include <utility>

#include "backends/cuda/driver_call.hpp"
#include "runtime/support/format.hpp"

namespace vmem {

CudaMachine::CudaMachine(std::unique_ptr<const CudaDriver> opened, CudaOptions chosen, LogCallback callback)
    : driver(std::move(opened)),
      options(std::move(chosen)),
      log_(std::move(callback)),
      process_(::getpid()),
      poller(*driver, [this] { return in_child(); }) {}

void CudaMachine::log(LogLevel level, const std::string& message) const {
  if (log_) log_(level, message);
}

Status CudaMachine::failure() const {
  if (!has_failed()) return {};
  MutexLock lock(failure_mutex_);
  return failure_;
}

void CudaMachine::fail(const Status& status) {
  MutexLock lock(failure_mutex_);
  if (failed_.load(std::memory_order_relaxed)) return;
  failure_ =
      Status(StatusCode::kDeviceFailed,
             format("an error ended every CUDA device of this process ({}: {}); only a new process gets them back",
                    status.device(), status.message()))
          .with_driver(status.driver_code(), std::string(status.driver_name()));
  failed_.store(true, std::memory_order_release);
}

bool CudaMachine::in_child() const noexcept { return ::getpid() != process_; }

Result<std::shared_ptr<CudaContext>> CudaContext::create(std::shared_ptr<CudaMachine> machine, CuDevice device,
                                                         std::string name) {
  std::shared_ptr<CudaContext> context(new CudaContext(std::move(machine), device, std::move(name)));
  CuContext native = nullptr;
  VMEM_RETURN_IF_ERROR(
      context->check(context->driver().cuDevicePrimaryCtxRetain(&native, device), "cuDevicePrimaryCtxRetain"));
  context->context_ = native;
  return context;
}

CudaContext::~CudaContext() {
  if (context_ == nullptr || machine_->in_child()) return;
  // A driver that is already gone refuses all of it, and has let go of it then.
  DriverCall call(*this);
  if (!call.status()) return;
  for (CuEvent event : events_) static_cast<void>(driver().cuEventDestroy_v2(event));
  call.end();
  static_cast<void>(driver().cuDevicePrimaryCtxRelease_v2(device_));
}

Status CudaContext::failure() const {
  if (process_is_exiting()) {
    return Status(StatusCode::kDeviceFailed, "the process is exiting").with_device(name_);
  }
  if (failed_.load(std::memory_order_acquire)) {
    MutexLock lock(mutex_);
    return failure_;
  }
  if (machine_->has_failed()) return machine_->failure().with_device(name_);
  return {};
}

Status CudaContext::check(CuResult result, const char* call) {
  if (result == kCuSuccess) return {};
  const Status status = driver().status(result, call).with_device(name_);
  const CudaFailure failure = failure_of(result);
  if (failure == CudaFailure::kProcess) machine_->fail(status);
  if (failure == CudaFailure::kDevice) {
    MutexLock lock(mutex_);
    if (failed_.load(std::memory_order_relaxed)) return status;
    failure_ = Status(StatusCode::kDeviceFailed, format("the device is lost: {}", status.message()))
                   .with_device(name_)
                   .with_driver(status.driver_code(), std::string(status.driver_name()));
    failed_.store(true, std::memory_order_release);
  }
  return status;
}

Result<CuEvent> CudaContext::take_event() {
  {
    MutexLock lock(mutex_);
    if (!events_.empty()) {
      CuEvent event = events_.back();
      events_.pop_back();
      return event;
    }
  }
  CuEvent event = nullptr;
  VMEM_RETURN_IF_ERROR(check(driver().cuEventCreate(&event, kCuEventDisableTiming), "cuEventCreate"));
  return event;
}

void CudaContext::give_event(CuEvent event) {
  MutexLock lock(mutex_);
  events_.push_back(event);
}

}  // namespace vmem
