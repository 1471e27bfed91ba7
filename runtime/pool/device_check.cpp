#include "runtime/pool/device_check.hpp"

#include <string>
#include <utility>

#include "runtime/support/bytes.hpp"
#include "runtime/support/format.hpp"

namespace vmem {
namespace {

Status broken(std::string message) { return Status(StatusCode::kUnsupported, std::move(message)); }

Status check_info(const DeviceInfo& info, std::string_view backend) {
  if (info.name.empty()) return broken("has no name");
  if (info.backend != backend) return broken(format("says its backend is '{}', not '{}'", info.backend, backend));
  if (info.total_bytes == 0) return broken("has no memory");
  if (!is_power_of_two(info.granularity) || info.granularity < kPageBytes) {
    return broken(
        format("has a granularity of {} bytes: expected a power of two from {}", info.granularity, kPageBytes));
  }
  if (info.caps.has(DeviceCap::kKernels) && info.wave_width != 32 && info.wave_width != 64) {
    return broken(format("launches kernels at a wave width of {}: expected 32 or 64", info.wave_width));
  }
  if (info.caps.has(DeviceCap::kPeerCopy) && info.address_space.empty()) {
    return broken("has peer access but no address space");
  }
  return Status();
}

Status compare(const DeviceInfo& info, DeviceCap cap, std::string_view group, const Status& answer) {
  const bool there = answer.code() != StatusCode::kUnsupported;
  if (info.caps.has(cap) == there) return Status();
  return broken(format("{} {}, but {}", info.caps.has(cap) ? "announces" : "does not announce", group,
                       there ? "has it" : "answers that it is unsupported"));
}

Status check_groups(Device& device) {
  const DeviceInfo& info = device.info();
  auto window = device.reserve_window(info.granularity);
  Status released = window ? device.release_window(*window, info.granularity) : window.error();
  VMEM_RETURN_IF_ERROR(compare(info, DeviceCap::kVirtualMemory, "virtual memory", released));
  KernelLaunch unknown;
  unknown.name = "vmem_no_such_kernel";
  return compare(info, DeviceCap::kKernels, "kernels", device.launch(unknown, Stream()).error());
}

}  // namespace

Status check_device(Device& device, std::string_view backend) {
  VMEM_RETURN_IF_ERROR(check_info(device.info(), backend));
  if (device.info().caps.has(DeviceCap::kFaultInjection)) return Status();
  return check_groups(device);
}

}  // namespace vmem
