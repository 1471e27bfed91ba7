#include "tools/bench/plain_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <utility>

#include "runtime/support/bytes.hpp"

namespace vmem {
namespace {

constexpr unsigned kPlainWaveWidth = 32;

}  // namespace

void PlainMemory::Free::operator()(std::byte* memory) const noexcept { munmap(memory, bytes); }

Status PlainMemory::add(PoolAddress address, std::size_t bytes) {
  // Pages that are there from the start: their first touch is not what the runs are compared by.
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) {
    return Status(StatusCode::kOutOfHostMemory,
                  fmt::format("{} asked for the plain run; use a smaller --size", format_bytes(bytes)));
  }
  Copy copy{{static_cast<std::byte*>(memory), Free{bytes}}};
  if (!copies_.emplace(address, std::move(copy)).second) {
    return Status(StatusCode::kInvalidValue, fmt::format("a buffer at {:#x} is known already", address));
  }
  return {};
}

void PlainMemory::remove(PoolAddress address) { copies_.erase(address); }

Result<std::byte*> PlainMemory::find(const AcquireRange& range) const {
  auto after = copies_.upper_bound(range.address);
  if (after != copies_.begin()) {
    const auto& [address, copy] = *--after;
    const std::size_t offset = range.address - address;
    if (offset + range.bytes <= copy.span().size()) return copy.span().data() + offset;
  }
  return Status(StatusCode::kInvalidValue,
                fmt::format("no plain copy of {} at {:#x}", format_bytes(range.bytes), range.address));
}

Status PlainMemory::run(const KernelTask& task) {
  std::vector<void*> addresses;
  for (const AcquireRange& range : task.ranges) {
    VMEM_ASSIGN_OR_RETURN(std::byte* const memory, find(range));
    addresses.push_back(memory);
  }
  for (const KernelCall& call : task.calls) run_reference(call, addresses);
  return {};
}

void run_reference(const KernelCall& call, const std::vector<void*>& addresses) {
  std::vector<std::uint64_t> values(call.arguments.size());
  std::vector<const void*> arguments(call.arguments.size());
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    const TaskArgument& argument = call.arguments[i];
    values[i] = argument.bits + (argument.is_range ? reinterpret_cast<std::uint64_t>(addresses[argument.range]) : 0);
    arguments[i] = &values[i];
  }
  call.reference({call.grid, call.block, kPlainWaveWidth, arguments.data(), arguments.size()});
}

}  // namespace vmem
