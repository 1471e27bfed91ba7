#include "runtime/topology/pci_address.hpp"

#include <charconv>
#include <cstdio>

namespace vmem {
namespace {

// Takes `digits` hexadecimal digits and the separator after them off `text`; an end of text is the separator '\0'.
std::optional<std::uint32_t> take_hex(std::string_view& text, std::size_t digits, char separator) {
  if (text.size() < digits) return std::nullopt;
  std::uint32_t value = 0;
  const char* const end = text.data() + digits;
  const auto [rest, error] = std::from_chars(text.data(), end, value, 16);
  if (error != std::errc() || rest != end) return std::nullopt;
  text.remove_prefix(digits);
  if (separator == '\0') return text.empty() ? std::optional(value) : std::nullopt;
  if (!text.starts_with(separator)) return std::nullopt;
  text.remove_prefix(1);
  return value;
}

}  // namespace

std::string to_string(const PciAddress& address) {
  char text[32];
  const int length = std::snprintf(text, sizeof(text), "%04x:%02x:%02x.%x", static_cast<unsigned>(address.domain),
                                   static_cast<unsigned>(address.bus), static_cast<unsigned>(address.device),
                                   static_cast<unsigned>(address.function));
  return std::string(text, static_cast<std::size_t>(length));
}

std::optional<PciAddress> parse_pci_address(std::string_view text) {
  PciAddress address;
  // Domains above ffff exist (virtual root complexes) and are written with more digits.
  const std::size_t first_colon = text.find(':');
  if (first_colon == std::string_view::npos) return std::nullopt;
  if (text.find(':', first_colon + 1) != std::string_view::npos) {
    if (first_colon < 4 || first_colon > 8) return std::nullopt;
    const auto domain = take_hex(text, first_colon, ':');
    if (!domain) return std::nullopt;
    address.domain = *domain;
  }
  const auto bus = take_hex(text, 2, ':');
  const auto device = bus ? take_hex(text, 2, '.') : std::nullopt;
  const auto function = device ? take_hex(text, 1, '\0') : std::nullopt;
  if (!function || *device > 0x1f || *function > 7) return std::nullopt;
  address.bus = static_cast<std::uint8_t>(*bus);
  address.device = static_cast<std::uint8_t>(*device);
  address.function = static_cast<std::uint8_t>(*function);
  return address;
}

}  // namespace vmem
