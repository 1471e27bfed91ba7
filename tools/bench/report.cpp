#include "tools/bench/report.hpp"

#include <fmt/format.h>
#include <vmem/version.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "runtime/support/bytes.hpp"
#include "tools/bench/machine.hpp"
#include "tools/bench/samples.hpp"
#include "vmem_commit.hpp"

namespace vmem {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 1;

double rate(std::size_t bytes, double seconds) { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }

Json to_json(const Machine& machine) {
  return {{"cpu", machine.cpu},
          {"cores", machine.cores},
          {"memory_bytes", machine.memory_bytes},
          {"kernel", machine.kernel},
          {"system", machine.os}};
}

Json head(const std::string& command) {
  return {{"schema_version", kSchemaVersion},
          {"vmem", VMEM_VERSION_STRING},
          {"commit", VMEM_COMMIT},
          {"command", command},
          {"machine", to_json(read_machine())}};
}

// Names of devices and files may hold any bytes; those that are no UTF-8 are replaced rather than refused.
std::string dump(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

Json to_json(const TopologyDevice& device, const std::map<std::string, std::uint64_t>& limits) {
  const auto limit = limits.find(device.info.name);
  return {{"name", device.info.name},
          {"model", device.info.model},
          {"vendor", device.info.vendor},
          {"backend", device.info.backend},
          {"uuid", device.info.uuid},
          {"total_bytes", device.info.total_bytes},
          {"limit_bytes", limit == limits.end() ? device.limit_bytes : limit->second},
          {"simulated", device.info.simulated}};
}

Json to_json(const Reference& reference, std::size_t bytes) {
  return {{"name", reference.name},
          {"bytes_per_second", rate(bytes, median(reference.samples))},
          {"samples", reference.samples}};
}

Json to_json(const BenchRow& row) {
  Json json{{"name", row.name},
            {"pattern", row.pattern},
            {"from", row.from},
            {"to", row.to},
            {"bytes", row.bytes},
            {"seconds", row.seconds()},
            {"samples", row.samples},
            {"bytes_per_second", row.bytes_per_second()},
            {"reference", to_json(row.reference, row.bytes)},
            {"ratio", row.ratio()},
            {"verified", row.verified},
            {"simulated", row.simulated}};
  for (const Reference& other : row.other_references) json["other_references"].push_back(to_json(other, row.bytes));
  return json;
}

Json fragmentation(const PoolStats& stats) {
  Json json{{"addresses", stats.address_fragmentation}, {"devices", Json::object()}};
  for (const DeviceStats& device : stats.devices) json["devices"][device.name] = device.fragmentation;
  return json;
}

Json counters(const PoolStats& stats) {
  Json moves = Json::array();
  for (const MoveStats& move : stats.moves) {
    moves.push_back({{"from", move.from},
                     {"to", move.to},
                     {"fetched_bytes", move.fetched_bytes},
                     {"evicted_bytes", move.evicted_bytes},
                     {"moves", move.moves}});
  }
  return {{"acquires", stats.acquires}, {"acquires_resident", stats.acquires_resident},
          {"waits", stats.waits},       {"evictions", stats.evictions},
          {"moves", std::move(moves)},  {"peak_staging_bytes", stats.peak_staging_bytes}};
}

Json to_json(const SparseFigures& sparse) {
  Json points = Json::array();
  for (const auto& point : sparse.points) {
    points.push_back({{"touched_bytes", point.touched_bytes}, {"bookkeeping_bytes", point.bookkeeping_bytes}});
  }
  return {{"buffer_bytes", sparse.buffer_bytes},
          {"untouched_bookkeeping_bytes", sparse.untouched_bookkeeping_bytes},
          {"points", std::move(points)},
          {"bookkeeping_bytes_per_gib_touched", sparse.bookkeeping_bytes_per_gib()}};
}

}  // namespace

double BenchRow::seconds() const { return median(samples); }
double BenchRow::bytes_per_second() const { return rate(bytes, seconds()); }
double BenchRow::reference_bytes_per_second() const { return rate(bytes, median(reference.samples)); }
double BenchRow::ratio() const {
  const double limit = reference_bytes_per_second();
  return limit > 0 ? bytes_per_second() / limit : 0;
}

double SparseFigures::bookkeeping_bytes_per_gib() const {
  if (points.empty() || points.back().touched_bytes == 0) return 0;
  const double grown =
      static_cast<double>(points.back().bookkeeping_bytes) - static_cast<double>(untouched_bookkeeping_bytes);
  return grown / (static_cast<double>(points.back().touched_bytes) / static_cast<double>(1_GiB));
}

std::string table_header() {
  return fmt::format("{:<11} {:<22} {:>10} {:>12} {:>12} {:>6}  {:<8}  {}\n", "what", "devices", "size", "rate",
                     "limit", "ratio", "verified", "device");
}

std::string table_line(const BenchRow& row) {
  return fmt::format("{:<11} {:<22} {:>10} {:>12} {:>12} {:>6.2f}  {:<8}  {}\n", row.pattern,
                     row.from + " -> " + row.to, format_bytes(row.bytes), format_rate(row.bytes_per_second()),
                     format_rate(row.reference_bytes_per_second()), row.ratio(), row.verified ? "yes" : "NO",
                     row.simulated ? "simulated" : "real");
}

std::string to_json(const BenchReport& report) {
  Json json = head(report.command);
  json["drivers"] = report.drivers;
  json["devices"] = Json::array();
  if (report.buffer_bytes > 0) json["buffer_bytes"] = report.buffer_bytes;
  json["block_bytes"] = report.block_bytes;
  json["seed"] = report.seed;
  json["inputs"] = {{"files", report.input_files}, {"bytes", report.input_bytes}};
  json["results"] = Json::array();
  json["fragmentation"] = Json::object();
  for (const TopologyDevice& device : report.devices) json["devices"].push_back(to_json(device, report.limits));
  for (const BenchRow& row : report.rows) json["results"].push_back(to_json(row));
  if (report.stats) {
    json["fragmentation"] = fragmentation(*report.stats);
    json["pool"] = counters(*report.stats);
  }
  if (report.sparse) json["bookkeeping"] = to_json(*report.sparse);
  return dump(json);
}

std::string record_head(const std::string& command) { return dump(head(command)); }

Status write_file(const std::string& path, const std::string& text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text << std::flush;
  if (file.good()) return {};
  return Status(StatusCode::kIoError, fmt::format("'{}' could not be written: {}", path,
                                                  std::error_code(errno, std::generic_category()).message()));
}

}  // namespace vmem
