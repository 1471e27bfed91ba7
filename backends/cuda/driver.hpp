// The CUDA driver, opened at run time: a table of its calls, and what its errors mean.
#pragma once

#include <vmem/status.hpp>

#include <memory>
#include <string>

#include "backends/cuda/driver_entries.hpp"

namespace vmem {

// What stops working because of an error.
enum class CudaFailure {
  kNone,    // the call alone
  kDevice,  // the device it concerns: it is off the bus, or not to be had
  kProcess  // every CUDA device: the error is sticky, or the driver is shutting down
};

CudaFailure failure_of(CuResult result) noexcept;

// Thread contract: immutable; the driver's calls may be made from any thread. The library is never closed: the driver
// has threads and exit handlers of its own.
class CudaDriver {
 public:
  // `library` is a path, or a name that the dynamic linker looks for. kUnsupported, with the reason, where it is
  // missing, a toolkit's stub, too old or broken. Answers only with a driver whose cuInit has succeeded.
  static Result<std::unique_ptr<const CudaDriver>> open(const std::string& library);

  // As cuDriverGetVersion: 13000 for CUDA 13.0.
  int version() const noexcept { return version_; }
  const std::string& library() const noexcept { return library_; }
  bool has_virtual_memory() const noexcept { return has_virtual_memory_; }
  bool has_stream_signals() const noexcept { return has_stream_signals_; }

  // "CUDA_ERROR_ILLEGAL_ADDRESS"; the number where the driver knows no name.
  std::string name_of(CuResult result) const;
  // Success, or an error with the driver's code and name; `call` is the driver's call that failed.
  Status status(CuResult result, const char* call) const;

  // The table. A member has the name of the driver's symbol and is null where an optional one is missing.
#define VMEM_CUDA_MEMBER(group, symbol, ...) CuResult (*symbol)(__VA_ARGS__) = nullptr;
  VMEM_CUDA_ENTRIES(VMEM_CUDA_MEMBER)
#undef VMEM_CUDA_MEMBER

 private:
  CudaDriver() = default;

  // Fills the table; answers with the first entry that is required and missing.
  const char* resolve(void* handle);
  Status start();

  std::string library_;
  int version_ = 0;
  bool has_virtual_memory_ = true;
  bool has_stream_signals_ = true;
};

}  // namespace vmem
