// A libcuda.so.1 that starts to be one, in several ways: compiled with its version and what cuInit answers.
extern "C" {

#if defined(DRIVER_VERSION)
int cuDriverGetVersion(int* version) {
  *version = DRIVER_VERSION;
  return VERSION_RESULT;
}

int cuInit(unsigned) { return INIT_RESULT; }

int cuGetErrorName(int error, const char** name) {
  if (error != 999) return 1;
  *name = "CUDA_ERROR_UNKNOWN";
  return 0;
}
#else
int something_else() { return 0; }
#endif
}
