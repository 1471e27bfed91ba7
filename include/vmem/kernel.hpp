/// Kernels by name: what is launched, and what a device needs to know to launch it.
///
/// Simulated devices and the drivers' doubles run `reference`; devices with a compiler build `source`. Both must
/// compute the same bytes at every wave width.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vmem {

/// One parameter by value: its bytes are read while `Device::launch` runs.
struct KernelArgument {
  const void* data;
  std::size_t bytes;
};

/// One launch. Sizes as in CUDA and HIP: a grid of thread blocks of threads.
struct KernelLaunch {
  std::string name;
  std::array<std::uint32_t, 3> grid{1, 1, 1};
  std::array<std::uint32_t, 3> block{1, 1, 1};
  std::uint32_t shared_bytes = 0;
  std::vector<KernelArgument> arguments;
};

/// What a reference body sees of its launch. `arguments[i]` points to the i-th parameter's value.
struct KernelContext {
  std::array<std::uint32_t, 3> grid;
  std::array<std::uint32_t, 3> block;
  unsigned wave_width;
  const void* const* arguments;
  std::size_t num_arguments;
};

/// The whole grid on the CPU, called once a launch from a device's queue. Must not throw.
using KernelBody = void (*)(const KernelContext& context);

/// A kernel as an application or a test hands it to `Device::add_kernel`. Borrowed until the device is destroyed.
struct KernelImage {
  const char* name;
  KernelBody reference;  ///< null: the kernel has no CPU form, and simulated devices refuse it
  const char* source;    ///< CUDA C++ that is also HIP C++, with `extern "C" __global__ void name(...)`; may be null
};

}  // namespace vmem
