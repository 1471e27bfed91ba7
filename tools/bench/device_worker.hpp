// Works on a pool's buffers on one device: acquires a task's ranges there, launches its kernel, releases.
#pragma once

#include <vmem/pool.hpp>
#include <vmem/runtime.hpp>

#include <deque>
#include <memory>
#include <vector>

#include "tools/bench/kernel_task.hpp"

namespace vmem {

// Where the device has kernels, tasks run on a stream of it, a few in flight; else on the calling thread.
//
// Thread contract: one thread. Runtime and pool outlive the worker.
class DeviceWorker final : public TaskRunner {
 public:
  // Hands `kernels` to the device. Errors: those of the device.
  static Result<std::unique_ptr<DeviceWorker>> create(Runtime& runtime, Pool& pool, DeviceIndex device,
                                                      const std::vector<KernelImage>& kernels);
  // Waits for what is in flight.
  ~DeviceWorker() override;

  Status run(const KernelTask& task) override;
  Status finish() override;

 private:
  DeviceWorker(Pool& pool, Device& device, DeviceIndex index) : pool_(pool), device_(device), index_(index) {}

  Status launch(const KernelCall& call, const Acquired& acquired);

  Pool& pool_;
  Device& device_;
  DeviceIndex index_;
  Stream stream_;
  std::deque<Event> in_flight_;
};

}  // namespace vmem
