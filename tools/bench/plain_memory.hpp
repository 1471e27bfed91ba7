// The plain run: the same tasks on copies of the buffers in ordinary memory, by the kernels' reference bodies.
#pragma once

#include <vmem/types.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <span>

#include "tools/bench/kernel_task.hpp"

namespace vmem {

// Thread contract: one thread.
class PlainMemory final : public TaskRunner {
 public:
  // Makes the copy of a buffer; its bytes are zero. Errors: kInvalidValue (known already), kOutOfHostMemory.
  Status add(PoolAddress address, std::size_t bytes);
  void remove(PoolAddress address);
  // A buffer's copy. REQUIRES: it was added.
  std::span<std::byte> bytes(PoolAddress address) { return copies_.at(address).span(); }

  Status run(const KernelTask& task) override;
  Status finish() override { return {}; }

 private:
  struct Free {
    std::size_t bytes;
    void operator()(std::byte* memory) const noexcept;
  };
  struct Copy {
    std::unique_ptr<std::byte, Free> memory;
    std::span<std::byte> span() const noexcept { return {memory.get(), memory.get_deleter().bytes}; }
  };

  Result<std::byte*> find(const AcquireRange& range) const;

  std::map<PoolAddress, Copy> copies_;
};

// Runs a reference body on the CPU, `addresses` being those of the task's ranges.
void run_reference(const KernelCall& call, const std::vector<void*>& addresses);

}  // namespace vmem
