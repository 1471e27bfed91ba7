#include "tools/bench/device_worker.hpp"

#include <utility>

#include "tools/bench/plain_memory.hpp"

namespace vmem {
namespace {

// Enough to hide an acquire behind the work before it, and few enough that their blocks fit.
constexpr std::size_t kMostInFlight = 4;

}  // namespace

Result<std::unique_ptr<DeviceWorker>> DeviceWorker::create(Runtime& runtime, Pool& pool, DeviceIndex index,
                                                           const std::vector<KernelImage>& kernels) {
  Device& device = runtime.device(index);
  std::unique_ptr<DeviceWorker> worker(new DeviceWorker(pool, device, index));
  if (device.info().caps.has(DeviceCap::kKernels)) {
    for (const KernelImage& kernel : kernels) VMEM_RETURN_IF_ERROR(device.add_kernel(kernel));
    VMEM_ASSIGN_OR_RETURN(worker->stream_, device.create_stream());
  }
  return worker;
}

DeviceWorker::~DeviceWorker() {
  if (!stream_.has_value()) return;
  // Both have told their errors to whoever asked; a device that is lost has nothing more to say.
  (void)finish();
  (void)device_.destroy_stream(stream_);
}

Status DeviceWorker::run(const KernelTask& task) {
  AcquireOptions options;
  options.device = index_;
  options.stream = stream_;
  VMEM_ASSIGN_OR_RETURN(Acquired acquired, pool_.acquire(task.ranges, options));
  if (stream_.has_value()) {
    for (const KernelCall& call : task.calls) VMEM_RETURN_IF_ERROR(launch(call, acquired));
  } else {
    std::vector<void*> addresses;
    for (std::size_t i = 0; i < acquired.size(); ++i) addresses.push_back(acquired.data(i));
    for (const KernelCall& call : task.calls) run_reference(call, addresses);
  }
  return acquired.release();
}

Status DeviceWorker::launch(const KernelCall& call, const Acquired& acquired) {
  KernelLaunch launch;
  launch.name = call.kernel;
  launch.grid = call.grid;
  launch.block = call.block;
  std::vector<std::uint64_t> values(call.arguments.size());
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    const TaskArgument& argument = call.arguments[i];
    values[i] =
        argument.bits + (argument.is_range ? reinterpret_cast<std::uint64_t>(acquired.data(argument.range)) : 0);
    launch.arguments.push_back({&values[i], argument.bytes});
  }
  VMEM_ASSIGN_OR_RETURN(Event event, device_.launch(launch, stream_));
  in_flight_.push_back(std::move(event));
  Status outcome;
  if (in_flight_.size() > kMostInFlight) {
    outcome = in_flight_.front().wait();
    in_flight_.pop_front();
  }
  return outcome;
}

Status DeviceWorker::finish() {
  Status outcome;
  for (const Event& event : std::exchange(in_flight_, {})) {
    if (Status status = event.wait(); !status && outcome) outcome = std::move(status);
  }
  return outcome;
}

}  // namespace vmem
