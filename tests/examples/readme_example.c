/* Writes into the pool, gets the bytes on the first device, and copies from its pointer. */
#include <vmem/vmem.h>

#include <stdio.h>
#include <string.h>

#define CHECK(call) \
  if ((call) != vmemSuccess) return fprintf(stderr, "%s: %s\n", #call, vmemGetLastErrorMessage()), 1

int main(void) {
  const char text[] = "bytes that live where they are used";
  char back[sizeof(text)] = "";
  vmemPool_t pool = NULL;
  CHECK(vmemPoolCreate(&pool, NULL, NULL)); /* opens the machine for itself */
  vmemRuntime_t runtime = NULL;
  vmemDevice_t device = NULL, host = NULL;
  CHECK(vmemPoolGetRuntime(pool, &runtime));
  CHECK(vmemGetDevice(runtime, 0, &device));
  CHECK(vmemFindDevice(runtime, "host:0", &host));

  vmemAddress_t buffer = 0;
  CHECK(vmemMalloc(pool, &buffer, 1 << 20));
  CHECK(vmemMemcpy(pool, buffer, VMEM_HOST_ADDRESS(text), sizeof(text)));

  const vmemRange_t range = {buffer, sizeof(text), vmemAccessRead};
  vmemAcquired_t acquired = NULL;
  void* pointer = NULL; /* an address on the device */
  CHECK(vmemAcquire(pool, device, VMEM_NO_STREAM, &range, 1, &acquired, &pointer));
  CHECK(vmemCopy(host, back, VMEM_NO_STREAM, device, pointer, VMEM_NO_STREAM, sizeof(back)));
  CHECK(vmemRelease(acquired));

  CHECK(vmemFree(pool, buffer));
  CHECK(vmemPoolDestroy(pool));
  puts(back);
  return strcmp(text, back) == 0 ? 0 : 1;
}
