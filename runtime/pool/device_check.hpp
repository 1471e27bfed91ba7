// What a device must say of itself before the runtime takes it.
#pragma once

#include <vmem/backend.hpp>
#include <vmem/status.hpp>

#include <string_view>

namespace vmem {

// kUnsupported says what contradicts the contract: wrong figures in `info`, or a group of optional calls that is
// announced and not there, or there and not announced. Calls are tried without effect, and not at all on devices with
// faults on demand, which count their calls.
Status check_device(Device& device, std::string_view backend);

}  // namespace vmem
