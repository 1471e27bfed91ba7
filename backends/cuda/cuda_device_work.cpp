// The work of a device: streams, events, copies, kernels.
#include <array>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

#include "backends/cuda/completion.hpp"
#include "backends/cuda/cuda_device.hpp"
#include "runtime/support/format.hpp"

namespace vmem {
namespace {

using Clock = std::chrono::steady_clock;

// How long the end of a stream waits for its work before it gives the stream up.
constexpr std::chrono::seconds kPatienceForStream{30};
constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();
constexpr std::chrono::microseconds kSpin{200};
constexpr std::chrono::microseconds kNap{50};
// Of a block, on every architecture since the first that is served.
constexpr std::uint64_t kHighestThreadsPerBlock = 1024;
// Where the driver does not say how many parameters a kernel has, it reads as many pointers as the kernel declares: a
// launch with too few must not make it read past the array.
constexpr std::size_t kSpareParameters = 64;

bool is_default(CuStream stream) { return reinterpret_cast<std::uintptr_t>(stream) <= kCuStreamPerThread; }

CuDevicePtr device_pointer(const void* address) { return reinterpret_cast<CuDevicePtr>(address); }

}  // namespace

Status CudaDevice::start() {
  VMEM_ASSIGN_OR_RETURN(CuStream stream, take_stream());
  VMEM_ASSIGN_OR_RETURN(heartbeat_, context_->take_event());
  const Status status = check(driver().cuEventRecord(heartbeat_, stream), "cuEventRecord");
  const Status drained = status ? drain(stream, kPatienceForStream) : status;
  static_cast<void>(context_->machine().streams.begin_end(stream, context_.get()));
  context_->machine().streams.give_back(stream, false);
  return drained;
}

Result<CuStream> CudaDevice::take_stream() {
  StreamTable& streams = context_->machine().streams;
  if (const auto idle = streams.take_idle(context_.get())) return *idle;
  CuStream stream = nullptr;
  VMEM_RETURN_IF_ERROR(check(driver().cuStreamCreate(&stream, kCuStreamNonBlocking), "cuStreamCreate"));
  streams.add(stream, context_.get());
  return stream;
}

Result<Stream> CudaDevice::create_stream() {
  DriverCall call(*context_);
  VMEM_RETURN_IF_ERROR(call.status());
  VMEM_ASSIGN_OR_RETURN(CuStream stream, take_stream());
  return Stream(stream);
}

Status CudaDevice::drain(CuStream stream, std::chrono::nanoseconds patience) {
  const auto start = Clock::now();
  for (;;) {
    const CuResult result = driver().cuStreamQuery(stream);
    if (result != kCuNotReady) return check(result, "cuStreamQuery");
    VMEM_RETURN_IF_ERROR(context_->failure());
    const auto waited = Clock::now() - start;
    if (waited > patience) return error(StatusCode::kTimeout, "work of the stream does not end");
    if (waited < kSpin) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }
}

Status CudaDevice::destroy_stream(Stream stream) {
  VMEM_RETURN_IF_ERROR(context_->failure());
  auto* const native = stream.has_value() ? static_cast<CuStream>(stream.native()) : nullptr;
  StreamTable& streams = context_->machine().streams;
  if (!streams.begin_end(native, context_.get())) {
    return error(StatusCode::kInvalidValue, "destroy_stream: the stream is not one that this device made");
  }
  DriverCall call(*context_);
  Status status = call.status();
  if (status) status = drain(native, kPatienceForStream);
  streams.give_back(native, !status);
  return status;
}

Result<CuStream> CudaDevice::native_of(Stream stream) {
  if (stream.has_value()) {
    auto* const native = static_cast<CuStream>(stream.native());
    if (is_default(native)) return native;
    const StreamTable::Found found = context_->machine().streams.find(native);
    if (found.answer == StreamTable::Answer::kInUse && found.context == context_.get()) return native;
    if (found.answer == StreamTable::Answer::kUnknown) {
      const CurrentContext current(*context_);
      CuContext of_stream = nullptr;
      const CuResult result = driver().cuStreamGetCtx(native, &of_stream);
      if (result == kCuSuccess && of_stream == context_->native()) return native;
      if (failure_of(result) != CudaFailure::kNone) return check(result, "cuStreamGetCtx");
    }
  }
  return error(StatusCode::kInvalidValue,
               "the stream is not one of this device's; streams of the application must be of its primary context");
}

Result<bool> CudaDevice::capturing(CuStream stream) {
  CuStreamCaptureStatus capture = kCuCaptureNone;
  const CuResult result = driver().cuStreamIsCapturing(stream, &capture);
  // The legacy stream can't be used while a stream that is ordered with it is being captured.
  if (result == kCuStreamCaptureImplicit) return true;
  VMEM_RETURN_IF_ERROR(check(result, "cuStreamIsCapturing"));
  return capture != kCuCaptureNone;
}

Result<CuStream> CudaDevice::working(Stream stream) {
  VMEM_ASSIGN_OR_RETURN(CuStream native, native_of(stream));
  VMEM_ASSIGN_OR_RETURN(const bool captured, capturing(native));
  if (captured) return error(StatusCode::kUnsupported, "the stream is being captured into a graph");
  return native;
}

Status CudaDevice::check_stream(Stream stream) {
  VMEM_RETURN_IF_ERROR(context_->failure());
  return native_of(stream).error();
}

Result<bool> CudaDevice::is_capturing(Stream stream) {
  const CurrentContext current(*context_);
  VMEM_RETURN_IF_ERROR(current.status());
  if (!stream.has_value()) return false;
  VMEM_ASSIGN_OR_RETURN(CuStream native, native_of(stream));
  return capturing(native);
}

Result<Event> CudaDevice::record_behind(CuStream stream) {
  VMEM_ASSIGN_OR_RETURN(CuEvent event, context_->take_event());
  auto completion = std::make_shared<CudaCompletion>(context_, event, stream);  // gives the event back in any case
  VMEM_RETURN_IF_ERROR(check(driver().cuEventRecord(event, stream), "cuEventRecord"));
  return Event(std::move(completion));
}

Result<Event> CudaDevice::record(Stream stream) {
  // Neither of these calls disturbs a capture, so its mode need not change.
  const CurrentContext current(*context_);
  VMEM_RETURN_IF_ERROR(current.status());
  if (!stream.has_value()) return Event();
  VMEM_ASSIGN_OR_RETURN(CuStream native, working(stream));
  return record_behind(native);
}

Status CudaDevice::wait_event(Stream stream, const Event& event) {
  const CurrentContext current(*context_);
  VMEM_RETURN_IF_ERROR(current.status());
  VMEM_ASSIGN_OR_RETURN(CuStream native, working(stream));
  if (event.state() == nullptr) return {};
  auto* const completion = dynamic_cast<CudaCompletion*>(event.state()->origin());
  if (completion == nullptr || completion->machine() != &context_->machine()) {
    return error(StatusCode::kUnsupported, "wait_event: the event is another backend's");
  }
  return completion->order(native, *context_);
}

// The driver's own queues bound what is in flight: where one is full, its call waits.
template <typename Work>
Result<Event> CudaDevice::submit(Stream stream, const char* call, const Work& work) {
  if (stream.has_value()) {
    VMEM_ASSIGN_OR_RETURN(CuStream native, working(stream));
    VMEM_RETURN_IF_ERROR(check(work(native), call));
    return record_behind(native);
  }
  VMEM_ASSIGN_OR_RETURN(CuStream native, take_stream());
  Status status = check(work(native), call);
  if (status) status = drain(native, kForever);
  StreamTable& streams = context_->machine().streams;
  if (streams.begin_end(native, context_.get())) streams.give_back(native, false);
  VMEM_RETURN_IF_ERROR(status);
  return Event();
}

Result<Event> CudaDevice::copy_from_host(void* destination, const void* host, std::size_t bytes, Stream stream) {
  DriverCall call(*context_);
  VMEM_RETURN_IF_ERROR(call.status());
  if (host == nullptr && bytes != 0) {
    return error(StatusCode::kInvalidValue, "copy_from_host: there is no such range of host memory");
  }
  VMEM_RETURN_IF_ERROR(locate(destination, bytes, "copy_from_host"));
  return submit(stream, "cuMemcpyHtoDAsync", [&](CuStream native) {
    return bytes == 0 ? kCuSuccess : driver().cuMemcpyHtoDAsync_v2(device_pointer(destination), host, bytes, native);
  });
}

Result<Event> CudaDevice::copy_to_host(void* host, const void* source, std::size_t bytes, Stream stream) {
  DriverCall call(*context_);
  VMEM_RETURN_IF_ERROR(call.status());
  if (host == nullptr && bytes != 0) {
    return error(StatusCode::kInvalidValue, "copy_to_host: there is no such range of host memory");
  }
  VMEM_RETURN_IF_ERROR(locate(source, bytes, "copy_to_host"));
  return submit(stream, "cuMemcpyDtoHAsync", [&](CuStream native) {
    return bytes == 0 ? kCuSuccess : driver().cuMemcpyDtoHAsync_v2(host, device_pointer(source), bytes, native);
  });
}

Result<Event> CudaDevice::copy_within(void* destination, const void* source, std::size_t bytes, Stream stream) {
  DriverCall call(*context_);
  VMEM_RETURN_IF_ERROR(call.status());
  VMEM_RETURN_IF_ERROR(locate(destination, bytes, "copy_within"));
  VMEM_RETURN_IF_ERROR(locate(source, bytes, "copy_within"));
  const CuDevicePtr to = device_pointer(destination);
  const CuDevicePtr from = device_pointer(source);
  if ((to > from ? to - from : from - to) < bytes) {
    return error(StatusCode::kInvalidValue, "copy_within: the ranges overlap");
  }
  return submit(stream, "cuMemcpyDtoDAsync", [&](CuStream native) {
    return bytes == 0 ? kCuSuccess : driver().cuMemcpyDtoDAsync_v2(to, from, bytes, native);
  });
}

Result<Event> CudaDevice::fill(void* destination, std::uint8_t value, std::size_t bytes, Stream stream) {
  DriverCall call(*context_);
  VMEM_RETURN_IF_ERROR(call.status());
  VMEM_RETURN_IF_ERROR(locate(destination, bytes, "fill"));
  return submit(stream, "cuMemsetD8Async", [&](CuStream native) {
    return bytes == 0 ? kCuSuccess : driver().cuMemsetD8Async(device_pointer(destination), value, bytes, native);
  });
}

Result<Event> CudaDevice::copy_to_peer(Device& peer, void* destination, const void* source, std::size_t bytes,
                                       Stream stream) {
  if (!has(DeviceCap::kPeerCopy)) return Device::copy_to_peer(peer, destination, source, bytes, stream);
  if (!can_access_peer(peer)) {
    return error(StatusCode::kUnsupported, format("copy_to_peer: device '{}' is not a peer", peer.info().name));
  }
  auto& other = static_cast<CudaDevice&>(peer);
  VMEM_RETURN_IF_ERROR(other.context_->failure());
  DriverCall call(*context_);
  VMEM_RETURN_IF_ERROR(call.status());
  VMEM_RETURN_IF_ERROR(other.locate(destination, bytes, "copy_to_peer"));
  VMEM_RETURN_IF_ERROR(locate(source, bytes, "copy_to_peer"));
  return submit(stream, "cuMemcpyPeerAsync", [&](CuStream native) {
    return bytes == 0 ? kCuSuccess
                      : driver().cuMemcpyPeerAsync(device_pointer(destination), other.context_->native(),
                                                   device_pointer(source), context_->native(), bytes, native);
  });
}

Status CudaDevice::add_kernel(const KernelImage& image) {
  if (!has(DeviceCap::kKernels)) return Device::add_kernel(image);
  VMEM_RETURN_IF_ERROR(context_->failure());
  if (image.name == nullptr || *image.name == '\0') {
    return error(StatusCode::kInvalidValue, "add_kernel: the kernel has no name");
  }
  if (image.source == nullptr) {
    return error(StatusCode::kUnsupported,
                 format("add_kernel: kernel '{}' has no source, and this device runs nothing else", image.name));
  }
  return kernels_->add(image);
}

Result<Event> CudaDevice::launch(const KernelLaunch& launch, Stream stream) {
  if (!has(DeviceCap::kKernels)) return Device::launch(launch, stream);
  DriverCall call(*context_);
  VMEM_RETURN_IF_ERROR(call.status());
  auto found = kernels_->find(launch.name);
  if (!found) return found.error().with_device(info_.name);
  const std::shared_ptr<const KernelSet::Kernel> kernel = std::move(found).value();
  std::uint64_t threads = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    threads *= launch.block[i];
    if (launch.grid[i] == 0 || launch.block[i] == 0 || threads > kHighestThreadsPerBlock) {
      return error(StatusCode::kInvalidValue,
                   format("launch: kernel '{}' needs a grid of at least 1 and blocks of 1 to {} threads", launch.name,
                          kHighestThreadsPerBlock));
    }
  }
  const std::size_t num_arguments = launch.arguments.size();
  if (kernel->sizes_known && num_arguments != kernel->parameter_bytes.size()) {
    return error(StatusCode::kInvalidValue, format("launch: kernel '{}' has {} parameters, {} were given", launch.name,
                                                   kernel->parameter_bytes.size(), num_arguments));
  }
  alignas(16) static constexpr std::array<unsigned char, 64> kNothing{};
  std::vector<void*> parameters(num_arguments + kSpareParameters, const_cast<unsigned char*>(kNothing.data()));
  for (std::size_t i = 0; i < num_arguments; ++i) {
    const KernelArgument& argument = launch.arguments[i];
    const bool fits = !kernel->sizes_known || argument.bytes == kernel->parameter_bytes[i];
    if (argument.data == nullptr || argument.bytes == 0 || !fits) {
      return error(StatusCode::kInvalidValue,
                   format("launch: parameter {} of kernel '{}' has no value, or one of a wrong size", i, launch.name));
    }
    parameters[i] = const_cast<void*>(argument.data);
  }
  return submit(stream, "cuLaunchKernel", [&](CuStream native) {
    return driver().cuLaunchKernel(kernel->function, launch.grid[0], launch.grid[1], launch.grid[2], launch.block[0],
                                   launch.block[1], launch.block[2], launch.shared_bytes, native, parameters.data(),
                                   nullptr);
  });
}

Status CudaDevice::signal(Stream stream, std::uint32_t* word, std::uint32_t value, bool write) {
  DriverCall call(*context_);
  VMEM_RETURN_IF_ERROR(call.status());
  VMEM_ASSIGN_OR_RETURN(CuStream native, working(stream));
  if (reinterpret_cast<std::uintptr_t>(word) % alignof(std::uint32_t) != 0) {
    return error(StatusCode::kInvalidValue, "a signal's word must be aligned to 4 bytes");
  }
  VMEM_RETURN_IF_ERROR(locate(word, sizeof *word, write ? "write_signal" : "wait_signal"));
  if (write) {
    return check(driver().cuStreamWriteValue32_v2(native, device_pointer(word), value, 0), "cuStreamWriteValue32");
  }
  return check(driver().cuStreamWaitValue32_v2(native, device_pointer(word), value, kCuStreamWaitValueGreaterOrEqual),
               "cuStreamWaitValue32");
}

Status CudaDevice::write_signal(Stream stream, std::uint32_t* word, std::uint32_t value) {
  if (!has(DeviceCap::kStreamSignals)) return Device::write_signal(stream, word, value);
  return signal(stream, word, value, true);
}

Status CudaDevice::wait_signal(Stream stream, std::uint32_t* word, std::uint32_t value) {
  if (!has(DeviceCap::kStreamSignals)) return Device::wait_signal(stream, word, value);
  return signal(stream, word, value, false);
}

}  // namespace vmem
