// The machine that figures were measured on.
#pragma once

#include <cstdint>
#include <string>

namespace vmem {

struct Machine {
  std::string cpu;     // model name
  unsigned cores = 0;  // that this process may use
  std::uint64_t memory_bytes = 0;
  std::uint64_t available_bytes = 0;
  std::string kernel;  // "Linux 6.1.0"
  std::string os;      // the distribution's name
};

// What can't be read stays empty or 0.
Machine read_machine();

}  // namespace vmem
