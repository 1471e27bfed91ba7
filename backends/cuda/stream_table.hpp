// The streams that a backend has made: which device they are of, and which of them are in use.
//
// A stream that its user has destroyed is kept and handed out again: the driver's handle of a stream that is gone must
// not be asked about, and a stream costs more to make than to keep.
//
// CONCURRENCY: every member may be called from any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <unordered_map>
#include <vector>

#include "backends/cuda/driver_abi.hpp"
#include "runtime/support/thread_annotations.hpp"

namespace vmem {

class CudaContext;

class StreamTable {
 public:
  enum class Answer { kUnknown, kInUse, kIdle };
  struct Found {
    Answer answer = Answer::kUnknown;
    const CudaContext* context = nullptr;
  };

  Found find(CuStream stream) const VMEM_EXCLUDES(mutex_);
  // A stream of the context that was given back; the caller has it alone.
  std::optional<CuStream> take_idle(const CudaContext* context) VMEM_EXCLUDES(mutex_);
  // A new one, in use.
  void add(CuStream stream, const CudaContext* context) VMEM_EXCLUDES(mutex_);
  // From in use to neither, until `give_back`: two that end it at once are not both told so. False where it is not the
  // context's, or not in use.
  bool begin_end(CuStream stream, const CudaContext* context) VMEM_EXCLUDES(mutex_);
  // After `begin_end`: its work is over, or (`in_use`) it could not be ended.
  void give_back(CuStream stream, bool in_use) VMEM_EXCLUDES(mutex_);
  // Forgets the context's streams and hands them to the caller.
  std::vector<CuStream> remove(const CudaContext* context) VMEM_EXCLUDES(mutex_);

 private:
  struct Entry {
    const CudaContext* context;
    bool in_use;
  };
  mutable Mutex mutex_;
  std::unordered_map<CuStream, Entry> entries_ VMEM_GUARDED_BY(mutex_);
  std::vector<CuStream> idle_ VMEM_GUARDED_BY(mutex_);
};

}  // namespace vmem
