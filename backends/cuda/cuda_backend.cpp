#include "backends/cuda/cuda_backend.hpp"

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/driver.hpp"
#include "backends/cuda/machine.hpp"
#include "backends/cuda/peer_probe.hpp"
#include "backends/cuda/process_exit.hpp"
#include "runtime/support/format.hpp"

namespace vmem {
namespace {

// The prefix of a UUID says only what kind of device it is.
std::string bare_uuid(const CudaDevice& device) { return device.info().uuid.substr(4); }

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(std::shared_ptr<CudaMachine> machine) : machine_(std::move(machine)) {}

  std::string_view name() const noexcept override { return "cuda"; }

  std::string driver_version() const override {
    const int version = machine_->driver->version();
    std::string text = format("CUDA {}.{}", version / 1000, version % 1000 / 10);
    std::ifstream file("/sys/module/nvidia/version");
    std::string module;
    if (std::getline(file, module) && !module.empty()) text += format(", driver {}", module);
    return text;
  }

  Result<std::vector<std::unique_ptr<Device>>> discover() override {
    if (std::exchange(discovered_, true)) {
      return Status(StatusCode::kInvalidValue, "the CUDA backend's devices were handed out already");
    }
    const CudaDriver& driver = *machine_->driver;
    int count = 0;
    VMEM_RETURN_IF_ERROR(driver.status(driver.cuDeviceGetCount(&count), "cuDeviceGetCount"));
    auto compiler = std::make_shared<KernelCompiler>(*machine_);  // shared by the devices
    std::vector<std::unique_ptr<CudaDevice>> found;
    for (int ordinal = 0; ordinal < count; ++ordinal) {
      auto device = CudaDevice::create(machine_, compiler, ordinal);
      if (device) {
        found.push_back(std::move(device).value());
        continue;
      }
      // Another process may have a device for itself; the others work.
      machine_->log(LogLevel::kWarn, format("device 'cuda:{}' is left out: {}", ordinal, device.error().to_string()));
    }
    enable_peers(found);
    std::vector<std::unique_ptr<Device>> devices;
    for (auto& device : found) devices.push_back(std::move(device));
    return devices;
  }

 private:
  struct Candidate {
    CudaDevice* from;
    CudaDevice* to;
  };

  // Pairs for which the driver announces peer access.
  std::vector<Candidate> announced(const std::vector<std::unique_ptr<CudaDevice>>& devices) const {
    std::vector<Candidate> candidates;
    for (const auto& from : devices) {
      for (const auto& to : devices) {
        if (from == to || !from->info().caps.has(DeviceCap::kPeerCopy)) continue;
        int possible = 0;
        const CuResult result =
            machine_->driver->cuDeviceCanAccessPeer(&possible, from->context().device(), to->context().device());
        if (result == kCuSuccess && possible != 0) candidates.push_back({from.get(), to.get()});
      }
    }
    return candidates;
  }

  std::vector<PeerAnswer> try_pairs(const std::vector<PeerPair>& pairs) const {
    const CudaOptions& options = machine_->options;
    std::vector<PeerAnswer> answers(pairs.size(), PeerAnswer::kUnknown);
    const PeerCache cache(options.cache_directory.value_or(""), PeerCache::make_key(driver_version()));
    if (options.cache_directory) answers = cache.load(pairs);
    std::vector<std::size_t> untried;
    std::vector<PeerPair> asked;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (answers[i] != PeerAnswer::kUnknown) continue;
      untried.push_back(i);
      asked.push_back(pairs[i]);
    }
    if (asked.empty()) return answers;
    const std::string program = options.probe_program.empty() ? find_probe_program() : options.probe_program;
    if (program.empty()) return answers;
    const auto tried = probe_peers({program, machine_->driver->library(), options.probe_timeout}, asked);
    for (std::size_t i = 0; i < untried.size(); ++i) answers[untried[i]] = tried[i];
    if (options.cache_directory) cache.store(pairs, answers);
    return answers;
  }

  void enable_peers(const std::vector<std::unique_ptr<CudaDevice>>& devices) const {
    const std::vector<Candidate> candidates = announced(devices);
    if (candidates.empty()) return;
    std::vector<PeerPair> pairs;
    for (const Candidate& pair : candidates) pairs.push_back({bare_uuid(*pair.from), bare_uuid(*pair.to)});
    const std::vector<PeerAnswer> answers = try_pairs(pairs);
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const Candidate& pair = candidates[i];
      if (answers[i] == PeerAnswer::kWorks) {
        const Status status = pair.from->enable_peer(*pair.to);
        if (!status) machine_->log(LogLevel::kWarn, status.to_string());
        continue;
      }
      const char* const known = answers[i] == PeerAnswer::kUnknown ? "could not be tried" : "does not work";
      machine_->log(LogLevel::kWarn,
                    format("peer access from '{}' to '{}' is announced by the driver and {} ({}): copies go through "
                           "host memory",
                           pair.from->info().name, pair.to->info().name, known, to_string(answers[i])));
    }
  }

  const std::shared_ptr<CudaMachine> machine_;  // shared with the devices and the events of their work
  bool discovered_ = false;
};

}  // namespace

Result<std::unique_ptr<Backend>> create_cuda_backend(const BackendConfig& config, const CudaOptions& options) {
  VMEM_ASSIGN_OR_RETURN(auto driver, CudaDriver::open(options.driver_library));
  auto machine = std::make_shared<CudaMachine>(std::move(driver), options, config.log);
  end_with_process(machine);
  return std::unique_ptr<Backend>(std::make_unique<CudaBackend>(std::move(machine)));
}

}  // namespace vmem
