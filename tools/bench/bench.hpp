// The main job as a library: `vmem bench` and its tests call it. The one header of tools/bench that tools/vmem
// includes.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vmem {

// What `vmem bench` was asked for, as it was written: `run_bench` says what is wrong with it.
struct BenchOptions {
  std::vector<std::string> inputs;    // files and folders; empty: the shared libraries that this process runs with
  std::string topology_file;          // empty: VMEM_TOPOLOGY, else none
  std::string size;                   // "512MiB"; empty: by memory, 192 MiB when quick
  std::vector<std::string> devices;   // names; empty: all
  std::vector<std::string> patterns;  // of bench_patterns(); empty: all
  std::string json_file;              // empty: none
  std::uint64_t seed = 1;
  std::optional<unsigned> samples;  // timed rounds a row; empty: 7, 3 when quick
  bool quick = false;
  // `vmem bench copy`: nothing but copies, of more sizes and kinds. No buffer is made: `size` and `patterns` are
  // refused.
  bool copies = false;
  std::string least_copy = "4KiB";
  std::string most_copy;    // empty: 4 GiB, 16 MiB when quick
  std::string report_file;  // curves, as HTML; empty: none
  std::string command;      // as it was typed, for the record
};

// What the process exits with.
enum class BenchExit : int {
  kOk = 0,
  kMismatch = 1,  // bytes differ from the plain run's
  kUsage = 2,     // an option, an input, the environment or the topology file is wrong
  kFailure = 3,   // the pool, a device or a file failed
};

// The names that BenchOptions::patterns may hold, in the order in which they run.
const std::vector<std::string_view>& bench_patterns();

// Runs the main job: the table goes to `out`, progress and errors to `err`.
BenchExit run_bench(const BenchOptions& options, std::ostream& out, std::ostream& err);

}  // namespace vmem
