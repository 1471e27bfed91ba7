// Entries: copies, fills, modules, launches, words that streams write and wait for.
#include <array>

#include "tests/doubles/cuda/entries.hpp"
#include "tests/doubles/cuda/entry.hpp"

using namespace vmem;
using namespace vmem::cuda_double;
using sim::Place;
using sim::Queue;
using sim::Wait;

namespace {

using QueuePointer = std::shared_ptr<Queue>;

Place host(const void* address) { return {reinterpret_cast<Address>(address), true, 0}; }
Place on_device(CuDevicePtr address, const QueuePointer& queue) { return {address, false, queue->device}; }
// An address whose side is told by the address itself.
Place anywhere(const Call& call, CuDevicePtr address, const QueuePointer& queue) {
  return {address, !call.driver->is_device_address(address), queue->device};
}

CuResult copy_to_device(const char* name, unsigned needs, CuDevicePtr to, const void* from, std::size_t bytes,
                        CuStream stream, Wait wait) {
  return stream_entry(name, needs, stream, [&](Call& call, const QueuePointer& queue) {
    return call.driver->copy(queue, on_device(to, queue), host(from), bytes, false, wait);
  });
}

CuResult copy_to_host(const char* name, unsigned needs, void* to, CuDevicePtr from, std::size_t bytes, CuStream stream,
                      Wait wait) {
  return stream_entry(name, needs, stream, [&](Call& call, const QueuePointer& queue) {
    return call.driver->copy(queue, host(to), on_device(from, queue), bytes, false, wait);
  });
}

CuResult copy_on_device(const char* name, unsigned needs, CuDevicePtr to, CuDevicePtr from, std::size_t bytes,
                        CuStream stream, Wait wait) {
  return stream_entry(name, needs, stream, [&](Call& call, const QueuePointer& queue) {
    return call.driver->copy(queue, on_device(to, queue), on_device(from, queue), bytes, false, wait);
  });
}

CuResult copy_anywhere(const char* name, unsigned needs, CuDevicePtr to, CuDevicePtr from, std::size_t bytes,
                       CuStream stream, Wait wait) {
  return stream_entry(name, needs, stream, [&](Call& call, const QueuePointer& queue) {
    return call.driver->copy(queue, anywhere(call, to, queue), anywhere(call, from, queue), bytes, false, wait);
  });
}

CuResult copy_to_peer(const char* name, unsigned needs, CuDevicePtr to, CuContext to_context, CuDevicePtr from,
                      CuContext from_context, std::size_t bytes, CuStream stream, Wait wait) {
  return stream_entry(name, needs, stream, [&](Call& call, const QueuePointer& queue) -> CuResult {
    const auto receiver = call.driver->context(as_number(to_context));
    const auto sender = call.driver->context(as_number(from_context));
    if (receiver == nullptr || sender == nullptr) return kCuInvalidContext;
    for (const int device : {receiver->device, sender->device}) {
      if (const int failure = call.driver->failure(device); failure != 0) return static_cast<CuResult>(failure);
    }
    const Place destination{to, false, receiver->device};
    const Place source{from, false, sender->device};
    return result_of(call.driver->copy(queue, destination, source, bytes, true, wait));
  });
}

CuResult fill(const char* name, unsigned needs, CuDevicePtr to, unsigned value, unsigned width, std::size_t count,
              CuStream stream, Wait wait) {
  return stream_entry(name, needs, stream, [&](Call& call, const QueuePointer& queue) {
    return call.driver->fill(queue, to, value, width, count, wait);
  });
}

// Keys of the `extra` parameter of a launch.
constexpr std::uintptr_t kLaunchEnd = 0;
constexpr std::uintptr_t kLaunchBuffer = 1;
constexpr std::uintptr_t kLaunchBufferBytes = 2;

CuResult launch(const char* name, CuFunction function, sim::Launch shape, CuStream stream, void** parameters,
                void** extra) {
  return stream_entry(name, kContext, stream, [&](Call& call, const QueuePointer& queue) -> CuResult {
    const auto kernel = call.driver->function(as_number(function));
    if (kernel == nullptr) return kCuInvalidHandle;
    if (parameters != nullptr && extra != nullptr) return kCuInvalidValue;
    shape.parameters = parameters;
    const void* buffer = nullptr;
    std::size_t bytes = 0;
    for (void** key = extra; key != nullptr && reinterpret_cast<std::uintptr_t>(*key) != kLaunchEnd; key += 2) {
      switch (reinterpret_cast<std::uintptr_t>(key[0])) {
        case kLaunchBuffer:
          buffer = key[1];
          break;
        case kLaunchBufferBytes:
          bytes = *static_cast<std::size_t*>(key[1]);
          break;
        default:
          return kCuInvalidValue;
      }
    }
    shape.buffer = {static_cast<const std::byte*>(buffer), buffer != nullptr ? bytes : 0};
    return result_of(call.driver->launch(queue, *kernel, shape));
  });
}

constexpr unsigned kUnsafeWait = kContext | kUnsafe;

}  // namespace

// -- Copies ----------------------------------------------------------------------------------------------------------

VMEM_CUDA_EXPORT cuMemcpyHtoDAsync_v2(CuDevicePtr to, const void* from, std::size_t bytes, CuStream stream) {
  return copy_to_device("cuMemcpyHtoDAsync", kContext, to, from, bytes, stream, Wait::kNo);
}
VMEM_CUDA_PER_THREAD(cuMemcpyHtoDAsync_v2, _ptsz,
                     (CuDevicePtr to, const void* from, std::size_t bytes, CuStream stream), (to, from, bytes, stream))

VMEM_CUDA_EXPORT cuMemcpyDtoHAsync_v2(void* to, CuDevicePtr from, std::size_t bytes, CuStream stream) {
  return copy_to_host("cuMemcpyDtoHAsync", kContext, to, from, bytes, stream, Wait::kNo);
}
VMEM_CUDA_PER_THREAD(cuMemcpyDtoHAsync_v2, _ptsz, (void* to, CuDevicePtr from, std::size_t bytes, CuStream stream),
                     (to, from, bytes, stream))

VMEM_CUDA_EXPORT cuMemcpyDtoDAsync_v2(CuDevicePtr to, CuDevicePtr from, std::size_t bytes, CuStream stream) {
  return copy_on_device("cuMemcpyDtoDAsync", kContext, to, from, bytes, stream, Wait::kNo);
}
VMEM_CUDA_PER_THREAD(cuMemcpyDtoDAsync_v2, _ptsz,
                     (CuDevicePtr to, CuDevicePtr from, std::size_t bytes, CuStream stream), (to, from, bytes, stream))

VMEM_CUDA_EXPORT cuMemcpyAsync(CuDevicePtr to, CuDevicePtr from, std::size_t bytes, CuStream stream) {
  return copy_anywhere("cuMemcpyAsync", kContext, to, from, bytes, stream, Wait::kNo);
}
VMEM_CUDA_PER_THREAD(cuMemcpyAsync, _ptsz, (CuDevicePtr to, CuDevicePtr from, std::size_t bytes, CuStream stream),
                     (to, from, bytes, stream))

VMEM_CUDA_EXPORT cuMemcpyPeerAsync(CuDevicePtr to, CuContext to_context, CuDevicePtr from, CuContext from_context,
                                   std::size_t bytes, CuStream stream) {
  return copy_to_peer("cuMemcpyPeerAsync", kContext, to, to_context, from, from_context, bytes, stream, Wait::kNo);
}
VMEM_CUDA_PER_THREAD(cuMemcpyPeerAsync, _ptsz,
                     (CuDevicePtr to, CuContext to_context, CuDevicePtr from, CuContext from_context, std::size_t bytes,
                      CuStream stream),
                     (to, to_context, from, from_context, bytes, stream))

VMEM_CUDA_EXPORT cuMemcpyHtoD_v2(CuDevicePtr to, const void* from, std::size_t bytes) {
  return copy_to_device("cuMemcpyHtoD", kUnsafeWait, to, from, bytes, nullptr, Wait::kAsDriversDo);
}
VMEM_CUDA_PER_THREAD(cuMemcpyHtoD_v2, _ptds, (CuDevicePtr to, const void* from, std::size_t bytes), (to, from, bytes))

VMEM_CUDA_EXPORT cuMemcpyDtoH_v2(void* to, CuDevicePtr from, std::size_t bytes) {
  return copy_to_host("cuMemcpyDtoH", kUnsafeWait, to, from, bytes, nullptr, Wait::kAsDriversDo);
}
VMEM_CUDA_PER_THREAD(cuMemcpyDtoH_v2, _ptds, (void* to, CuDevicePtr from, std::size_t bytes), (to, from, bytes))

// The host does not wait for copies within devices.
VMEM_CUDA_EXPORT cuMemcpyDtoD_v2(CuDevicePtr to, CuDevicePtr from, std::size_t bytes) {
  return copy_on_device("cuMemcpyDtoD", kUnsafeWait, to, from, bytes, nullptr, Wait::kNo);
}
VMEM_CUDA_PER_THREAD(cuMemcpyDtoD_v2, _ptds, (CuDevicePtr to, CuDevicePtr from, std::size_t bytes), (to, from, bytes))

VMEM_CUDA_EXPORT cuMemcpy(CuDevicePtr to, CuDevicePtr from, std::size_t bytes) {
  return copy_anywhere("cuMemcpy", kUnsafeWait, to, from, bytes, nullptr, Wait::kAsDriversDo);
}
VMEM_CUDA_PER_THREAD(cuMemcpy, _ptds, (CuDevicePtr to, CuDevicePtr from, std::size_t bytes), (to, from, bytes))

VMEM_CUDA_EXPORT cuMemcpyPeer(CuDevicePtr to, CuContext to_context, CuDevicePtr from, CuContext from_context,
                              std::size_t bytes) {
  return copy_to_peer("cuMemcpyPeer", kUnsafeWait, to, to_context, from, from_context, bytes, nullptr,
                      Wait::kAsDriversDo);
}
VMEM_CUDA_PER_THREAD(cuMemcpyPeer, _ptds,
                     (CuDevicePtr to, CuContext to_context, CuDevicePtr from, CuContext from_context,
                      std::size_t bytes),
                     (to, to_context, from, from_context, bytes))

// -- Fills -----------------------------------------------------------------------------------------------------------

VMEM_CUDA_EXPORT cuMemsetD8Async(CuDevicePtr to, unsigned char value, std::size_t count, CuStream stream) {
  return fill("cuMemsetD8Async", kContext, to, value, 1, count, stream, Wait::kNo);
}
VMEM_CUDA_PER_THREAD(cuMemsetD8Async, _ptsz, (CuDevicePtr to, unsigned char value, std::size_t count, CuStream stream),
                     (to, value, count, stream))

VMEM_CUDA_EXPORT cuMemsetD16Async(CuDevicePtr to, unsigned short value, std::size_t count, CuStream stream) {
  return fill("cuMemsetD16Async", kContext, to, value, 2, count, stream, Wait::kNo);
}
VMEM_CUDA_PER_THREAD(cuMemsetD16Async, _ptsz,
                     (CuDevicePtr to, unsigned short value, std::size_t count, CuStream stream),
                     (to, value, count, stream))

VMEM_CUDA_EXPORT cuMemsetD32Async(CuDevicePtr to, unsigned value, std::size_t count, CuStream stream) {
  return fill("cuMemsetD32Async", kContext, to, value, 4, count, stream, Wait::kNo);
}
VMEM_CUDA_PER_THREAD(cuMemsetD32Async, _ptsz, (CuDevicePtr to, unsigned value, std::size_t count, CuStream stream),
                     (to, value, count, stream))

VMEM_CUDA_EXPORT cuMemsetD8_v2(CuDevicePtr to, unsigned char value, std::size_t count) {
  return fill("cuMemsetD8", kUnsafeWait, to, value, 1, count, nullptr, Wait::kNo);
}
VMEM_CUDA_PER_THREAD(cuMemsetD8_v2, _ptds, (CuDevicePtr to, unsigned char value, std::size_t count), (to, value, count))

VMEM_CUDA_EXPORT cuMemsetD16_v2(CuDevicePtr to, unsigned short value, std::size_t count) {
  return fill("cuMemsetD16", kUnsafeWait, to, value, 2, count, nullptr, Wait::kNo);
}
VMEM_CUDA_PER_THREAD(cuMemsetD16_v2, _ptds, (CuDevicePtr to, unsigned short value, std::size_t count),
                     (to, value, count))

VMEM_CUDA_EXPORT cuMemsetD32_v2(CuDevicePtr to, unsigned value, std::size_t count) {
  return fill("cuMemsetD32", kUnsafeWait, to, value, 4, count, nullptr, Wait::kNo);
}
VMEM_CUDA_PER_THREAD(cuMemsetD32_v2, _ptds, (CuDevicePtr to, unsigned value, std::size_t count), (to, value, count))

// -- Modules and launches --------------------------------------------------------------------------------------------

VMEM_CUDA_EXPORT cuModuleLoadData(CuModule* module, const void* image) {
  return entry("cuModuleLoadData", kUnsafeWait, [&](Call& call) -> CuResult {
    if (module == nullptr) return kCuInvalidValue;
    Handle handle = 0;
    const Error error = call.driver->load_module(*call.context, image, handle);
    if (error == Error::kNone) *module = as_handle<CuModule>(handle);
    return result_of(error);
  });
}

VMEM_CUDA_EXPORT cuModuleLoadDataEx(CuModule* module, const void* image, unsigned, int*, void**) {
  return cuModuleLoadData(module, image);
}

VMEM_CUDA_EXPORT cuModuleLoadFatBinary(CuModule* module, const void* image) { return cuModuleLoadData(module, image); }

VMEM_CUDA_EXPORT cuModuleUnload(CuModule module) {
  return entry("cuModuleUnload", kUnsafeWait,
               [&](Call& call) { return call.driver->unload_module(as_number(module)); });
}

VMEM_CUDA_EXPORT cuModuleGetFunction(CuFunction* function, CuModule module, const char* name) {
  return entry("cuModuleGetFunction", kContext, [&](Call& call) -> CuResult {
    if (function == nullptr) return kCuInvalidValue;
    Handle handle = 0;
    const Error error = call.driver->find_function(as_number(module), name, handle);
    if (error == Error::kNone) *function = as_handle<CuFunction>(handle);
    return result_of(error);
  });
}

VMEM_CUDA_EXPORT cuModuleGetGlobal_v2(CuDevicePtr*, std::size_t*, CuModule, const char*) {
  return entry("cuModuleGetGlobal", kContext, [](Call&) { return kCuNotFound; });
}

VMEM_CUDA_EXPORT cuModuleGetLoadingMode(int* mode) {
  return entry("cuModuleGetLoadingMode", kInitialized, [&](Call&) -> CuResult {
    if (mode == nullptr) return kCuInvalidValue;
    *mode = 1;  // eager
    return kCuSuccess;
  });
}

VMEM_CUDA_EXPORT cuFuncGetAttribute(int* value, int attribute, CuFunction function) {
  return entry("cuFuncGetAttribute", kContext, [&](Call& call) -> CuResult {
    if (value == nullptr || attribute < 0) return kCuInvalidValue;
    if (call.driver->function(as_number(function)) == nullptr) return kCuInvalidHandle;
    *value = attribute == 0 ? 1024 : 0;  // threads per block
    return kCuSuccess;
  });
}

VMEM_CUDA_EXPORT cuFuncSetAttribute(CuFunction function, int, int) {
  return entry("cuFuncSetAttribute", kContext, [&](Call& call) {
    return call.driver->function(as_number(function)) == nullptr ? kCuInvalidHandle : kCuSuccess;
  });
}

VMEM_CUDA_EXPORT cuFuncGetParamInfo(CuFunction function, std::size_t index, std::size_t* offset, std::size_t* bytes) {
  return entry("cuFuncGetParamInfo", kContext, [&](Call& call) -> CuResult {
    const auto found = call.driver->function(as_number(function));
    if (found == nullptr) return kCuInvalidHandle;
    if (offset == nullptr || index >= found->kernel.parameters.size()) return kCuInvalidValue;
    *offset = found->kernel.parameters[index].offset;
    if (bytes != nullptr) *bytes = found->kernel.parameters[index].bytes;
    return kCuSuccess;
  });
}

VMEM_CUDA_EXPORT cuLaunchKernel(CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                unsigned block_x, unsigned block_y, unsigned block_z, unsigned, CuStream stream,
                                void** parameters, void** extra) {
  return launch("cuLaunchKernel", function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, nullptr, {}},
                stream, parameters, extra);
}
VMEM_CUDA_PER_THREAD(cuLaunchKernel, _ptsz,
                     (CuFunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, CuStream stream, void** parameters, void** extra),
                     (function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra))

VMEM_CUDA_EXPORT cuLaunchKernelEx(const CuLaunchConfig* config, CuFunction function, void** parameters, void** extra) {
  if (config == nullptr) return entry("cuLaunchKernelEx", kContext, [](Call&) { return kCuInvalidValue; });
  return launch("cuLaunchKernelEx", function,
                {{config->grid_x, config->grid_y, config->grid_z},
                 {config->block_x, config->block_y, config->block_z},
                 nullptr,
                 {}},
                config->stream, parameters, extra);
}
VMEM_CUDA_PER_THREAD(cuLaunchKernelEx, _ptsz,
                     (const CuLaunchConfig* config, CuFunction function, void** parameters, void** extra),
                     (config, function, parameters, extra))

VMEM_CUDA_EXPORT cuLaunchHostFunc(CuStream stream, CuHostCallback callback, void* argument) {
  return stream_entry("cuLaunchHostFunc", kContext, stream, [&](Call& call, const QueuePointer& queue) {
    return call.driver->call_host(queue, callback, argument);
  });
}
VMEM_CUDA_PER_THREAD(cuLaunchHostFunc, _ptsz, (CuStream stream, CuHostCallback callback, void* argument),
                     (stream, callback, argument))

// -- Words -----------------------------------------------------------------------------------------------------------

namespace {

CuResult write_word(const char* name, CuStream stream, CuDevicePtr word, std::uint64_t value, unsigned bytes) {
  return stream_entry(name, kContext, stream, [&](Call& call, const QueuePointer& queue) {
    return call.driver->write_value(queue, word, value, bytes);
  });
}

CuResult wait_word(const char* name, CuStream stream, CuDevicePtr word, std::uint64_t value, unsigned bytes,
                   unsigned flags) {
  return stream_entry(name, kContext, stream, [&](Call& call, const QueuePointer& queue) -> CuResult {
    if (flags > 3) return kCuInvalidValue;
    const auto condition = static_cast<Driver::Condition>(flags);
    return result_of(call.driver->wait_value(queue, word, value, bytes, condition));
  });
}

}  // namespace

VMEM_CUDA_EXPORT cuStreamWriteValue32_v2(CuStream stream, CuDevicePtr word, std::uint32_t value, unsigned) {
  return write_word("cuStreamWriteValue32", stream, word, value, 4);
}
VMEM_CUDA_PER_THREAD(cuStreamWriteValue32_v2, _ptsz,
                     (CuStream stream, CuDevicePtr word, std::uint32_t value, unsigned flags),
                     (stream, word, value, flags))

VMEM_CUDA_EXPORT cuStreamWaitValue32_v2(CuStream stream, CuDevicePtr word, std::uint32_t value, unsigned flags) {
  return wait_word("cuStreamWaitValue32", stream, word, value, 4, flags);
}
VMEM_CUDA_PER_THREAD(cuStreamWaitValue32_v2, _ptsz,
                     (CuStream stream, CuDevicePtr word, std::uint32_t value, unsigned flags),
                     (stream, word, value, flags))

VMEM_CUDA_EXPORT cuStreamWriteValue64_v2(CuStream stream, CuDevicePtr word, std::uint64_t value, unsigned) {
  return write_word("cuStreamWriteValue64", stream, word, value, 8);
}
VMEM_CUDA_PER_THREAD(cuStreamWriteValue64_v2, _ptsz,
                     (CuStream stream, CuDevicePtr word, std::uint64_t value, unsigned flags),
                     (stream, word, value, flags))

VMEM_CUDA_EXPORT cuStreamWaitValue64_v2(CuStream stream, CuDevicePtr word, std::uint64_t value, unsigned flags) {
  return wait_word("cuStreamWaitValue64", stream, word, value, 8, flags);
}
VMEM_CUDA_PER_THREAD(cuStreamWaitValue64_v2, _ptsz,
                     (CuStream stream, CuDevicePtr word, std::uint64_t value, unsigned flags),
                     (stream, word, value, flags))
