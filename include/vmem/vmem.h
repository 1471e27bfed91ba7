/**
 * The C API of vmem. C11 and C++.
 *
 * Names and forms follow cudaMalloc, hipMalloc and their kin. What the words mean (buffer, acquire, device, pool
 * address) the C++ headers say: pool.hpp, runtime.hpp, backend.hpp; each function here names what it calls.
 *
 * Status: every function that can fail returns a vmemStatus_t; vmemGetLastErrorMessage has the text of it. A NULL where
 * a pointer or handle is needed is vmemErrorInvalidValue. Output parameters are written on every path: to zero or NULL
 * on failure. No function throws.
 *
 * Structs that may grow begin with `struct_size`; set it by the macro VMEM_..._INIT (or sizeof). A program built with
 * an older header gets the defaults for what its struct lacks. One built with a newer header may set what this library
 * does not know only to zero, otherwise the call is vmemErrorUnsupported; of structs that are filled in, what the
 * library does not know is set to zero.
 *
 * Handles are destroyed by the function of their name; using one afterwards is undefined, as with free(). Destroying
 * NULL is a quiet success.
 *
 * Thread contract: every function may be called from any thread; one handle must not be destroyed while another thread
 * uses it. After fork, a child has no devices: calls there fail with vmemErrorDeviceFailed, destroying succeeds and
 * does nothing.
 */
#pragma once

#include <vmem/export.h>
#include <vmem/version.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* -- Status -------------------------------------------------------------------------------------------------------- */

/** Why a call failed; the values of vmem::StatusCode (status.hpp). */
typedef enum vmemStatus_t {
  vmemSuccess = 0,
  vmemErrorInvalidValue = 1,      /**< an argument is wrong; the message says which, and what was expected */
  vmemErrorNotFound = 2,          /**< no such device, file or name */
  vmemErrorUnsupported = 3,       /**< the device, the driver or the build can't do this */
  vmemErrorBusy = 4,              /**< held by others beyond the deadline */
  vmemErrorCancelled = 5,         /**< a plan was cancelled between two moves */
  vmemErrorTimeout = 6,           /**< a copy did not complete in time; its device has failed */
  vmemErrorDeviceFailed = 7,      /**< the device is lost or its context is unusable */
  vmemErrorOutOfDeviceMemory = 8, /**< a GPU's memory, with nothing left to evict */
  vmemErrorOutOfHostMemory = 9,   /**< host memory: the pool's, or the process's own */
  vmemErrorOutOfStorage = 10,     /**< the files of the storage tier */
  vmemErrorOutOfAddresses = 11,   /**< the reserved range of pool addresses is used up */
  vmemErrorDataLost = 12,         /**< the bytes asked for did not arrive or failed their check */
  vmemErrorIo = 13,               /**< a file could not be read or written */
  vmemErrorConfig = 14,           /**< a topology file, an environment variable or an option has a wrong value */
  vmemErrorInternal = 15          /**< a library that vmem uses failed in an unexpected way */
} vmemStatus_t;

/** The name of a status, such as "vmemErrorInvalidValue"; "unknown vmemStatus_t" for a value that is none. */
VMEM_API const char* vmemGetErrorName(vmemStatus_t status);
/** What a status means, in a few words. */
VMEM_API const char* vmemGetErrorString(vmemStatus_t status);
/**
 * The text of this thread's last call that failed: what was asked, what was found, what to do. Empty where none has. It
 * belongs to the thread and stays until the thread's next failing call.
 */
VMEM_API const char* vmemGetLastErrorMessage(void);
/** The version of the library that runs, as VMEM_VERSION is written: 10203 is 1.2.3. */
VMEM_API vmemStatus_t vmemGetVersion(int* version);

/* -- Handles and values -------------------------------------------------------------------------------------------- */

typedef struct vmemRuntime_st* vmemRuntime_t;   /**< the machine, opened: devices, topology, transfers */
typedef struct vmemDevice_st* vmemDevice_t;     /**< a device of a runtime; lives as long as it, never destroyed */
typedef struct vmemPool_st* vmemPool_t;         /**< one virtual address space over the devices */
typedef struct vmemAcquired_st* vmemAcquired_t; /**< a granted list of ranges */
typedef struct vmemEvent_st* vmemEvent_t;       /**< the completion of an asynchronous copy */
typedef struct vmemPrefetch_st* vmemPrefetch_t; /**< an asynchronous fetch */

/** A byte of a pool's address space. It names bytes, is never dereferenced, and equals no pointer of the process. */
typedef uint64_t vmemAddress_t;

/** A driver's stream (CUstream, hipStream_t, or one of vmemStreamCreate). NULL is the driver's default stream. */
typedef void* vmemStream_t;
/** No stream: the call returns when the bytes are there, and the caller orders its own work. */
#define VMEM_NO_STREAM ((vmemStream_t)(intptr_t)-1)

/* -- Runtime ------------------------------------------------------------------------------------------------------- */

/** Severity of a line of the log. */
typedef enum vmemLogLevel_t {
  vmemLogDefault = -1, /**< in options: VMEM_LOG, else warnings */
  vmemLogOff = 0,
  vmemLogError = 1,
  vmemLogWarn = 2,
  vmemLogInfo = 3,
  vmemLogDebug = 4
} vmemLogLevel_t;

/** Takes a line of the log, from any thread, one line at a time. It must not call vmem. `message` lasts for the call.
 */
typedef void (*vmemLogCallback_t)(vmemLogLevel_t level, const char* message, void* user);

/** As vmem::RuntimeOptions (options.hpp), which names the environment variable behind each field. */
typedef struct vmemRuntimeOptions_t {
  size_t struct_size;
  const char* topology_file; /**< NULL: VMEM_TOPOLOGY, else none */
  const char* backend_dir;   /**< NULL: VMEM_BACKEND_DIR, else none */
  int simulated_gpus;        /**< -1: VMEM_SIMULATED_GPUS, else 2; matters where there is no GPU */
  vmemLogLevel_t log_level;  /**< vmemLogDefault: VMEM_LOG, else warnings */
  uint64_t host_limit_bytes; /**< 0: VMEM_HOST_LIMIT, else half of what is available */
  size_t staging_bytes;      /**< 0: VMEM_STAGING_LIMIT, else 256 MiB */
  uint64_t copy_timeout_ms;  /**< 0: VMEM_COPY_TIMEOUT_MS, else 30 s */
  vmemLogCallback_t log;     /**< NULL: the log goes to standard error */
  void* log_user;            /**< handed to `log` */
} vmemRuntimeOptions_t;
#define VMEM_RUNTIME_OPTIONS_INIT \
  { sizeof(vmemRuntimeOptions_t), NULL, NULL, -1, vmemLogDefault, 0, 0, 0, NULL, NULL }

/**
 * Opens the machine. `options` may be NULL. A backend that can't be used is absent and no error (vmemGetAbsentBackend).
 * Errors: vmemErrorConfig (an option, the environment, the topology file), vmemErrorOutOfHostMemory.
 */
VMEM_API vmemStatus_t vmemRuntimeCreate(vmemRuntime_t* runtime, const vmemRuntimeOptions_t* options);
/** Closes it. vmemErrorBusy while it has pools: then nothing happens. */
VMEM_API vmemStatus_t vmemRuntimeDestroy(vmemRuntime_t runtime);
/** Backends that can't be used, by index from 0; vmemErrorNotFound past the last. The texts live as long as the
 * runtime. */
VMEM_API vmemStatus_t vmemGetAbsentBackend(vmemRuntime_t runtime, size_t index, const char** name, const char** reason);

/* -- Devices ------------------------------------------------------------------------------------------------------- */

/** How many devices the runtime has: GPUs first, then host nodes. */
VMEM_API vmemStatus_t vmemGetDeviceCount(vmemRuntime_t runtime, int* count);
/** The device at an index from 0. vmemErrorInvalidValue past the last. */
VMEM_API vmemStatus_t vmemGetDevice(vmemRuntime_t runtime, int index, vmemDevice_t* device);
/** The device of a name such as "cuda:0". vmemErrorNotFound; the message names the devices there are. */
VMEM_API vmemStatus_t vmemFindDevice(vmemRuntime_t runtime, const char* name, vmemDevice_t* device);

/** A device's place in the hierarchy of memories. */
typedef enum vmemTier_t { vmemTierDevice = 0, vmemTierHost = 1, vmemTierStorage = 2, vmemTierRemote = 3 } vmemTier_t;

/** What a device is; as vmem::DeviceInfo (device_info.hpp). Texts that are too long end early. */
typedef struct vmemDeviceInfo_t {
  size_t struct_size;
  char name[64];    /**< unique in the runtime, such as "cuda:0" */
  char backend[32]; /**< "cuda", "rocm", "host" */
  char vendor[32];  /**< a label: devices of different labels never share an address space */
  char model[96];   /**< for people */
  char uuid[64];    /**< the driver's identity of the card */
  char pci[16];     /**< "0000:41:00.0"; empty where it has none */
  int index;        /**< for vmemGetDevice */
  int numa_node;    /**< -1: unknown */
  vmemTier_t tier;
  unsigned wave_width;  /**< 32 or 64; 0 without kernels */
  int simulated;        /**< 1 for a simulated device */
  uint32_t caps;        /**< bits of vmem::DeviceCap */
  uint64_t total_bytes; /**< capacity */
  uint64_t limit_bytes; /**< the most that pools may use of it */
  uint64_t granularity; /**< bytes, of its memory management */
} vmemDeviceInfo_t;
#define VMEM_DEVICE_INFO_INIT \
  { sizeof(vmemDeviceInfo_t), "", "", "", "", "", "", 0, -1, vmemTierDevice, 0, 0, 0, 0, 0, 0 }

/** Fills `info`, whose struct_size must be set. */
VMEM_API vmemStatus_t vmemGetDeviceInfo(vmemDevice_t device, vmemDeviceInfo_t* info);
/** Bytes of the device's memory now, other processes' use counted. Either may be NULL, not both. free <= total. */
VMEM_API vmemStatus_t vmemMemGetInfo(vmemDevice_t device, size_t* free_bytes, size_t* total_bytes);

/** A new stream of the device: simulated ones have no other way to one. */
VMEM_API vmemStatus_t vmemStreamCreate(vmemDevice_t device, vmemStream_t* stream);
/** Waits for the stream's work, then ends it. vmemErrorInvalidValue for a stream that is not the device's. */
VMEM_API vmemStatus_t vmemStreamDestroy(vmemDevice_t device, vmemStream_t stream);
/** Waits for the work that was enqueued so far, and returns its outcome. */
VMEM_API vmemStatus_t vmemStreamSynchronize(vmemDevice_t device, vmemStream_t stream);

/* -- Pool ---------------------------------------------------------------------------------------------------------- */

/** Where an allocation is cut from the free space. */
typedef enum vmemFit_t { vmemFitFirst = 0, vmemFitBest = 1, vmemFitWorst = 2 } vmemFit_t;

/** Where bytes go when several devices could hold them. */
typedef enum vmemPlacement_t {
  vmemPlacementLocalityFirst = 0, /**< the device that the bytes reach fastest */
  vmemPlacementCapacity = 1,      /**< the device with the most free memory */
  vmemPlacementFirstFit = 2,      /**< the first in the runtime's order with room */
  vmemPlacementBestFit = 3,       /**< the one with the least free memory that suffices */
  vmemPlacementWorstFit = 4       /**< the largest share of its limit free, so that all fill evenly */
} vmemPlacement_t;

/** The most that a pool may use of a device, bytes; 0: nothing. */
typedef struct vmemDeviceLimit_t {
  const char* device; /**< its name */
  uint64_t bytes;
} vmemDeviceLimit_t;

/** As vmem::PoolOptions (options.hpp). */
typedef struct vmemPoolOptions_t {
  size_t struct_size;
  const char* name;     /**< for people and metrics; NULL: "pool" */
  size_t block_bytes;   /**< a power of two; 0: 64 MiB */
  size_t address_bytes; /**< addresses reserved for the pool; 0: 16 TiB */
  vmemFit_t fit;
  vmemPlacement_t placement;
  int64_t acquire_deadline_ms;     /**< how long an acquire waits for holders; -1: 10 s */
  const vmemDeviceLimit_t* limits; /**< `num_limits` of them; NULL where there are none */
  size_t num_limits;
  int unmap_released; /**< 1: blocks are unmapped while nobody holds them (for debugging) */
} vmemPoolOptions_t;
#define VMEM_POOL_OPTIONS_INIT \
  { sizeof(vmemPoolOptions_t), NULL, 0, 0, vmemFitBest, vmemPlacementLocalityFirst, -1, NULL, 0, 0 }

/**
 * Makes a pool. With `runtime` NULL it opens the machine for itself with default options and closes it with the pool.
 * `options` may be NULL. Errors: vmemErrorInvalidValue (block size, limits, unknown device), those of
 * vmemRuntimeCreate.
 */
VMEM_API vmemStatus_t vmemPoolCreate(vmemPool_t* pool, vmemRuntime_t runtime, const vmemPoolOptions_t* options);
/**
 * Frees all of its buffers, then the pool. vmemErrorBusy while something of it is acquired: then nothing happens.
 * Prefetches that are under way are cancelled.
 */
VMEM_API vmemStatus_t vmemPoolDestroy(vmemPool_t pool);
/** The runtime that the pool was made from or opened. Borrowed: it is not to be destroyed. */
VMEM_API vmemStatus_t vmemPoolGetRuntime(vmemPool_t pool, vmemRuntime_t* runtime);

/* -- Allocation ---------------------------------------------------------------------------------------------------- */

/** As vmem::BufferOptions (options.hpp). */
typedef struct vmemMallocOptions_t {
  size_t struct_size;
  int zeroed;                    /**< 1: unwritten bytes read as zero; 0: they are undefined */
  vmemDevice_t preferred_device; /**< where its blocks go first and return to; NULL: wherever they are used */
} vmemMallocOptions_t;
#define VMEM_MALLOC_OPTIONS_INIT \
  { sizeof(vmemMallocOptions_t), 0, NULL }

/**
 * A coherent buffer of `bytes`. Memory is taken when it is first used, so more may be allocated than there is. Zero
 * bytes are vmemErrorInvalidValue, as with cuMemAlloc. `*address` is 0 on failure. Errors: vmemErrorOutOfAddresses.
 */
VMEM_API vmemStatus_t vmemMalloc(vmemPool_t pool, vmemAddress_t* address, size_t bytes);
/** The same with options, which may be NULL. */
VMEM_API vmemStatus_t vmemMallocWithOptions(vmemPool_t pool, vmemAddress_t* address, size_t bytes,
                                            const vmemMallocOptions_t* options);
/**
 * Frees a buffer by its first byte's address; 0 is a quiet success. Errors: vmemErrorInvalidValue (freed before, of
 * another pool, inside a buffer), vmemErrorBusy (acquired or pinned); nothing is freed then.
 */
VMEM_API vmemStatus_t vmemFree(vmemPool_t pool, vmemAddress_t address);

/* -- Acquire ------------------------------------------------------------------------------------------------------- */

/** What an acquire may do to its range. */
typedef enum vmemAccess_t {
  vmemAccessRead = 0,        /**< shared with other readers */
  vmemAccessWrite = 1,       /**< alone; the old bytes are there and may be kept */
  vmemAccessWriteDiscard = 2 /**< alone; old bytes of pages that the range covers wholly are undefined */
} vmemAccess_t;

/** One range of a list. */
typedef struct vmemRange_t {
  vmemAddress_t address; /**< of its first byte */
  size_t bytes;          /**< > 0; it ends inside the same buffer */
  vmemAccess_t access;
} vmemRange_t;

/**
 * Gets all ranges on a device, or none: Pool::acquire (pool.hpp). `pointers` takes the device address of the first byte
 * of each range, valid until release; with a stream, for work on that stream. Only pointers of host devices may be
 * dereferenced by the CPU. Errors: vmemErrorInvalidValue (an address of no buffer, past the end, ranges that overlap
 * and are not both read, another device's stream, a device of another runtime), vmemErrorBusy,
 * vmemErrorOutOfDeviceMemory, vmemErrorOutOfHostMemory, vmemErrorUnsupported (the stream is capturing),
 * vmemErrorDataLost, vmemErrorDeviceFailed.
 */
VMEM_API vmemStatus_t vmemAcquire(vmemPool_t pool, vmemDevice_t device, vmemStream_t stream, const vmemRange_t* ranges,
                                  size_t num_ranges, vmemAcquired_t* acquired, void** pointers);
/** The same with a deadline of its own for holders that have not released; 0 does not wait. */
VMEM_API vmemStatus_t vmemAcquireWithDeadline(vmemPool_t pool, vmemDevice_t device, vmemStream_t stream,
                                              const vmemRange_t* ranges, size_t num_ranges, uint64_t deadline_ms,
                                              vmemAcquired_t* acquired, void** pointers);
/** Success, or why bytes that were still on their way when the acquire returned did not arrive. Never blocks. */
VMEM_API vmemStatus_t vmemAcquiredGetStatus(vmemAcquired_t acquired);
/**
 * Gives the ranges back, in the order of the acquire's stream, and ends the handle, whatever it returns. An error says
 * that the bytes did not arrive and that nothing written was taken over. NULL is a quiet success.
 */
VMEM_API vmemStatus_t vmemRelease(vmemAcquired_t acquired);

/* -- Copies -------------------------------------------------------------------------------------------------------- */

/**
 * Copies between any two devices' pointers, of the pool or not, of either vendor, staged through pinned host memory
 * where no direct way exists; a host device's pointers are any host memory. It starts after the work on both streams
 * and returns when the bytes are there. Zero bytes do nothing. Errors: vmemErrorInvalidValue (NULL, devices of two
 * runtimes, another device's stream), vmemErrorNotFound (no route), vmemErrorDeviceFailed, vmemErrorTimeout.
 */
VMEM_API vmemStatus_t vmemCopy(vmemDevice_t dst_device, void* dst, vmemStream_t dst_stream, vmemDevice_t src_device,
                               const void* src, vmemStream_t src_stream, size_t bytes);
/**
 * The same, but it need not wait: work enqueued later on the streams comes after the copy. Where streams can't be made
 * to wait (two vendors, staging) it still returns only when the bytes are there. `event`, if not NULL, takes an event
 * to be destroyed.
 */
VMEM_API vmemStatus_t vmemCopyAsync(vmemDevice_t dst_device, void* dst, vmemStream_t dst_stream,
                                    vmemDevice_t src_device, const void* src, vmemStream_t src_stream, size_t bytes,
                                    vmemEvent_t* event);

/** A host pointer in the form of vmemMemcpy's addresses, as cuMemcpy takes them. */
#define VMEM_HOST_ADDRESS(pointer) ((vmemAddress_t)(uintptr_t)(pointer))

/**
 * Copies between pool and host memory, either way, within the pool, and within host memory: an address that lies in the
 * pool's reserved range is a pool address, any other a host pointer. Returns when the bytes are there. The two ranges
 * must not overlap. Zero bytes do nothing. Errors: those of vmemAcquire.
 */
VMEM_API vmemStatus_t vmemMemcpy(vmemPool_t pool, vmemAddress_t dst, vmemAddress_t src, size_t bytes);
/**
 * The same in the order of a stream of `device`: the bytes pass through that device's memory (acquire there, copy on
 * the stream, release), so that work on the stream before and after sees what it would expect. At least one side must
 * be in the pool. Host memory must stay as it is until the event is done, or the stream; where it is not registered
 * with the driver the call may wait for the copy. If the copy fails after the call has returned, the event says so and
 * the destination's bytes are undefined. With VMEM_NO_STREAM it is vmemMemcpy, `device` may be NULL and the event is
 * done. `event`, if not NULL, takes an event to be destroyed.
 */
VMEM_API vmemStatus_t vmemMemcpyAsync(vmemPool_t pool, vmemAddress_t dst, vmemAddress_t src, size_t bytes,
                                      vmemDevice_t device, vmemStream_t stream, vmemEvent_t* event);
/** Sets every byte of a pool range to the low byte of `value`; returns when it is done. Zero bytes do nothing. */
VMEM_API vmemStatus_t vmemMemset(vmemPool_t pool, vmemAddress_t address, int value, size_t bytes);

/** `*done` is 1 once the work is over, well or not. Never blocks. */
VMEM_API vmemStatus_t vmemEventQuery(vmemEvent_t event, int* done);
/** Waits until the work is over and returns its outcome. */
VMEM_API vmemStatus_t vmemEventSynchronize(vmemEvent_t event);
/** Lets go of the event; the work goes on. */
VMEM_API vmemStatus_t vmemEventDestroy(vmemEvent_t event);

/* -- Placement ----------------------------------------------------------------------------------------------------- */

/** Hints and pins on a range. */
typedef enum vmemAdvice_t {
  vmemAdvisePreferDevice = 0, /**< evict to there, place there first */
  vmemAdviseNoPreference = 1, /**< takes that back; the device does not matter and may be NULL */
  vmemAdvisePin = 2,          /**< fetch to the device and keep it there until vmemAdviseUnpin */
  vmemAdviseUnpin = 3
} vmemAdvice_t;
/** Pool::advise (pool.hpp). */
VMEM_API vmemStatus_t vmemMemAdvise(vmemPool_t pool, vmemAddress_t address, size_t bytes, vmemAdvice_t advice,
                                    vmemDevice_t device);

/** Starts to bring a range to a device. `prefetch`, if not NULL, takes a handle to be destroyed. */
VMEM_API vmemStatus_t vmemPrefetchAsync(vmemPool_t pool, vmemAddress_t address, size_t bytes, vmemDevice_t device,
                                        vmemPrefetch_t* prefetch);
/** `*done` is 1 once the outcome is there. Never blocks. */
VMEM_API vmemStatus_t vmemPrefetchQuery(vmemPrefetch_t prefetch, int* done);
/** Waits for the outcome and returns it; vmemErrorCancelled where it was cancelled. */
VMEM_API vmemStatus_t vmemPrefetchWait(vmemPrefetch_t prefetch);
/** Asks it to stop between two moves; what has moved stays. */
VMEM_API vmemStatus_t vmemPrefetchCancel(vmemPrefetch_t prefetch);
/** Lets go of the handle; the fetch goes on. */
VMEM_API vmemStatus_t vmemPrefetchDestroy(vmemPrefetch_t prefetch);

/* -- Inspection ---------------------------------------------------------------------------------------------------- */

/** The entry of the address table for a byte. */
typedef struct vmemTranslation_t {
  size_t struct_size;
  vmemAddress_t virtual_address; /**< of the buffer that holds the byte */
  size_t size;                   /**< the buffer's, bytes */
  uint64_t physical_address;     /**< the byte's address on `device`; 0 where no device has it yet */
  vmemDevice_t device;           /**< the device that answers for the byte; NULL where none has it yet */
  uint32_t reference_count;      /**< live acquires and pins of the buffer */
  uint64_t chunk;                /**< the driver's handle of the memory behind it */
  size_t chunk_offset;           /**< the byte's place in that chunk */
} vmemTranslation_t;
#define VMEM_TRANSLATION_INIT \
  { sizeof(vmemTranslation_t), 0, 0, 0, NULL, 0, 0, 0 }

/** Fills `translation`, whose struct_size must be set. vmemErrorInvalidValue for an address of no buffer. */
VMEM_API vmemStatus_t vmemTranslate(vmemPool_t pool, vmemAddress_t address, vmemTranslation_t* translation);

/** What a pool has done and holds; as vmem::PoolStats (stats.hpp). */
typedef struct vmemStats_t {
  size_t struct_size;
  uint64_t buffers;
  uint64_t allocated_bytes; /**< as asked for */
  uint64_t blocks_touched;
  uint64_t bookkeeping_bytes;
  uint64_t acquires;          /**< granted lists */
  uint64_t acquires_resident; /**< of these, all pages were there */
  uint64_t acquires_failed;
  uint64_t waits; /**< acquires that waited for holders or for memory */
  uint64_t evictions;
  uint64_t fetched_bytes; /**< over all pairs of devices: because an acquire or a prefetch asked */
  uint64_t evicted_bytes; /**< because room was needed */
  uint64_t copied_bytes;  /**< by copies of pointers and of pool ranges */
  uint64_t peak_staging_bytes;
  double address_fragmentation;
} vmemStats_t;
#define VMEM_STATS_INIT \
  { sizeof(vmemStats_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/** One device's part; as vmem::DeviceStats (stats.hpp). Sizes in bytes. */
typedef struct vmemDeviceStats_t {
  size_t struct_size;
  uint64_t limit_bytes;
  uint64_t used_bytes;
  uint64_t peak_bytes;
  uint64_t reserved_bytes;
  uint64_t pinned_bytes;
  uint64_t instances;   /**< blocks that have a copy there */
  double fragmentation; /**< 0: all free memory is in one piece; towards 1: in crumbs */
  int failed;           /**< 1: the device is lost */
} vmemDeviceStats_t;
#define VMEM_DEVICE_STATS_INIT \
  { sizeof(vmemDeviceStats_t), 0, 0, 0, 0, 0, 0, 0, 0 }

/** Fills `stats`, whose struct_size must be set. */
VMEM_API vmemStatus_t vmemGetStats(vmemPool_t pool, vmemStats_t* stats);
VMEM_API vmemStatus_t vmemGetDeviceStats(vmemPool_t pool, vmemDevice_t device, vmemDeviceStats_t* stats);
/** Success, or a failure that lasts: a failed device, or pages that did not arrive and that nobody fetched again. */
VMEM_API vmemStatus_t vmemPoolGetStatus(vmemPool_t pool);

#ifdef __cplusplus
}
#endif
