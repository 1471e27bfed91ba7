#include "backends/cuda/kernel_set.hpp"

#include <map>
#include <utility>

#include "backends/cuda/driver_call.hpp"
#include "backends/cuda/embedded_kernels.hpp"
#include "backends/kernels/kernels.hpp"
#include "runtime/support/format.hpp"

namespace vmem {

Result<std::string> KernelCompiler::compile(const KernelImage& kernel, int major, int minor) {
  const CudaOptions& options = machine_.options;
  if (options.compiler) return options.compiler(kernel, major, minor);
  MutexLock lock(mutex_);
  if (!std::exchange(looked_for_, true)) {
    auto opened = Nvrtc::open(options.nvrtc_library, machine_.driver->version());
    missing_ = opened.error();
    if (opened) nvrtc_ = std::move(opened).value();
  }
  if (!nvrtc_) return missing_;
  const std::string key = format("{}.{} {}", major, minor, kernel.source);
  if (const auto it = images_.find(key); it != images_.end()) return it->second;
  VMEM_ASSIGN_OR_RETURN(std::string image, nvrtc_->compile(kernel.source, major, minor));
  images_.emplace(key, image);
  return image;
}

KernelSet::~KernelSet() {
  if (context_.machine().in_child()) return;
  MutexLock lock(mutex_);
  if (modules_.empty()) return;
  DriverCall call(context_);
  if (!call.status()) return;
  for (CuModule module : modules_) static_cast<void>(context_.driver().cuModuleUnload(module));
}

Result<CuModule> KernelSet::load(const void* image) {
  CuModule module = nullptr;
  VMEM_RETURN_IF_ERROR(context_.check(context_.driver().cuModuleLoadData(&module, image), "cuModuleLoadData"));
  MutexLock lock(mutex_);
  modules_.push_back(module);
  return module;
}

Status KernelSet::take(CuModule module, const char* name) {
  const CudaDriver& driver = context_.driver();
  Kernel kernel;
  VMEM_RETURN_IF_ERROR(
      context_.check(driver.cuModuleGetFunction(&kernel.function, module, name), "cuModuleGetFunction"));
  if (driver.cuFuncGetParamInfo != nullptr) {
    kernel.sizes_known = true;
    std::size_t offset = 0;
    std::size_t bytes = 0;
    // It answers "invalid value" past the last parameter.
    for (std::size_t i = 0; driver.cuFuncGetParamInfo(kernel.function, i, &offset, &bytes) == kCuSuccess; ++i) {
      kernel.parameter_bytes.push_back(bytes);
    }
  }
  MutexLock lock(mutex_);
  kernels_[name] = std::make_shared<const Kernel>(std::move(kernel));
  return {};
}

Status KernelSet::load_embedded() {
  if (embedded_kernels() == nullptr || !context_.machine().options.use_embedded_kernels) {
    return Status(StatusCode::kUnsupported, "vmem was built without nvcc");
  }
  VMEM_ASSIGN_OR_RETURN(CuModule module, load(embedded_kernels()));
  for (const KernelImage& image : builtin_kernels()) VMEM_RETURN_IF_ERROR(take(module, image.name));
  return {};
}

Status KernelSet::load_source(const std::vector<const KernelImage*>& kernels) {
  VMEM_ASSIGN_OR_RETURN(const std::string image, compiler_.compile(*kernels.front(), major_, minor_));
  VMEM_ASSIGN_OR_RETURN(CuModule module, load(image.c_str()));
  for (const KernelImage* const kernel : kernels) VMEM_RETURN_IF_ERROR(take(module, kernel->name));
  return {};
}

Status KernelSet::load_builtin() {
  DriverCall call(context_);
  VMEM_RETURN_IF_ERROR(call.status());
  const Status embedded = load_embedded();
  if (embedded) {
    origin_ = "embedded";
    return {};
  }
  // Several kernels share one text.
  std::map<const char*, std::vector<const KernelImage*>> by_source;
  for (const KernelImage& image : builtin_kernels()) by_source[image.source].push_back(&image);
  for (const auto& [source, kernels] : by_source) {
    if (const Status status = load_source(kernels); !status) {
      return Status(StatusCode::kUnsupported, format("no kernels: {}; {}", embedded.message(), status.message()))
          .with_device(context_.name());
    }
  }
  origin_ = "compiled at start";
  return {};
}

Status KernelSet::add(const KernelImage& image) {
  DriverCall call(context_);
  VMEM_RETURN_IF_ERROR(call.status());
  return load_source({&image}).with_device(context_.name());
}

Result<std::shared_ptr<const KernelSet::Kernel>> KernelSet::find(const std::string& name) const {
  MutexLock lock(mutex_);
  const auto it = kernels_.find(name);
  if (it == kernels_.end()) return Status(StatusCode::kNotFound, format("launch: there is no kernel '{}'", name));
  return it->second;
}

}  // namespace vmem
