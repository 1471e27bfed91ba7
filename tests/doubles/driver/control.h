/* The control interface of the drivers' doubles: exported beside the driver's own entries, looked up by dlsym.
 *
 * Entries are named without the suffix of their version: a name stands for every form of it. Every function may be
 * called from any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a fault does to the calls that it meets. */
typedef enum {
  VMEM_DOUBLE_FAIL = 0, /* the call returns the code and does nothing */
  VMEM_DOUBLE_FAIL_WORK =
      1,                  /* the call succeeds; its work ends with the code, which is then the driver's sticky error */
  VMEM_DOUBLE_HANG = 2,   /* the call succeeds; its work never ends, until vmem_double_release_hung */
  VMEM_DOUBLE_CORRUPT = 3 /* one byte of what is copied or set is wrong */
} vmem_double_fault_kind;

/* What a link from one device to another does once peer access over it is enabled. */
typedef enum {
  VMEM_DOUBLE_PEER_WORKS = 0,
  VMEM_DOUBLE_PEER_ABSENT = 1, /* the driver says that there is none */
  VMEM_DOUBLE_PEER_LIES = 2,   /* it says that there is, and bytes do not arrive */
  VMEM_DOUBLE_PEER_HANGS = 3,  /* copies over it never end */
  VMEM_DOUBLE_PEER_CRASHES = 4 /* copies over it abort the process */
} vmem_double_peer;

/* Starts anew, as in a fresh process: nothing is initialised, every handle is void, settings are read from the
 * environment, faults and counts are gone, kernels stay. Waits for running kernels: none of their bodies may be blocked
 * by the caller. */
void vmem_double_reset(void);
/* Sets what the variable VMEM_DOUBLE_<KEY> (upper case) sets, for this process; to be called before the driver is
 * initialised. 0, or -1 for an unknown key or a wrong value. */
int vmem_double_set(const char* key, const char* value);

/* The `after`-th call of the entry from now (0: the next) meets the fault, and `count` - 1 more after it. An empty
 * entry is any. `code` is the driver's own; VMEM_DOUBLE_HANG and VMEM_DOUBLE_CORRUPT ignore it. */
void vmem_double_inject(const char* entry, vmem_double_fault_kind kind, uint64_t after, uint64_t count, int code);
/* Drops the faults that no call has met yet. */
void vmem_double_clear_faults(void);
/* Lets all work that hangs end, as if it had been slow. */
void vmem_double_release_hung(void);
/* How many queues hang now. */
uint64_t vmem_double_num_hung(void);

/* From now on every call for the device returns `code`, its work in flight is dropped, and nothing brings it back. */
void vmem_double_lose_device(int device, int code);
/* From now on every call returns `code`. */
void vmem_double_fail_all(int code);
/* The link on which `device` touches the memory of `peer`. Counts for mappings made from now on. */
void vmem_double_set_peer(int device, int peer, vmem_double_peer behaviour);
/* Bytes of a device that another process is said to use. */
void vmem_double_occupy(int device, uint64_t bytes);

/* Calls of an entry since the start or the last vmem_double_forget_calls; of all entries for an empty name. */
uint64_t vmem_double_calls(const char* entry);
void vmem_double_forget_calls(void);
/* Live objects: "contexts", "streams", "events", "allocations", "chunks", "reservations", "mappings", "registrations",
 * "modules", "graphs"; "work" is what is enqueued and not done; "peer_copies" and "staged_copies" count copies between
 * devices that went over the link and through host memory; UINT64_MAX for any other name. */
uint64_t vmem_double_count(const char* what);

/* Gives a body to a kernel. `source` declares it (`extern "C" __global__ void name(...)`), for the sizes of its
 * parameters. `body` is a vmem::KernelBody. A module whose image is exactly `source` gets this body; any other module
 * gets the body that was added last under the name. 0, or -1 where the source does not declare the name. */
int vmem_double_add_kernel(const char* name, const char* source, void (*body)(void));

#ifdef __cplusplus
}
#endif
