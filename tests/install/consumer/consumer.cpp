// Opens the machine, fills a buffer where the pool puts it and reads it back.
#include <vmem/version.h>
#include <vmem/vmem.hpp>

#include <cstdio>
#include <cstring>
#include <string>

namespace {

int fail(const char* what, const vmem::Status& status) {
  std::fprintf(stderr, "consumer: %s: %s\n", what, status.to_string().c_str());
  return 1;
}

}  // namespace

int main() {
  auto runtime = vmem::Runtime::create();
  if (!runtime) return fail("create the runtime", runtime.error());
  const auto& devices = (*runtime)->topology().devices();
  if (devices.empty()) return fail("no device, not even the host's memory", {});

  auto pool = (*runtime)->create_pool();
  if (!pool) return fail("create a pool", pool.error());
  auto buffer = (*pool)->allocate(1 << 20);
  if (!buffer) return fail("allocate", buffer.error());
  const std::string text = "bytes that live in the pool";
  if (const auto status = (*pool)->copy_in(buffer->address(), text.data(), text.size()); !status)
    return fail("copy in", status);
  std::string back(text.size(), '\0');
  if (const auto status = (*pool)->copy_out(back.data(), buffer->address(), back.size()); !status)
    return fail("copy out", status);
  if (back != text) return fail("other bytes came back", {});

  std::printf("consumer: vmem %s, %zu devices\n", VMEM_VERSION_STRING, devices.size());
  return 0;
}
