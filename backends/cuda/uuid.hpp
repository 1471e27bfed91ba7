// A device's UUID as nvidia-smi writes it, without the prefix that says what it is of.
#pragma once

#include <string>

#include "backends/cuda/driver_abi.hpp"

namespace vmem {

inline std::string uuid_text(const CuUuid& uuid) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(uuid.bytes[i]);
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

}  // namespace vmem
