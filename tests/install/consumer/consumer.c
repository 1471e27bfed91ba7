/* The C API from an installed tree: opens the machine, fills a buffer and reads it back. With --version it prints the
 * library's version. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <vmem/vmem.h>

static int fail(const char* what) {
  fprintf(stderr, "consumer: %s: %s\n", what, vmemGetLastErrorMessage());
  return 1;
}

int main(int argc, char** argv) {
  int version = 0;
  if (vmemGetVersion(&version) != vmemSuccess) return fail("ask for the version");
  if (argc > 1 && strcmp(argv[1], "--version") == 0) {
    printf("%d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
    return 0;
  }
  if (version != VMEM_VERSION) return fail("the library is of another version than the header");

  vmemPool_t pool = NULL;
  vmemAddress_t address = 0;
  const char text[] = "bytes that live in the pool";
  char back[sizeof(text)] = "";
  if (vmemPoolCreate(&pool, NULL, NULL) != vmemSuccess) return fail("create a pool");
  if (vmemMalloc(pool, &address, 1 << 20) != vmemSuccess) return fail("allocate");
  if (vmemMemcpy(pool, address, VMEM_HOST_ADDRESS(text), sizeof(text)) != vmemSuccess) return fail("copy in");
  if (vmemMemcpy(pool, VMEM_HOST_ADDRESS(back), address, sizeof(back)) != vmemSuccess) return fail("copy out");
  if (memcmp(text, back, sizeof(text)) != 0) return fail("other bytes came back");
  if (vmemFree(pool, address) != vmemSuccess) return fail("free");
  if (vmemPoolDestroy(pool) != vmemSuccess) return fail("destroy the pool");
  printf("consumer: vmem %s from C\n", VMEM_VERSION_STRING);
  return 0;
}
