// What a run has measured: a line of the table each, and the JSON document (README.md describes its fields).
#pragma once

#include <vmem/stats.hpp>
#include <vmem/status.hpp>
#include <vmem/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace vmem {

// What the measured rate is held against: the same work without the pool, timed in turn with it.
struct Reference {
  std::string name;
  std::vector<double> samples;  // seconds
};

// One measured thing.
struct BenchRow {
  std::string name;     // unique in a run: "sequential on sim:0"
  std::string pattern;  // one of bench_patterns(), or "fill" and "read back"
  std::string from;     // a device's name, or "pool"
  std::string to;
  std::size_t bytes = 0;        // of one sample
  std::vector<double> samples;  // seconds
  Reference reference;          // the limit
  std::vector<Reference> other_references;
  bool simulated = false;
  bool verified = false;  // all bytes compared and equal

  double seconds() const;                     // the median
  double bytes_per_second() const;            // by the median
  double reference_bytes_per_second() const;  // by the reference's median
  double ratio() const;                       // measured over reference
};

// Bookkeeping of a buffer that is far larger than what is touched of it.
struct SparseFigures {
  std::uint64_t buffer_bytes = 0;
  std::uint64_t untouched_bookkeeping_bytes = 0;  // of the pool before the first byte is touched
  struct Point {
    std::uint64_t touched_bytes = 0;
    std::uint64_t bookkeeping_bytes = 0;
  };
  std::vector<Point> points;
  // By the last point, what was there before counted off.
  double bookkeeping_bytes_per_gib() const;
};

struct BenchReport {
  std::string command;
  std::uint64_t seed = 0;
  std::size_t buffer_bytes = 0;
  std::size_t block_bytes = 0;
  std::size_t input_files = 0;
  std::size_t input_bytes = 0;
  std::map<std::string, std::string> drivers;  // backend to its version, or to why it is absent
  std::vector<TopologyDevice> devices;
  std::map<std::string, std::uint64_t> limits;  // what the pool might use of each
  std::vector<BenchRow> rows;
  std::optional<PoolStats> stats;  // at the end of the patterns
  std::optional<SparseFigures> sparse;
};

// The table's first lines, and one line a row, of one width.
std::string table_header();
std::string table_line(const BenchRow& row);

std::string to_json(const BenchReport& report);
// The fields that every results file begins with, as a JSON object: schema, version, commit, command and machine.
std::string record_head(const std::string& command);
// Errors: kIoError.
Status write_file(const std::string& path, const std::string& text);

}  // namespace vmem
