// The written form of PCI addresses, as in /sys/bus/pci/devices: "0000:41:00.0".
#pragma once

#include <vmem/device_info.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace vmem {

std::string to_string(const PciAddress& address);

// "0000:41:00.0", or without the domain "41:00.0". Hexadecimal digits of either case; nothing before or after.
std::optional<PciAddress> parse_pci_address(std::string_view text);

}  // namespace vmem
