// The one driver of this process, and what a process does to it: settings, start, fork, exit, a fresh start.
#pragma once

#include <cstdint>

#include "tests/doubles/driver/driver.hpp"

namespace vmem::sim {

// Null until it is started. No call may be under way while it is started anew.
Driver* driver();
// Idempotent.
Driver& start_driver(const Vendor& vendor);
// Changes at every reset, so that what threads keep from before is void.
std::uint64_t generation();

// What is set now; the driver keeps what was set when it started.
Settings current_settings();
Personality current_personality();
LateCalls current_late_calls();

// In a child of a process whose driver was started.
bool is_forked();
// The exit of the process has reached what the driver registered when it was started.
bool is_exiting();

}  // namespace vmem::sim
