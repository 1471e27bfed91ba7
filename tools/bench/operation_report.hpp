// The results of the small benchmarks, which count operations instead of bytes. README.md describes the fields.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace vmem {

// So many operations, timed in turn with the same number of the reference's.
struct OperationRow {
  std::string name;
  std::string pattern;  // of what kind, such as "acquire"
  unsigned threads = 1;
  std::size_t operations = 0;   // of one sample, all threads together
  std::vector<double> samples;  // seconds
  std::string reference;
  std::vector<double> reference_samples;    // seconds for the same number
  std::optional<double> least_ratio;        // what is to be reached, either of the two
  std::optional<double> most_seconds;       // an operation
  std::map<std::string, double> figures{};  // what else was counted, for the record

  double seconds_per_operation() const;
  double reference_seconds_per_operation() const;
  double ratio() const;
  // True where nothing is to be reached.
  bool reached() const;
};

std::string operation_table(const std::vector<OperationRow>& rows);
std::string operation_json(const std::string& command, const std::vector<OperationRow>& rows);

// The options that these benchmarks share.
struct OperationArguments {
  std::string command;
  std::string json_file;  // --json FILE; empty: none
  unsigned samples = 7;   // --samples NUMBER
};
// Nothing, and a line on standard error, where they are wrong.
std::optional<OperationArguments> parse_operation_arguments(int count, char** arguments);
// Prints the table and writes the file; the exit status.
int report_operations(const OperationArguments& arguments, const std::vector<OperationRow>& rows);

}  // namespace vmem
