// The kernels of one device by name: vmem's own, from machine code that was embedded when vmem was built or else from a
// compiler found at run time, and those that are added.
//
// CONCURRENCY: every member may be called from any thread. A kernel that is replaced stays loaded until the set ends,
// so launches of it in other threads go on.
#pragma once

#include <vmem/kernel.hpp>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/cuda/machine.hpp"
#include "backends/cuda/nvrtc.hpp"

namespace vmem {

// Images for all devices of a backend.
class KernelCompiler {
 public:
  explicit KernelCompiler(const CudaMachine& machine) : machine_(machine) {}

  // kUnsupported where no compiler is found. The same source for the same architecture is compiled once.
  Result<std::string> compile(const KernelImage& kernel, int major, int minor) VMEM_EXCLUDES(mutex_);

 private:
  const CudaMachine& machine_;
  Mutex mutex_;
  bool looked_for_ VMEM_GUARDED_BY(mutex_) = false;
  Status missing_ VMEM_GUARDED_BY(mutex_);
  std::unique_ptr<Nvrtc> nvrtc_ VMEM_GUARDED_BY(mutex_);
  std::unordered_map<std::string, std::string> images_ VMEM_GUARDED_BY(mutex_);  // by architecture and source
};

class KernelSet {
 public:
  // What a kernel's parameters must be; empty where the driver does not say.
  struct Kernel {
    CuFunction function = nullptr;
    bool sizes_known = false;
    std::vector<std::size_t> parameter_bytes;
  };

  KernelSet(CudaContext& context, KernelCompiler& compiler, int major, int minor)
      : context_(context), compiler_(compiler), major_(major), minor_(minor) {}
  // Unloads what was loaded; the device's work is over.
  ~KernelSet();

  // vmem's own kernels. kUnsupported, with the reason, where neither embedded code nor a compiler serves the device.
  Status load_builtin() VMEM_EXCLUDES(mutex_);
  Status add(const KernelImage& image) VMEM_EXCLUDES(mutex_);
  Result<std::shared_ptr<const Kernel>> find(const std::string& name) const VMEM_EXCLUDES(mutex_);
  // "embedded" or "compiled at start".
  const char* origin() const noexcept { return origin_; }

 private:
  Result<CuModule> load(const void* image) VMEM_EXCLUDES(mutex_);
  Status take(CuModule module, const char* name) VMEM_EXCLUDES(mutex_);
  Status load_embedded() VMEM_EXCLUDES(mutex_);
  Status load_source(const std::vector<const KernelImage*>& kernels) VMEM_EXCLUDES(mutex_);

  CudaContext& context_;
  KernelCompiler& compiler_;
  const int major_;
  const int minor_;
  const char* origin_ = "none";
  mutable Mutex mutex_;
  std::vector<CuModule> modules_ VMEM_GUARDED_BY(mutex_);
  // Shared with launches that are under way when a name is replaced.
  std::unordered_map<std::string, std::shared_ptr<const Kernel>> kernels_ VMEM_GUARDED_BY(mutex_);
};

}  // namespace vmem
