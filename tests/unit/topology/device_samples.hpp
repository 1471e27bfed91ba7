// Devices as backends would report them.
#pragma once

#include <vmem/device_info.hpp>
#include <vmem/types.hpp>

#include <string>

namespace vmem {

inline DeviceInfo sample_gpu(const std::string& name, const std::string& vendor, PciAddress pci,
                             std::uint64_t bytes = 16_GiB) {
  DeviceInfo info;
  info.name = name;
  info.backend = name.substr(0, name.find(':'));
  info.uuid = "uuid-" + name;
  info.vendor = vendor;
  info.address_space = vendor;
  info.pci = pci;
  info.total_bytes = bytes;
  info.granularity = 2_MiB;
  info.wave_width = 32;
  info.caps = DeviceCaps(0x0F);
  return info;
}

inline DeviceInfo sample_simulated(const std::string& name, const std::string& vendor, std::uint64_t bytes = 64_MiB) {
  DeviceInfo info = sample_gpu(name, vendor, {}, bytes);
  info.backend = "host";
  info.pci.reset();
  info.simulated = true;
  return info;
}

inline DeviceInfo sample_host(unsigned node, std::uint64_t bytes = 32_GiB) {
  DeviceInfo info;
  info.name = "host:" + std::to_string(node);
  info.backend = "host";
  info.uuid = "node-" + std::to_string(node);
  info.vendor = "host";
  info.address_space = "host";
  info.numa_node = node;
  info.tier = Tier::kHost;
  info.total_bytes = bytes;
  info.granularity = 4_KiB;
  return info;
}

}  // namespace vmem
