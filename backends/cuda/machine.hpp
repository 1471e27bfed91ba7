// What all devices of one CUDA backend share: the driver, its failure, the streams they made, the host pages they
// pinned and the thread that completes events. `CudaContext` is one device's part of it.
//
// CONCURRENCY: every member may be called from any thread. Lock order: none of these mutexes is taken while another is
// held, but for the host registry's, under which the driver is called.
#pragma once

#include <sys/types.h>
#include <vmem/backend_config.hpp>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/driver.hpp"
#include "backends/cuda/event_poller.hpp"
#include "backends/cuda/host_registry.hpp"
#include "backends/cuda/options.hpp"
#include "backends/cuda/stream_table.hpp"
#include "runtime/support/thread_annotations.hpp"

namespace vmem {

class CudaMachine {
 public:
  CudaMachine(std::unique_ptr<const CudaDriver> opened, CudaOptions chosen, LogCallback callback);
  CudaMachine(const CudaMachine&) = delete;
  CudaMachine& operator=(const CudaMachine&) = delete;

  void log(LogLevel level, const std::string& message) const;
  // Why no CUDA device of the process works any more; success while they do.
  Status failure() const VMEM_EXCLUDES(failure_mutex_);
  bool has_failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  // The first failure is kept.
  void fail(const Status& status) VMEM_EXCLUDES(failure_mutex_);
  // After a fork the driver and the poller's thread are the parent's: nothing may be given back to them.
  bool in_child() const noexcept;

  const std::unique_ptr<const CudaDriver> driver;
  const CudaOptions options;
  StreamTable streams;
  HostRegistry host_pages;

 private:
  const LogCallback log_;
  const pid_t process_;
  std::atomic<bool> failed_{false};
  mutable Mutex failure_mutex_;
  Status failure_ VMEM_GUARDED_BY(failure_mutex_);

 public:
  // Ends first: its thread uses the rest.
  EventPoller poller;
};

// A device's primary context, with a stock of its events. Shared by the device and the events of its work, which may
// outlive it; the last of them releases the context.
class CudaContext : public std::enable_shared_from_this<CudaContext> {
 public:
  static Result<std::shared_ptr<CudaContext>> create(std::shared_ptr<CudaMachine> machine, CuDevice device,
                                                     std::string name);
  ~CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  CudaMachine& machine() const noexcept { return *machine_; }
  const CudaDriver& driver() const noexcept { return *machine_->driver; }
  const std::string& name() const noexcept { return name_; }  // the device's, "cuda:0"
  CuDevice device() const noexcept { return device_; }
  CuContext native() const noexcept { return context_; }

  // Why the device does not work any more; success while it does. No call of the driver.
  Status failure() const VMEM_EXCLUDES(mutex_);
  // The driver's answer as a status that names the device. An error that ends the device or the process is kept.
  Status check(CuResult result, const char* call) VMEM_EXCLUDES(mutex_);

  // An event that no one else uses. REQUIRES: the context is current.
  Result<CuEvent> take_event() VMEM_EXCLUDES(mutex_);
  void give_event(CuEvent event) VMEM_EXCLUDES(mutex_);

 private:
  CudaContext(std::shared_ptr<CudaMachine> machine, CuDevice device, std::string name)
      : machine_(std::move(machine)), device_(device), name_(std::move(name)) {}

  const std::shared_ptr<CudaMachine> machine_;  // shared by all contexts, and by the backend
  const CuDevice device_;
  const std::string name_;
  CuContext context_ = nullptr;
  std::atomic<bool> failed_{false};
  mutable Mutex mutex_;
  Status failure_ VMEM_GUARDED_BY(mutex_);
  std::vector<CuEvent> events_ VMEM_GUARDED_BY(mutex_);
};

}  // namespace vmem
