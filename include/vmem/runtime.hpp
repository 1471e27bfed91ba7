/// The machine, opened: backends, devices, topology and the transfer engine. Pools are made from it.
///
/// Thread contract: every member may be called from any thread. A runtime must outlive its pools; it is destroyed after
/// them, ends its threads, then its devices, then its backends. There is no global state: two runtimes may live side by
/// side.
#pragma once

#include <vmem/export.h>
#include <vmem/backend.hpp>
#include <vmem/event.hpp>
#include <vmem/options.hpp>
#include <vmem/pool.hpp>
#include <vmem/status.hpp>
#include <vmem/topology.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace vmem {

/// A device and an address on it, for copies of pointers from outside the pool.
struct DevicePointer {
  DeviceIndex device = 0;
  void* address = nullptr;
  Stream stream;  ///< of that device; the copy is ordered after and before the work on it; none: no order
};

class VMEM_API Runtime {
 public:
  class Impl;

  /// Opens the machine. A backend that can't be used is absent with its reason (`topology().absent_backends()`) and
  /// never an error. Errors: kConfigError (environment, topology file), kOutOfHostMemory.
  static Result<std::unique_ptr<Runtime>> create(const RuntimeOptions& options = {});

  explicit Runtime(std::unique_ptr<Impl> impl) noexcept;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  ~Runtime();

  const Topology& topology() const noexcept;
  /// What each backend that is there says of its driver, by the backend's name; for people and for records.
  std::map<std::string, std::string> drivers() const;
  /// The device at an index of `topology().devices()`. REQUIRES: index < devices().size(). Borrowed.
  Device& device(DeviceIndex index) const noexcept;
  /// A device by its name. Errors: kNotFound.
  Result<DeviceIndex> find(std::string_view name) const { return topology().find(name); }

  /// Errors: kInvalidValue (block size, limits, unknown device).
  Result<std::unique_ptr<Pool>> create_pool(const PoolOptions& options = {});

  /// Copies between any two devices' pointers, of the pool or not. The event is done when the bytes are there.
  Result<Event> copy(const DevicePointer& destination, const DevicePointer& source, std::size_t bytes);

  /// Measures every link under load and makes a topology with the figures (this runtime keeps its own); kept in a cache
  /// that a change of machine or driver makes void. Takes seconds.
  Result<Topology> measure_links(bool use_cache = true);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace vmem
