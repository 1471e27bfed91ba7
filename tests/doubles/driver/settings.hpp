// What a double is told before it starts: environment variables VMEM_DOUBLE_<KEY>, or vmem_double_set(key, value).
//
//   devices          how many devices there are (2)
//   capacity         bytes of each, with KiB, MiB or GiB (256MiB)
//   granularity      of chunks and reservations (2MiB)
//   version          the driver's own number for its version, such as 12040; what the library was built as otherwise
//   personality      working, stub, no_device, broken_init (working)
//   peer             links between all devices: works, absent, lies, hangs, crashes; or a list such as
//   "0>1:lies,1>0:works",
//                    in which the pairs that are not named work (works)
//   off              groups of calls that devices say they lack, a list of: vmm, host_vmm, stream_values,
//   host_registration,
//                    posix_fd, pointers_differ (registered memory has another address on the device)
//   exclusive        a folder for lock files: a device serves one process at a time of those that name it
//   integrated       1: devices say that they use the machine's memory
//   wave_width       threads of a wave (the vendor's)
//   arena            bytes of addresses of the driver (1 TiB; 64 GiB under ThreadSanitizer)
//   checks_ranges    0: ranges of copies are not checked at the call, the queue finds out (1)
//   late_calls       after the exit of the process has begun calls are refused as such (refuse), work on (work), or
//   abort
//                    the process (abort)
//   kernels          a shared object that gives bodies to kernels: its vmem_double_add_kernels(add) calls `add`, which
//   is
//                    vmem_double_add_kernel, for each
//   faults           a list such as "<entry>:fail:3:2,<entry>:hang:0": entry, kind (fail, fail_work, hang, corrupt),
//   number
//                    of calls before it, code
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/doubles/driver/control.h"

namespace vmem::sim {

enum class Personality : std::uint8_t { kWorking, kStub, kNoDevice, kBrokenInit };
enum class LateCalls : std::uint8_t { kRefuse, kWork, kAbort };

struct Settings {
  int num_devices = 2;
  std::size_t capacity = std::size_t{256} << 20U;
  std::size_t granularity = std::size_t{2} << 20U;
  int version = 0;
  Personality personality = Personality::kWorking;
  vmem_double_peer peer = VMEM_DOUBLE_PEER_WORKS;
  std::map<std::pair<int, int>, vmem_double_peer> links;
  bool vmm = true;
  bool host_vmm = true;
  bool stream_values = true;
  bool host_registration = true;
  bool posix_fd = true;
  bool pointers_differ = false;
  std::string exclusive;
  std::string kernels;
  bool integrated = false;
  unsigned wave_width = 0;
  std::size_t arena_bytes = 0;
  bool checks_ranges = true;
  LateCalls late_calls = LateCalls::kRefuse;

  struct PlannedFault {
    std::string entry;
    vmem_double_fault_kind kind;
    std::uint64_t after;
    int code;
  };
  std::vector<PlannedFault> faults;

  // False for an unknown key or a wrong value, which change nothing.
  bool set(std::string_view key, std::string_view value);
  // Ends the process with a message where a variable is wrong: a test must not run with other settings than it thinks.
  static Settings from_environment();

  vmem_double_peer link(int device, int other) const;
};

}  // namespace vmem::sim
