// Every device of the machine adds one to every number of a buffer that is larger than a simulated GPU.
#include <vmem/vmem.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

using namespace vmem::literals;

vmem::Status run() {
  constexpr std::size_t kBytes = 320_MiB;  // a simulated GPU has 256 MiB
  constexpr std::size_t kPiece = 64_MiB;   // what a device works on at once
  VMEM_ASSIGN_OR_RETURN(const auto runtime, vmem::Runtime::create());
  VMEM_ASSIGN_OR_RETURN(const auto pool, runtime->create_pool());
  VMEM_ASSIGN_OR_RETURN(const auto buffer, pool->allocate(kBytes));

  std::vector<std::uint64_t> numbers(kPiece / sizeof(std::uint64_t), 0);
  for (std::size_t offset = 0; offset < kBytes; offset += kPiece)
    VMEM_RETURN_IF_ERROR(pool->copy_in(buffer.address() + offset, numbers.data(), kPiece));

  const std::size_t num_devices = runtime->topology().devices().size();
  for (vmem::DeviceIndex device = 0; device < num_devices; ++device) {
    for (std::size_t offset = 0; offset < kBytes; offset += kPiece) {
      const auto range = buffer.range(offset, kPiece, vmem::Access::kWrite);
      VMEM_ASSIGN_OR_RETURN(auto acquired, pool->acquire(range, {device, vmem::Stream(), {}}));
      void* const data = acquired.data();  // an address on this device
      const std::uint64_t count = numbers.size(), first = 0, stride = 1, value = 1;
      vmem::KernelLaunch add{"vmem_add_strided", {256, 1, 1}, {256, 1, 1}, 0, {{&data, sizeof(data)}}};
      for (const auto* number : {&count, &first, &stride, &value}) add.arguments.push_back({number, sizeof(*number)});
      VMEM_ASSIGN_OR_RETURN(const auto done, runtime->device(device).launch(add, vmem::Stream()));
      VMEM_RETURN_IF_ERROR(done.wait());
      VMEM_RETURN_IF_ERROR(acquired.release());
    }
  }

  for (std::size_t offset = 0; offset < kBytes; offset += kPiece) {
    VMEM_RETURN_IF_ERROR(pool->copy_out(numbers.data(), buffer.address() + offset, kPiece));
    const auto right = std::count(numbers.begin(), numbers.end(), num_devices);
    if (std::size_t(right) != numbers.size()) return {vmem::StatusCode::kDataLost, "a number is wrong"};
  }
  std::printf("%zu devices added to %zu MiB\n", num_devices, kBytes / 1_MiB);
  return {};
}

int main() {
  const vmem::Status status = run();
  if (!status) std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return status ? 0 : 1;
}
