/* A C program on the pool: a vector sum whose vectors together exceed every simulated GPU, worked on in host memory
 * after having been on each device. */
#include <vmem/vmem.h>

#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                                 \
  do {                                                                                              \
    const vmemStatus_t status_ = (call);                                                            \
    if (status_ != vmemSuccess) {                                                                   \
      fprintf(stderr, "%s: %s: %s\n", #call, vmemGetErrorName(status_), vmemGetLastErrorMessage()); \
      return EXIT_FAILURE;                                                                          \
    }                                                                                               \
  } while (0)

enum { kCount = 24 * 1024 * 1024, kPiece = 1024 * 1024 };

static void log_line(vmemLogLevel_t level, const char* message, void* user) {
  (void)user;
  fprintf(stderr, "vmem %d: %s\n", (int)level, message);
}

static int fill(vmemPool_t pool, vmemDevice_t host, vmemAddress_t x, vmemAddress_t y) {
  for (size_t i = 0; i < kCount; i += kPiece) {
    const vmemRange_t ranges[2] = {{x + i * sizeof(float), kPiece * sizeof(float), vmemAccessWriteDiscard},
                                   {y + i * sizeof(float), kPiece * sizeof(float), vmemAccessWriteDiscard}};
    vmemAcquired_t acquired = NULL;
    void* pointers[2];
    CHECK(vmemAcquire(pool, host, VMEM_NO_STREAM, ranges, 2, &acquired, pointers));
    float* const px = pointers[0];
    float* const py = pointers[1];
    for (size_t k = 0; k < kPiece; ++k) {
      px[k] = (float)((i + k) % 1000);
      py[k] = 2.0F * (float)((i + k) % 500);
    }
    CHECK(vmemRelease(acquired));
  }
  return EXIT_SUCCESS;
}

/* Brings every piece to the device in turn, so that more than it holds has been there. */
static int visit(vmemPool_t pool, vmemDevice_t device, vmemAddress_t x) {
  for (size_t i = 0; i < kCount; i += kPiece) {
    vmemPrefetch_t prefetch = NULL;
    CHECK(vmemPrefetchAsync(pool, x + i * sizeof(float), kPiece * sizeof(float), device, &prefetch));
    CHECK(vmemPrefetchWait(prefetch));
    CHECK(vmemPrefetchDestroy(prefetch));
  }
  return EXIT_SUCCESS;
}

static int sum(vmemPool_t pool, vmemDevice_t host, vmemAddress_t x, vmemAddress_t y, double* result) {
  *result = 0;
  for (size_t i = 0; i < kCount; i += kPiece) {
    const vmemRange_t ranges[2] = {{x + i * sizeof(float), kPiece * sizeof(float), vmemAccessRead},
                                   {y + i * sizeof(float), kPiece * sizeof(float), vmemAccessRead}};
    vmemAcquired_t acquired = NULL;
    void* pointers[2];
    CHECK(vmemAcquire(pool, host, VMEM_NO_STREAM, ranges, 2, &acquired, pointers));
    const float* const px = pointers[0];
    const float* const py = pointers[1];
    for (size_t k = 0; k < kPiece; ++k) *result += (double)px[k] + (double)py[k];
    CHECK(vmemRelease(acquired));
  }
  return EXIT_SUCCESS;
}

int main(void) {
  int version = 0;
  CHECK(vmemGetVersion(&version));
  if (version != VMEM_VERSION) return EXIT_FAILURE;

  vmemRuntimeOptions_t runtime_options = VMEM_RUNTIME_OPTIONS_INIT;
  runtime_options.log = log_line;
  vmemRuntime_t runtime = NULL;
  CHECK(vmemRuntimeCreate(&runtime, &runtime_options));

  /* Small limits make any machine's GPUs too small for the vectors, real ones too. */
  int num_devices = 0;
  CHECK(vmemGetDeviceCount(runtime, &num_devices));
  vmemPoolOptions_t pool_options = VMEM_POOL_OPTIONS_INIT;
  vmemDeviceInfo_t info = VMEM_DEVICE_INFO_INIT;
  vmemDeviceLimit_t limit = {info.name, (uint64_t)64 << 20U};
  vmemDevice_t device = NULL;
  CHECK(vmemGetDevice(runtime, 0, &device));
  CHECK(vmemGetDeviceInfo(device, &info));
  pool_options.limits = &limit;
  pool_options.num_limits = 1;
  pool_options.block_bytes = (size_t)4 << 20U;
  vmemPool_t pool = NULL;
  CHECK(vmemPoolCreate(&pool, runtime, &pool_options));

  vmemAddress_t x = 0;
  vmemAddress_t y = 0;
  vmemMallocOptions_t malloc_options = VMEM_MALLOC_OPTIONS_INIT;
  malloc_options.preferred_device = device;
  CHECK(vmemMallocWithOptions(pool, &x, kCount * sizeof(float), &malloc_options));
  CHECK(vmemMalloc(pool, &y, kCount * sizeof(float)));

  vmemDevice_t host = NULL;
  CHECK(vmemFindDevice(runtime, "host:0", &host));
  if (fill(pool, host, x, y) != EXIT_SUCCESS) return EXIT_FAILURE;
  for (int i = 0; i < num_devices; ++i) {
    CHECK(vmemGetDevice(runtime, i, &device));
    if (visit(pool, device, x) != EXIT_SUCCESS) return EXIT_FAILURE;
  }
  double result = 0;
  if (sum(pool, host, x, y, &result) != EXIT_SUCCESS) return EXIT_FAILURE;
  double expected = 0;
  for (size_t i = 0; i < kCount; ++i) expected += (double)(i % 1000) + 2.0 * (double)(i % 500);
  if (result != expected) {
    fprintf(stderr, "the sum is %f, expected %f\n", result, expected);
    return EXIT_FAILURE;
  }

  vmemStats_t stats = VMEM_STATS_INIT;
  CHECK(vmemGetStats(pool, &stats));
  printf("%llu evictions, %llu bytes fetched\n", (unsigned long long)stats.evictions,
         (unsigned long long)stats.fetched_bytes);
  CHECK(vmemFree(pool, x));
  CHECK(vmemFree(pool, y));
  CHECK(vmemPoolDestroy(pool));
  CHECK(vmemRuntimeDestroy(runtime));
  return EXIT_SUCCESS;
}
