// One piece of work on ranges of buffers, and those who can do it: a device through the pool, or the CPU on plain
// memory.
#pragma once

#include <vmem/acquired.hpp>
#include <vmem/kernel.hpp>
#include <vmem/status.hpp>
#include <vmem/types.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace vmem {

// A parameter of a kernel: an address in one of the task's ranges, or a number.
struct TaskArgument {
  bool is_range = false;
  std::size_t range = 0;   // which
  std::uint64_t bits = 0;  // the offset in it, or the number's bytes, from the first one on
  std::size_t bytes = sizeof(std::uint64_t);

  static TaskArgument address_of(std::size_t range, std::size_t offset = 0) {
    return {true, range, offset, sizeof(void*)};
  }
  template <typename T>
  static TaskArgument value(T number) {
    static_assert(sizeof(T) <= sizeof(std::uint64_t));
    TaskArgument argument;
    argument.bytes = sizeof(T);
    std::memcpy(&argument.bits, &number, sizeof(T));
    return argument;
  }
};

struct KernelCall {
  std::string kernel;              // launched by this name where the device has kernels
  KernelBody reference = nullptr;  // what runs where it has none, and in the plain run
  std::array<std::uint32_t, 3> grid{1, 1, 1};
  std::array<std::uint32_t, 3> block{1, 1, 1};
  std::vector<TaskArgument> arguments;
};

struct KernelTask {
  std::vector<AcquireRange> ranges;  // acquired together
  std::vector<KernelCall> calls;     // in this order
};

class TaskRunner {
 public:
  TaskRunner() = default;
  TaskRunner(const TaskRunner&) = delete;
  TaskRunner& operator=(const TaskRunner&) = delete;
  virtual ~TaskRunner() = default;

  // Tasks take effect one after another; one may still be under way when the call returns.
  virtual Status run(const KernelTask& task) = 0;
  // Waits for all of them.
  virtual Status finish() = 0;
};

}  // namespace vmem
