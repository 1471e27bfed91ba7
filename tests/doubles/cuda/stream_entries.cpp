// Entries: streams, events, captures, graphs.
#include "tests/doubles/cuda/entries.hpp"
#include "tests/doubles/cuda/entry.hpp"

using namespace vmem;
using namespace vmem::cuda_double;
using sim::CaptureMode;

namespace {

using QueuePointer = std::shared_ptr<sim::Queue>;

CuResult create_stream(const char* name, CuStream* stream, unsigned flags, int priority) {
  return entry(name, kContext, [&](Call& call) -> CuResult {
    if (stream == nullptr || (flags & ~kCuStreamNonBlocking) != 0) return kCuInvalidValue;
    Handle handle = 0;
    const bool blocking = (flags & kCuStreamNonBlocking) == 0;
    const Error error = call.driver->create_queue(*call.context, blocking, flags, priority, handle);
    if (error == Error::kNone) *stream = as_handle<CuStream>(handle);
    return result_of(error);
  });
}

CuResult elapsed(const char* name, float* milliseconds, CuEvent begin, CuEvent end) {
  return entry(name, kContext, [&](Call& call) -> CuResult {
    if (milliseconds == nullptr) return kCuInvalidValue;
    return result_of(call.driver->elapsed(as_number(begin), as_number(end), *milliseconds));
  });
}

CuResult instantiate(const char* name, CuGraphExec* instance, CuGraph graph) {
  return entry(name, kContext, [&](Call& call) -> CuResult {
    if (instance == nullptr) return kCuInvalidValue;
    Handle handle = 0;
    const Error error = call.driver->instantiate(as_number(graph), handle);
    if (error == Error::kNone) *instance = as_handle<CuGraphExec>(handle);
    return result_of(error);
  });
}

int status_of(Driver::CaptureStatus status) { return static_cast<int>(status); }

}  // namespace

// -- Streams ---------------------------------------------------------------------------------------------------------

VMEM_CUDA_EXPORT cuStreamCreate(CuStream* stream, unsigned flags) {
  return create_stream("cuStreamCreate", stream, flags, 0);
}

VMEM_CUDA_EXPORT cuStreamCreateWithPriority(CuStream* stream, unsigned flags, int priority) {
  return create_stream("cuStreamCreateWithPriority", stream, flags, priority < -5 ? -5 : priority > 0 ? 0 : priority);
}

VMEM_CUDA_EXPORT cuStreamDestroy_v2(CuStream stream) {
  return entry("cuStreamDestroy", kContext, [&](Call& call) { return call.driver->destroy_queue(as_number(stream)); });
}

VMEM_CUDA_EXPORT cuStreamSynchronize(CuStream stream) {
  return stream_entry("cuStreamSynchronize", kContext | kUnsafe, stream,
                      [](Call& call, const QueuePointer& queue) { return call.driver->synchronize(queue); });
}
VMEM_CUDA_PER_THREAD(cuStreamSynchronize, _ptsz, (CuStream stream), (stream))

VMEM_CUDA_EXPORT cuStreamQuery(CuStream stream) {
  return stream_entry("cuStreamQuery", kContext | kUnsafe, stream,
                      [](Call& call, const QueuePointer& queue) { return call.driver->query(*queue); });
}
VMEM_CUDA_PER_THREAD(cuStreamQuery, _ptsz, (CuStream stream), (stream))

VMEM_CUDA_EXPORT cuStreamGetCtx(CuStream stream, CuContext* context) {
  return stream_entry("cuStreamGetCtx", kContext, stream, [&](Call&, const QueuePointer& queue) -> CuResult {
    if (context == nullptr) return kCuInvalidValue;
    *context = as_handle<CuContext>(queue->context->handle);
    return kCuSuccess;
  });
}
VMEM_CUDA_PER_THREAD(cuStreamGetCtx, _ptsz, (CuStream stream, CuContext* context), (stream, context))

VMEM_CUDA_EXPORT cuStreamGetFlags(CuStream stream, unsigned* flags) {
  return stream_entry("cuStreamGetFlags", kContext, stream, [&](Call&, const QueuePointer& queue) -> CuResult {
    if (flags == nullptr) return kCuInvalidValue;
    *flags = queue->flags;
    return kCuSuccess;
  });
}
VMEM_CUDA_PER_THREAD(cuStreamGetFlags, _ptsz, (CuStream stream, unsigned* flags), (stream, flags))

VMEM_CUDA_EXPORT cuStreamGetPriority(CuStream stream, int* priority) {
  return stream_entry("cuStreamGetPriority", kContext, stream, [&](Call&, const QueuePointer& queue) -> CuResult {
    if (priority == nullptr) return kCuInvalidValue;
    *priority = queue->priority;
    return kCuSuccess;
  });
}
VMEM_CUDA_PER_THREAD(cuStreamGetPriority, _ptsz, (CuStream stream, int* priority), (stream, priority))

VMEM_CUDA_EXPORT cuStreamGetId(CuStream stream, unsigned long long* id) {
  return stream_entry("cuStreamGetId", kContext, stream, [&](Call&, const QueuePointer& queue) -> CuResult {
    if (id == nullptr) return kCuInvalidValue;
    *id = queue->id;
    return kCuSuccess;
  });
}
VMEM_CUDA_PER_THREAD(cuStreamGetId, _ptsz, (CuStream stream, unsigned long long* id), (stream, id))

VMEM_CUDA_EXPORT cuStreamWaitEvent(CuStream stream, CuEvent event, unsigned) {
  return stream_entry("cuStreamWaitEvent", kContext, stream, [&](Call& call, const QueuePointer& queue) {
    return call.driver->wait_event(queue, as_number(event));
  });
}
VMEM_CUDA_PER_THREAD(cuStreamWaitEvent, _ptsz, (CuStream stream, CuEvent event, unsigned flags), (stream, event, flags))

VMEM_CUDA_EXPORT cuStreamAddCallback(CuStream stream, CuStreamCallback callback, void* argument, unsigned) {
  return stream_entry("cuStreamAddCallback", kContext, stream, [&](Call& call, const QueuePointer& queue) -> CuResult {
    if (callback == nullptr) return kCuInvalidValue;
    struct Callback {
      CuStreamCallback function;
      CuStream stream;
      void* argument;
    };
    const auto run = [](void* opaque) {
      const std::unique_ptr<Callback> call_back(static_cast<Callback*>(opaque));
      call_back->function(call_back->stream, kCuSuccess, call_back->argument);
    };
    auto pending = std::make_unique<Callback>(Callback{callback, stream, argument});
    const Error error = call.driver->call_host(queue, run, pending.get());
    if (error == Error::kNone) pending.release();
    return result_of(error);
  });
}
VMEM_CUDA_PER_THREAD(cuStreamAddCallback, _ptsz,
                     (CuStream stream, CuStreamCallback callback, void* argument, unsigned flags),
                     (stream, callback, argument, flags))

// -- Events ----------------------------------------------------------------------------------------------------------

VMEM_CUDA_EXPORT cuEventCreate(CuEvent* event, unsigned flags) {
  return entry("cuEventCreate", kContext, [&](Call& call) -> CuResult {
    if (event == nullptr || flags > 7) return kCuInvalidValue;
    Handle handle = 0;
    const Error error = call.driver->create_event(*call.context, (flags & kCuEventDisableTiming) == 0, handle);
    if (error == Error::kNone) *event = as_handle<CuEvent>(handle);
    return result_of(error);
  });
}

VMEM_CUDA_EXPORT cuEventDestroy_v2(CuEvent event) {
  return entry("cuEventDestroy", kInitialized,
               [&](Call& call) { return call.driver->destroy_event(as_number(event)); });
}

VMEM_CUDA_EXPORT cuEventRecord(CuEvent event, CuStream stream) {
  return stream_entry("cuEventRecord", kContext, stream, [&](Call& call, const QueuePointer& queue) {
    return call.driver->record(as_number(event), queue);
  });
}
VMEM_CUDA_PER_THREAD(cuEventRecord, _ptsz, (CuEvent event, CuStream stream), (event, stream))

VMEM_CUDA_EXPORT cuEventRecordWithFlags(CuEvent event, CuStream stream, unsigned) {
  return stream_entry("cuEventRecordWithFlags", kContext, stream, [&](Call& call, const QueuePointer& queue) {
    return call.driver->record(as_number(event), queue);
  });
}
VMEM_CUDA_PER_THREAD(cuEventRecordWithFlags, _ptsz, (CuEvent event, CuStream stream, unsigned flags),
                     (event, stream, flags))

VMEM_CUDA_EXPORT cuEventQuery(CuEvent event) {
  return entry("cuEventQuery", kUnsafe, [&](Call& call) { return call.driver->query_event(as_number(event)); });
}

VMEM_CUDA_EXPORT cuEventSynchronize(CuEvent event) {
  return entry("cuEventSynchronize", kUnsafe,
               [&](Call& call) { return call.driver->synchronize_event(as_number(event)); });
}

VMEM_CUDA_EXPORT cuEventElapsedTime(float* milliseconds, CuEvent begin, CuEvent end) {
  return elapsed("cuEventElapsedTime", milliseconds, begin, end);
}

VMEM_CUDA_EXPORT cuEventElapsedTime_v2(float* milliseconds, CuEvent begin, CuEvent end) {
  return elapsed("cuEventElapsedTime", milliseconds, begin, end);
}

// -- Captures --------------------------------------------------------------------------------------------------------

VMEM_CUDA_EXPORT cuStreamBeginCapture_v2(CuStream stream, CuStreamCaptureMode mode) {
  return stream_entry("cuStreamBeginCapture", kContext, stream, [&](Call& call, const QueuePointer& queue) -> CuResult {
    if (mode < 0 || mode > kCuCaptureRelaxed) return kCuInvalidValue;
    return result_of(call.driver->begin_capture(queue, static_cast<CaptureMode>(mode)));
  });
}
VMEM_CUDA_PER_THREAD(cuStreamBeginCapture_v2, _ptsz, (CuStream stream, CuStreamCaptureMode mode), (stream, mode))

VMEM_CUDA_EXPORT cuStreamEndCapture(CuStream stream, CuGraph* graph) {
  return stream_entry("cuStreamEndCapture", kContext, stream, [&](Call& call, const QueuePointer& queue) -> CuResult {
    if (graph == nullptr) return kCuInvalidValue;
    Handle handle = 0;
    const Error error = call.driver->end_capture(queue, handle);
    *graph = as_handle<CuGraph>(handle);
    return result_of(error);
  });
}
VMEM_CUDA_PER_THREAD(cuStreamEndCapture, _ptsz, (CuStream stream, CuGraph* graph), (stream, graph))

VMEM_CUDA_EXPORT cuStreamIsCapturing(CuStream stream, CuStreamCaptureStatus* status) {
  return stream_entry("cuStreamIsCapturing", kContext, stream, [&](Call& call, const QueuePointer& queue) -> CuResult {
    if (status == nullptr) return kCuInvalidValue;
    auto found = Driver::CaptureStatus::kNone;
    std::uint64_t id = 0;
    const Error error = call.driver->capture_status(*queue, found, id);
    *status = static_cast<CuStreamCaptureStatus>(status_of(found));
    return result_of(error);
  });
}
VMEM_CUDA_PER_THREAD(cuStreamIsCapturing, _ptsz, (CuStream stream, CuStreamCaptureStatus* status), (stream, status))

VMEM_CUDA_EXPORT cuStreamGetCaptureInfo_v2(CuStream stream, CuStreamCaptureStatus* status, std::uint64_t* id,
                                           CuGraph* graph, const void*** dependencies, std::size_t* count) {
  return stream_entry("cuStreamGetCaptureInfo", kContext, stream,
                      [&](Call& call, const QueuePointer& queue) -> CuResult {
                        if (status == nullptr) return kCuInvalidValue;
                        auto found = Driver::CaptureStatus::kNone;
                        std::uint64_t number = 0;
                        const Error error = call.driver->capture_status(*queue, found, number);
                        *status = static_cast<CuStreamCaptureStatus>(status_of(found));
                        if (id != nullptr) *id = number;
                        // The graph is not handed out before the capture has ended.
                        if (graph != nullptr) *graph = nullptr;
                        if (dependencies != nullptr) *dependencies = nullptr;
                        if (count != nullptr) *count = 0;
                        return result_of(error);
                      });
}
VMEM_CUDA_PER_THREAD(cuStreamGetCaptureInfo_v2, _ptsz,
                     (CuStream stream, CuStreamCaptureStatus* status, std::uint64_t* id, CuGraph* graph,
                      const void*** dependencies, std::size_t* count),
                     (stream, status, id, graph, dependencies, count))

VMEM_CUDA_EXPORT cuThreadExchangeStreamCaptureMode(CuStreamCaptureMode* mode) {
  return entry("cuThreadExchangeStreamCaptureMode", kInitialized, [&](Call&) -> CuResult {
    if (mode == nullptr || *mode < 0 || *mode > kCuCaptureRelaxed) return kCuInvalidValue;
    *mode = static_cast<CuStreamCaptureMode>(Driver::exchange_capture_mode(static_cast<CaptureMode>(*mode)));
    return kCuSuccess;
  });
}

// -- Graphs ----------------------------------------------------------------------------------------------------------

VMEM_CUDA_EXPORT cuGraphInstantiateWithFlags(CuGraphExec* instance, CuGraph graph, unsigned long long) {
  return instantiate("cuGraphInstantiateWithFlags", instance, graph);
}

VMEM_CUDA_EXPORT cuGraphLaunch(CuGraphExec instance, CuStream stream) {
  return stream_entry("cuGraphLaunch", kContext, stream, [&](Call& call, const QueuePointer& queue) {
    return call.driver->launch_graph(as_number(instance), queue);
  });
}
VMEM_CUDA_PER_THREAD(cuGraphLaunch, _ptsz, (CuGraphExec instance, CuStream stream), (instance, stream))

VMEM_CUDA_EXPORT cuGraphDestroy(CuGraph graph) {
  return entry("cuGraphDestroy", kInitialized,
               [&](Call& call) { return call.driver->destroy_graph(as_number(graph)); });
}

VMEM_CUDA_EXPORT cuGraphExecDestroy(CuGraphExec instance) {
  return entry("cuGraphExecDestroy", kInitialized,
               [&](Call& call) { return call.driver->destroy_graph(as_number(instance)); });
}

VMEM_CUDA_EXPORT cuGraphGetNodes(CuGraph graph, void** nodes, std::size_t* count) {
  return entry("cuGraphGetNodes", kInitialized, [&](Call& call) -> CuResult {
    if (count == nullptr) return kCuInvalidValue;
    if (nodes != nullptr) return kCuNotSupported;  // there are no handles of single nodes
    *count = call.driver->graph_size(as_number(graph));
    return kCuSuccess;
  });
}
