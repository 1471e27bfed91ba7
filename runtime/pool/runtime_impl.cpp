#include "runtime/pool/runtime_impl.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "runtime/pool/backend_loader.hpp"
#include "runtime/pool/device_check.hpp"
#include "runtime/pool/link_meter.hpp"
#include "runtime/pool/logical_device.hpp"
#include "runtime/support/bytes.hpp"
#include "runtime/support/format.hpp"
#include "runtime/topology/assemble.hpp"
#include "runtime/topology/link_cache.hpp"
#include "runtime/topology/measure.hpp"

namespace vmem {
namespace {

// The backend that makes simulated devices. It comes last: whether they are wanted depends on what the others find.
constexpr std::string_view kSimulatingBackend = "host";

LinkCacheKey cache_key(const Machine& machine, const std::vector<std::unique_ptr<Backend>>& backends,
                       const std::vector<SimulatedDevice>& simulated) {
  std::vector<DriverVersion> drivers;
  for (const auto& backend : backends) drivers.push_back({std::string(backend->name()), backend->driver_version()});
  // Simulated links are as fast as they were asked to be.
  for (const SimulatedDevice& device : simulated) {
    drivers.push_back({device.name, format("{} {} {} {} {}", device.enforce_links, device.bandwidth_in,
                                           device.bandwidth_out, device.bandwidth_peer, device.latency.count())});
  }
  return make_link_cache_key(machine, read_machine_id(), std::move(drivers));
}

bool is_gpu(const DeviceInfo& info) { return info.tier == Tier::kDevice; }

}  // namespace

Runtime::Impl::Impl(RuntimeSettings settings, const LogCallback& log)
    : settings_(std::move(settings)), log_(std::make_shared<Logger>(settings_.log_level)) {
  if (log) log_->set_callback(log);
}

Result<std::unique_ptr<Runtime::Impl>> Runtime::Impl::create(const RuntimeOptions& options) {
  VMEM_ASSIGN_OR_RETURN(RuntimeSettings settings, resolve_settings(options));
  std::unique_ptr<Impl> impl(new Impl(std::move(settings), options.log));
  VMEM_RETURN_IF_ERROR(impl->read_topology());
  std::vector<AbsentBackend> absent;
  VMEM_RETURN_IF_ERROR(impl->load_backends(absent));
  VMEM_RETURN_IF_ERROR(impl->assemble(std::move(absent)));
  impl->use_cached_links();
  VMEM_RETURN_IF_ERROR(impl->start_transfers());
  return impl;
}

Status Runtime::Impl::read_topology() {
  VMEM_ASSIGN_OR_RETURN(machine_, discover_machine(MachineSource::from_environment()));
  for (const std::string& warning : machine_.warnings) log_->info(warning);
  if (settings_.topology_file.empty()) return Status();
  auto file = read_topology_file(settings_.topology_file);
  if (!file) {
    return Status(StatusCode::kConfigError, format("{}='{}': {}", settings_.topology_file_origin,
                                                   settings_.topology_file, file.error().message()));
  }
  file_ = std::make_unique<TopologyFile>(std::move(*file));
  return Status();
}

LogCallback Runtime::Impl::backend_log() const {
  return [log = log_](LogLevel level, std::string_view message) { log->log(level, message); };
}

Status Runtime::Impl::load_backends(std::vector<AbsentBackend>& absent) {
  const BackendLoader loader(BackendLoader::folder_beside_library(), settings_.backend_dir);
  FoundBackends found = loader.find(built_in_backends());
  absent = std::move(found.absent);
  config_.host_limit_bytes = settings_.host_limit_bytes;
  config_.log = backend_log();
  if (file_) config_.simulated = file_->simulated;

  std::stable_partition(found.modules.begin(), found.modules.end(),
                        [](const BackendModule& module) { return module.name != kSimulatingBackend; });
  for (const BackendModule& module : found.modules) {
    if (module.name == kSimulatingBackend) use_default_simulation();
    auto backend = BackendLoader::create(module, config_);
    if (backend) {
      log_->debug(format("backend '{}': {}, driver {}", module.name, module.path, (*backend)->driver_version()));
      discover(std::move(*backend), absent);
    } else if (backend.error().code() == StatusCode::kConfigError) {
      return backend.error();  // what the user asked for is wrong: that is no absent driver
    } else {
      absent.push_back({module.name, std::string(backend.error().message())});
    }
  }
  for (const AbsentBackend& backend : absent) {
    log_->info(format("backend '{}' is absent: {}", backend.name, backend.reason));
  }
  return Status();
}

void Runtime::Impl::use_default_simulation() {
  const bool has_gpu =
      std::any_of(found_.begin(), found_.end(), [](const auto& device) { return is_gpu(device->info()); });
  if (has_gpu || !config_.simulated.empty()) return;
  config_.simulated = default_simulated_gpus(settings_.simulated_gpus);
}

void Runtime::Impl::discover(std::unique_ptr<Backend> backend, std::vector<AbsentBackend>& absent) {
  const std::string name(backend->name());
  auto devices = BackendLoader::discover(*backend);
  if (!devices) {
    absent.push_back({name, devices.error().to_string()});
    return;
  }
  for (std::unique_ptr<Device>& device : *devices) {
    Status fits = check_device(*device, name);
    const bool taken = std::any_of(found_.begin(), found_.end(),
                                   [&](const auto& other) { return other->info().name == device->info().name; });
    if (fits && taken) fits = Status(StatusCode::kUnsupported, "its name is another device's already");
    if (fits) {
      found_.push_back(std::move(device));
    } else {
      log_->warn(format("device '{}' of backend '{}' is left out: {}", device->info().name, name, fits.message()));
    }
  }
  devices->clear();  // those left out end before their backend
  backends_.push_back(std::move(backend));
}

Status Runtime::Impl::assemble(std::vector<AbsentBackend> absent) {
  std::vector<DeviceInfo> infos;
  for (const auto& device : found_) infos.push_back(device->info());
  AssembleInput input;
  input.machine = &machine_;
  input.devices = infos;
  input.file = file_.get();
  input.simulated = config_.simulated;
  input.absent = std::move(absent);
  input.can_access_peer = [this](std::size_t from, std::size_t to) {
    return found_[from]->can_access_peer(*found_[to]);
  };
  VMEM_ASSIGN_OR_RETURN(AssembledTopology assembled, assemble_topology(input));
  topology_ = std::move(assembled.topology);
  for (const TopologyNote& note : topology_.notes()) {
    log_->info(note.device.empty() ? note.text : format("device '{}': {}", note.device, note.text));
  }
  for (std::size_t i = 0; i < assembled.backing.size(); ++i) {
    Device& device = *found_[assembled.backing[i]];
    const DeviceInfo& info = topology_.devices()[i].info;
    if (info.name == device.info().name) {
      devices_.push_back(&device);
      continue;
    }
    logical_.push_back(std::make_unique<LogicalDevice>(device, info));
    devices_.push_back(logical_.back().get());
  }
  return Status();
}

// Only links between real devices: a test or a demonstration on simulated ones behaves the same wherever it runs.
void Runtime::Impl::use_cached_links() {
  const auto directory = LinkCache::default_directory();
  if (!directory) return;
  const auto& devices = topology_.devices();
  LinkMeasurements real;
  CachedLinks cached = LinkCache(*directory).load(cache_key(machine_, backends_, config_.simulated), topology_);
  if (!cached.warning.empty()) log_->warn(cached.warning);
  for (const Link& link : cached.links) {
    if (!devices[link.from].info.simulated && !devices[link.to].info.simulated) real.links.push_back(link);
  }
  if (!real.links.empty()) topology_ = with_measurements(topology_, real);
}

Status Runtime::Impl::start_transfers() {
  TransferOptions options;
  options.staging_bytes = settings_.staging_bytes;
  options.timeout = settings_.copy_timeout;
  VMEM_ASSIGN_OR_RETURN(transfers_, TransferEngine::create(devices_, topology_, *log_, options));
  return Status();
}

std::map<std::string, std::string> Runtime::Impl::drivers() const {
  std::map<std::string, std::string> drivers;
  for (const auto& backend : backends_) drivers[std::string(backend->name())] = backend->driver_version();
  return drivers;
}

PoolContext Runtime::Impl::pool_context() noexcept {
  return PoolContext{log_.get(), &topology_, devices_, transfers_.get(), &fork_};
}

Status Runtime::Impl::check_fork() const {
  if (!forked()) return Status();
  return Status(StatusCode::kDeviceFailed,
                "this process is a fork of the one that opened the runtime, and devices don't survive fork; open a "
                "runtime of its own in the child, best after exec");
}

Status Runtime::Impl::check_pointer(const DevicePointer& pointer, const char* role) const {
  if (pointer.device >= devices_.size()) {
    return Status(StatusCode::kInvalidValue,
                  format("{} device {}: there are {} devices", role, pointer.device, devices_.size()));
  }
  Device& device = *devices_[pointer.device];
  if (pointer.address == nullptr) {
    return Status(StatusCode::kInvalidValue, format("{} address is null", role)).with_device(device.info().name);
  }
  return pointer.stream.has_value() ? device.check_stream(pointer.stream) : Status();
}

Result<Event> Runtime::Impl::copy(const DevicePointer& destination, const DevicePointer& source, std::size_t bytes) {
  VMEM_RETURN_IF_ERROR(check_fork());
  VMEM_RETURN_IF_ERROR(check_pointer(destination, "destination"));
  VMEM_RETURN_IF_ERROR(check_pointer(source, "source"));
  if (bytes == 0) return Event();
  return transfers_->copy_pointers({destination.device, destination.address}, destination.stream,
                                   {source.device, source.address}, source.stream, bytes);
}

Result<Topology> Runtime::Impl::measure_links(bool use_cache) {
  VMEM_RETURN_IF_ERROR(check_fork());
  const auto directory = LinkCache::default_directory();
  const LinkCacheKey key = cache_key(machine_, backends_, config_.simulated);
  if (use_cache && directory) {
    CachedLinks cached = LinkCache(*directory).load(key, topology_);
    if (cached.complete) return with_measurements(topology_, {std::move(cached.links), {}});
  }
  MeasureOptions options;
  for (const TopologyDevice& device : topology_.devices()) {
    // A quarter of the smallest device: pools may hold the rest.
    const std::size_t quarter = align_down(static_cast<std::size_t>(device.limit_bytes) / 4, 64_KiB);
    if (quarter > 0) options.large_bytes = std::min(options.large_bytes, quarter);
  }
  LinkMeter meter(devices_, options.large_bytes, settings_.copy_timeout);
  const LinkMeasurements measured = vmem::measure_links(
      topology_, [&](DeviceIndex from, DeviceIndex to, std::size_t bytes) { return meter.copy(from, to, bytes); },
      options);
  Topology result = with_measurements(topology_, measured);
  if (directory) {
    const Status stored = LinkCache(*directory).store(key, result);
    if (!stored) log_->warn(format("measured links are not kept: {}", stored.message()));
  }
  return result;
}

}  // namespace vmem
