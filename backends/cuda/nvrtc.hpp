// NVIDIA's run-time compiler, found at run time: the kernels of applications, and vmem's own where it was built without
// nvcc.
#pragma once

#include <vmem/status.hpp>

#include <memory>
#include <string>

#include "runtime/support/thread_annotations.hpp"

namespace vmem {

// Thread contract: `compile` may be called from any thread. The library is never closed.
class Nvrtc {
 public:
  // `library` is its path; empty: the one that fits a driver of `driver_version` best among those installed.
  // kUnsupported, with the reason, where there is none.
  static Result<std::unique_ptr<Nvrtc>> open(const std::string& library, int driver_version);

  // An image for devices of that compute capability: machine code where this compiler knows them, else PTX of the
  // newest architecture before them. kInvalidValue with the compiler's messages for source that does not compile.
  Result<std::string> compile(const char* source, int major, int minor) VMEM_EXCLUDES(mutex_);

 private:
  struct Table;
  struct Program;
  explicit Nvrtc(std::unique_ptr<Table> table);

 public:
  ~Nvrtc();

 private:
  Result<int> choose_architecture(int wanted) const;
  std::string messages_of(const Program& program) const;

  const std::unique_ptr<Table> table_;
  Mutex mutex_;  // older versions compile one program at a time
};

}  // namespace vmem
