/// What a device is: identity, capacity, place in the machine, and what it can do beyond the minimum.
#pragma once

#include <vmem/types.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace vmem {

/// One bit a group of optional calls (backend.hpp lists the calls of each group). A group is there wholly or not at
/// all.
enum class DeviceCap : std::uint32_t {
  kVirtualMemory = 1U << 0,     ///< chunks, windows, map and unmap
  kPeerCopy = 1U << 1,          ///< copies straight to another device of the same address space
  kHostRegistration = 1U << 2,  ///< host pages can be pinned for it and have an address on it
  kKernels = 1U << 3,           ///< kernels by name
  kStreamSignals = 1U << 4,     ///< streams can write and wait on words of memory
  kFaultInjection = 1U << 5,    ///< faults on demand (simulated devices and the test wrapper)
};

/// A set of DeviceCap bits.
class DeviceCaps {
 public:
  constexpr DeviceCaps() noexcept = default;
  constexpr explicit DeviceCaps(std::uint32_t bits) noexcept : bits_(bits) {}

  constexpr bool has(DeviceCap cap) const noexcept { return (bits_ & static_cast<std::uint32_t>(cap)) != 0; }
  constexpr DeviceCaps with(DeviceCap cap) const noexcept {
    return DeviceCaps(bits_ | static_cast<std::uint32_t>(cap));
  }
  constexpr DeviceCaps without(DeviceCap cap) const noexcept {
    return DeviceCaps(bits_ & ~static_cast<std::uint32_t>(cap));
  }
  constexpr std::uint32_t bits() const noexcept { return bits_; }

 private:
  std::uint32_t bits_ = 0;
};

/// An address on the PCI bus, as Linux writes it: "0000:41:00.0".
struct PciAddress {
  std::uint32_t domain = 0;
  std::uint8_t bus = 0;
  std::uint8_t device = 0;
  std::uint8_t function = 0;

  friend bool operator==(const PciAddress& a, const PciAddress& b) noexcept {
    return a.domain == b.domain && a.bus == b.bus && a.device == b.device && a.function == b.function;
  }
};

/// What a backend reports of a device. Constant for the device's life.
struct DeviceInfo {
  std::string name;       ///< backend and ordinal, such as "cuda:0", "host:0", "sim:1"; unique in a runtime
  std::string backend;    ///< the part before the colon of `name`'s backend: "cuda", "rocm", "host"
  std::string uuid;       ///< the driver's identity of the card; with `backend` and `partition` the device's identity
  std::string partition;  ///< MIG or logical part of a card; empty for a whole one
  std::string model;      ///< "NVIDIA H200"; for people
  std::string vendor;     ///< a label: devices of different labels never share an address space
  std::string address_space;  ///< devices with equal names can follow the same pointer once peer access is on
  std::optional<PciAddress> pci;
  std::optional<unsigned> numa_node;  ///< the NUMA node nearest to it; empty where unknown
  Tier tier = Tier::kDevice;
  std::uint64_t total_bytes = 0;  ///< capacity
  std::size_t granularity =
      0;                    ///< bytes that chunk sizes and map offsets are multiples of; a power of two, >= kPageBytes
  unsigned wave_width = 0;  ///< threads that run in lockstep: 32 or 64; 0 without kernels
  bool simulated = false;
  bool drives_display = false;
  DeviceCaps caps;
};

/// Bytes of a device's memory at the moment of asking, other processes' use counted in.
struct MemoryInfo {
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
};

}  // namespace vmem
