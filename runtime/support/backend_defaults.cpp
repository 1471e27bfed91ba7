// What the optional calls of a Device answer where its backend does not have them.
#include <vmem/backend.hpp>

#include <string>

namespace vmem {
namespace {

Status not_offered(const Device& device, const char* call, const char* group) {
  return Status(StatusCode::kUnsupported, std::string(call) + ": the device does not have this call (" + group +
                                              " is not among its capabilities)")
      .with_device(device.info().name);
}

}  // namespace

Result<Chunk> Device::create_chunk(std::size_t /*bytes*/) {
  return not_offered(*this, "create_chunk", "kVirtualMemory");
}
Status Device::destroy_chunk(const Chunk& /*chunk*/) { return not_offered(*this, "destroy_chunk", "kVirtualMemory"); }
Result<void*> Device::reserve_window(std::size_t /*bytes*/) {
  return not_offered(*this, "reserve_window", "kVirtualMemory");
}
Status Device::release_window(void* /*window*/, std::size_t /*bytes*/) {
  return not_offered(*this, "release_window", "kVirtualMemory");
}
Status Device::map(void* /*address*/, const Chunk& /*chunk*/) { return not_offered(*this, "map", "kVirtualMemory"); }
Status Device::unmap(void* /*address*/, std::size_t /*bytes*/) { return not_offered(*this, "unmap", "kVirtualMemory"); }

bool Device::can_access_peer(const Device& /*peer*/) const noexcept { return false; }
Result<Event> Device::copy_to_peer(Device& /*peer*/, void* /*destination*/, const void* /*source*/,
                                   std::size_t /*bytes*/, Stream /*stream*/) {
  return not_offered(*this, "copy_to_peer", "kPeerCopy");
}

Result<void*> Device::register_host(void* /*host*/, std::size_t /*bytes*/) {
  return not_offered(*this, "register_host", "kHostRegistration");
}
Status Device::unregister_host(void* /*host*/) { return not_offered(*this, "unregister_host", "kHostRegistration"); }

Status Device::add_kernel(const KernelImage& /*image*/) { return not_offered(*this, "add_kernel", "kKernels"); }
Result<Event> Device::launch(const KernelLaunch& /*launch*/, Stream /*stream*/) {
  return not_offered(*this, "launch", "kKernels");
}

Status Device::write_signal(Stream /*stream*/, std::uint32_t* /*word*/, std::uint32_t /*value*/) {
  return not_offered(*this, "write_signal", "kStreamSignals");
}
Status Device::wait_signal(Stream /*stream*/, std::uint32_t* /*word*/, std::uint32_t /*value*/) {
  return not_offered(*this, "wait_signal", "kStreamSignals");
}

Status Device::inject(const Fault& /*fault*/) { return not_offered(*this, "inject", "kFaultInjection"); }
Status Device::clear_faults() { return not_offered(*this, "clear_faults", "kFaultInjection"); }

}  // namespace vmem
