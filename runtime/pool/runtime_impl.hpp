// What a Runtime owns, in the order in which it is made; it goes in the opposite order.
#pragma once

#include <vmem/runtime.hpp>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/pool/fork_marker.hpp"
#include "runtime/pool/pool_context.hpp"
#include "runtime/pool/runtime_settings.hpp"
#include "runtime/support/log.hpp"
#include "runtime/topology/machine.hpp"
#include "runtime/topology/topology_file.hpp"
#include "runtime/transfer/transfer_engine.hpp"

namespace vmem {

// CONCURRENCY: nothing here changes after `create`, so it has no lock; what works concurrently (devices, engine,
// logger) locks itself.
class VMEM_LOCAL Runtime::Impl {
 public:
  static Result<std::unique_ptr<Impl>> create(const RuntimeOptions& options);
  ~Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const Topology& topology() const noexcept { return topology_; }
  std::map<std::string, std::string> drivers() const;
  Device& device(DeviceIndex index) const noexcept { return *devices_[index]; }
  PoolContext pool_context() noexcept;

  // In a child after fork nothing may be touched: queues, drivers and threads are the parent's.
  bool forked() const noexcept { return fork_.in_child(); }
  // kDeviceFailed in such a child.
  Status check_fork() const;

  Result<Event> copy(const DevicePointer& destination, const DevicePointer& source, std::size_t bytes);
  Result<Topology> measure_links(bool use_cache);

 private:
  Impl(RuntimeSettings settings, const LogCallback& log);

  Status read_topology();
  Status load_backends(std::vector<AbsentBackend>& absent);
  void discover(std::unique_ptr<Backend> backend, std::vector<AbsentBackend>& absent);
  void use_default_simulation();
  Status assemble(std::vector<AbsentBackend> absent);
  void use_cached_links();
  Status start_transfers();
  LogCallback backend_log() const;
  Status check_pointer(const DevicePointer& pointer, const char* role) const;

  const RuntimeSettings settings_;
  const ForkMarker fork_;
  const std::shared_ptr<Logger> log_;  // shared: backends' events may log after the runtime is gone
  Machine machine_;
  std::unique_ptr<TopologyFile> file_;  // null: none
  BackendConfig config_;
  std::vector<std::unique_ptr<Backend>> backends_;
  std::vector<std::unique_ptr<Device>> found_;    // as the backends handed them over
  std::vector<std::unique_ptr<Device>> logical_;  // parts of split cards, over those
  std::vector<Device*> devices_;                  // in the topology's order
  Topology topology_;
  std::unique_ptr<TransferEngine> transfers_;  // its threads end first
};

}  // namespace vmem
