// A libcuda.so.1 that starts to be one, in several ways: compiled with its version and what cuInit answers.
#include "backends/cuda/driver_abi.hpp"

using vmem::CuResult;

extern "C" {

#if defined(DRIVER_VERSION)
CuResult cuDriverGetVersion(int* version) {
  *version = DRIVER_VERSION;
  return CuResult(VERSION_RESULT);
}

CuResult cuInit(unsigned) { return CuResult(INIT_RESULT); }

CuResult cuGetErrorName(CuResult error, const char** name) {
  if (error != vmem::kCuUnknown) return vmem::kCuInvalidValue;
  *name = "CUDA_ERROR_UNKNOWN";
  return vmem::kCuSuccess;
}
#else
int something_else() { return 0; }
#endif
}
