// Copies between two simulated GPUs that are no peers, through staging memory: with links off beside the same bytes
// copied twice with memcpy, with enforced links beside the time that the link alone would take.
#include <dlfcn.h>
#include <fmt/format.h>
#include <vmem/backend.hpp>
#include <vmem/backend_config.hpp>
#include <vmem/topology.hpp>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/transfer/transfer_engine.hpp"
#include "tools/bench/memcpy_team.hpp"
#include "tools/bench/operation_report.hpp"
#include "tools/bench/report.hpp"
#include "tools/bench/samples.hpp"

namespace vmem {
namespace {

constexpr double kLeastOfMemcpy = 0.8;
constexpr double kLeastOfLink = 0.95;
constexpr std::size_t kPipelineBuffer = 2_MiB;
constexpr std::size_t kPipelineBuffers = 6;

// Host memory, two GPUs, and an engine over them.
class Pair {
 public:
  // Bytes per second of both links; 0: as fast as memory goes.
  static Result<std::unique_ptr<Pair>> create(double enforced_rate, std::size_t bytes);
  ~Pair();

  Result<double> copy_seconds(std::size_t bytes, bool both_ways);
  Status fill(const std::vector<std::uint8_t>& bytes);
  Result<bool> holds(const std::vector<std::uint8_t>& bytes);

 private:
  Logger logger_;
  std::unique_ptr<Backend> backend_;
  std::vector<std::unique_ptr<Device>> devices_;
  Topology topology_;
  std::unique_ptr<TransferEngine> engine_;
  // Where bytes go from one GPU to the other and, for an exchange, back.
  void* source_[2] = {};
  void* target_[2] = {};
};

Result<std::unique_ptr<Backend>> load_host_backend(const BackendConfig& config) {
  void* const library = ::dlopen(VMEM_HOST_BACKEND, RTLD_NOW | RTLD_LOCAL);
  void* const symbol = library != nullptr ? ::dlsym(library, "vmem_backend_entry") : nullptr;
  if (symbol == nullptr) return Status(StatusCode::kNotFound, ::dlerror());
  return reinterpret_cast<decltype(&vmem_backend_entry)>(symbol)()->create(config);
}

Result<std::unique_ptr<Pair>> Pair::create(double enforced_rate, std::size_t bytes) {
  auto pair = std::make_unique<Pair>();
  BackendConfig config;
  config.log = [](LogLevel, std::string_view text) { std::cerr << text << '\n'; };
  for (int i = 0; i < 2; ++i) {
    SimulatedDevice gpu;
    gpu.total_bytes = 4 * bytes;
    gpu.caps = gpu.caps.without(DeviceCap::kPeerCopy);
    gpu.enforce_links = enforced_rate > 0;
    if (gpu.enforce_links) gpu.bandwidth_in = gpu.bandwidth_out = enforced_rate;
    config.simulated.push_back(gpu);
  }
  VMEM_ASSIGN_OR_RETURN(pair->backend_, load_host_backend(config));
  VMEM_ASSIGN_OR_RETURN(auto found, pair->backend_->discover());
  for (auto& device : found) {
    if (pair->devices_.empty() || device->info().tier == Tier::kDevice) pair->devices_.push_back(std::move(device));
  }
  std::vector<TopologyDevice> described;
  std::vector<Device*> devices;
  for (const auto& device : pair->devices_) {
    described.push_back({device->info(), device->info().total_bytes, "", {}, {}, {}});
    devices.push_back(device.get());
  }
  const double rate = enforced_rate > 0 ? enforced_rate : 10e9;
  std::vector<Link> links;
  for (const DeviceIndex gpu : {DeviceIndex{1}, DeviceIndex{2}}) {
    links.push_back({0, gpu, false, rate, std::chrono::microseconds(5), LinkSource::kMeasured});
    links.push_back({gpu, 0, false, rate, std::chrono::microseconds(5), LinkSource::kMeasured});
  }
  pair->topology_ = Topology(std::move(described), std::move(links), {}, {}, {});
  VMEM_ASSIGN_OR_RETURN(pair->engine_, TransferEngine::create(devices, pair->topology_, pair->logger_, {}));
  for (std::size_t i = 0; i < 2; ++i) {
    VMEM_ASSIGN_OR_RETURN(pair->source_[i], devices[1 + i]->allocate(bytes));
    VMEM_ASSIGN_OR_RETURN(pair->target_[i], devices[2 - i]->allocate(bytes));
  }
  return pair;
}

Pair::~Pair() {
  engine_.reset();
  for (std::size_t i = 0; i < 2; ++i) {
    if (source_[i] != nullptr) static_cast<void>(devices_[1 + i]->deallocate(source_[i]));
    if (target_[i] != nullptr) static_cast<void>(devices_[2 - i]->deallocate(target_[i]));
  }
  devices_.clear();
}

Result<double> Pair::copy_seconds(std::size_t bytes, bool both_ways) {
  const Stopwatch time;
  std::vector<Event> events;
  for (std::size_t i = 0; i < (both_ways ? 2U : 1U); ++i) {
    VMEM_ASSIGN_OR_RETURN(Event event, engine_->start({{1 + i, source_[i]}, {2 - i, target_[i]}, {{0, bytes}}, {}}));
    events.push_back(std::move(event));
  }
  for (const Event& event : events) VMEM_RETURN_IF_ERROR(event.wait());
  return time.seconds();
}

Status Pair::fill(const std::vector<std::uint8_t>& bytes) {
  for (std::size_t i = 0; i < 2; ++i) {
    VMEM_ASSIGN_OR_RETURN(const Event in,
                          devices_[1 + i]->copy_from_host(source_[i], bytes.data(), bytes.size(), Stream()));
    VMEM_RETURN_IF_ERROR(in.wait());
    VMEM_ASSIGN_OR_RETURN(const Event cleared, devices_[2 - i]->fill(target_[i], 0, bytes.size(), Stream()));
    VMEM_RETURN_IF_ERROR(cleared.wait());
  }
  return {};
}

Result<bool> Pair::holds(const std::vector<std::uint8_t>& bytes) {
  std::vector<std::uint8_t> found(bytes.size());
  VMEM_ASSIGN_OR_RETURN(const Event out, devices_[2]->copy_to_host(found.data(), target_[0], found.size(), Stream()));
  VMEM_RETURN_IF_ERROR(out.wait());
  return found == bytes;
}

std::vector<std::uint8_t> made_up_bytes(std::size_t bytes) {
  std::vector<std::uint8_t> made_up(bytes);
  std::uint64_t state = bytes + 1;
  for (auto& byte : made_up) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    byte = static_cast<std::uint8_t>(state >> 56U);
  }
  return made_up;
}

struct Case {
  std::size_t bytes = 0;
  double enforced_rate = 0;
  bool both_ways = false;
};

struct Measured {
  BenchRow row;
  double least_ratio = 0;
};

// One round warms up and is not kept.
Result<Measured> measure(const Case& wanted, unsigned samples, MemcpyTeam& team) {
  const std::size_t bytes = wanted.bytes;
  VMEM_ASSIGN_OR_RETURN(const auto pair, Pair::create(wanted.enforced_rate, bytes));
  const auto contents = made_up_bytes(bytes);
  VMEM_RETURN_IF_ERROR(pair->fill(contents));
  Measured measured;
  BenchRow& row = measured.row;
  const std::size_t ways = wanted.both_ways ? 2 : 1;
  row.pattern = wanted.both_ways ? "exchange" : "copy";
  row.from = "sim:0";
  row.to = "sim:1";
  row.bytes = ways * bytes;
  row.simulated = true;
  const bool enforced = wanted.enforced_rate > 0;
  row.name = fmt::format("{} of {} MiB, links {}", row.pattern, row.bytes >> 20U,
                         enforced ? fmt::format("of {:.0f} GB/s", wanted.enforced_rate / 1e9) : "off");
  row.reference.name = enforced ? "the link's time" : fmt::format("memcpy twice by {} threads", kStagedCopyThreads);
  Reference pipeline{"memcpy by one thread a hop", {}};
  measured.least_ratio = wanted.both_ways ? 0 : enforced ? kLeastOfLink : kLeastOfMemcpy;
  std::vector<std::uint8_t> source(enforced ? 0 : row.bytes, 1);
  std::vector<std::uint8_t> target(enforced ? 0 : row.bytes, 2);
  for (unsigned round = 0; round <= samples; ++round) {
    VMEM_ASSIGN_OR_RETURN(const double seconds, pair->copy_seconds(bytes, wanted.both_ways));
    const Stopwatch time;
    if (!enforced) {
      team.copy_twice(reinterpret_cast<std::byte*>(target.data()), reinterpret_cast<const std::byte*>(source.data()),
                      row.bytes);
    }
    const double reference = enforced ? static_cast<double>(bytes) / wanted.enforced_rate : time.seconds();
    const Stopwatch pipeline_time;
    if (!enforced) {
      copy_by_pipeline(reinterpret_cast<std::byte*>(target.data()), reinterpret_cast<const std::byte*>(source.data()),
                       row.bytes, kPipelineBuffer, kPipelineBuffers);
    }
    const double pipeline_seconds = pipeline_time.seconds();
    if (round == 0) continue;
    row.samples.push_back(seconds);
    row.reference.samples.push_back(reference);
    if (!enforced) pipeline.samples.push_back(pipeline_seconds);
  }
  if (!enforced) row.other_references.push_back(std::move(pipeline));
  VMEM_ASSIGN_OR_RETURN(row.verified, pair->holds(contents));
  return measured;
}

nlohmann::json to_json(const Measured& measured) {
  const BenchRow& row = measured.row;
  nlohmann::json json = {{"name", row.name},
                         {"pattern", row.pattern},
                         {"from", row.from},
                         {"to", row.to},
                         {"bytes", row.bytes},
                         {"seconds", row.seconds()},
                         {"samples", row.samples},
                         {"bytes_per_second", row.bytes_per_second()},
                         {"reference",
                          {{"name", row.reference.name},
                           {"bytes_per_second", row.reference_bytes_per_second()},
                           {"samples", row.reference.samples}}},
                         {"ratio", row.ratio()},
                         {"verified", row.verified},
                         {"simulated", row.simulated}};
  for (const Reference& other : row.other_references) {
    json["other_references"].push_back({{"name", other.name},
                                        {"bytes_per_second", static_cast<double>(row.bytes) / median(other.samples)},
                                        {"samples", other.samples}});
  }
  if (measured.least_ratio > 0) {
    json["reach"] = {{"ratio", measured.least_ratio}};
    json["reached"] = row.ratio() >= measured.least_ratio;
  }
  return json;
}

int run(int count, char** arguments) {
  const auto options = parse_operation_arguments(count, arguments);
  if (!options) return 2;
  MemcpyTeam team(kStagedCopyThreads);
  std::vector<Case> cases;
  for (const std::size_t bytes : {1_MiB, 16_MiB, 64_MiB, 256_MiB}) cases.push_back({bytes, 0, false});
  cases.push_back({64_MiB, 0, true});
  for (const double rate : {1e9, 2e9, 4e9}) {
    for (const std::size_t bytes : {16_MiB, 64_MiB, 256_MiB}) cases.push_back({bytes, rate, false});
  }
  auto json = nlohmann::json::parse(record_head(options->command));
  json["results"] = nlohmann::json::array();
  std::cout << table_header();
  bool all_verified = true;
  for (const Case& wanted : cases) {
    const auto measured = measure(wanted, options->samples, team);
    if (!measured) {
      std::cerr << measured.error().to_string() << '\n';
      return 3;
    }
    std::cout << table_line(measured->row) << std::flush;
    all_verified = all_verified && measured->row.verified;
    json["results"].push_back(to_json(*measured));
  }
  if (!options->json_file.empty()) {
    if (const Status written = write_file(options->json_file, json.dump(2) + "\n"); !written) {
      std::cerr << written.to_string() << '\n';
      return 3;
    }
  }
  return all_verified ? 0 : 1;
}

}  // namespace
}  // namespace vmem

int main(int count, char** arguments) { return vmem::run(count, arguments); }
