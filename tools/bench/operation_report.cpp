#include "tools/bench/operation_report.hpp"

#include <fmt/format.h>
#include <vmem/version.h>

#include <charconv>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "tools/bench/report.hpp"
#include "tools/bench/samples.hpp"
#include "vmem_commit.hpp"

namespace vmem {
namespace {

using Json = nlohmann::ordered_json;

double per_operation(const std::vector<double>& samples, std::size_t operations) {
  return operations > 0 ? median(samples) / static_cast<double>(operations) : 0;
}

double rate(double seconds_per_operation) { return seconds_per_operation > 0 ? 1 / seconds_per_operation : 0; }

Json to_json(const OperationRow& row) {
  Json json{{"name", row.name},
            {"pattern", row.pattern},
            {"threads", row.threads},
            {"operations", row.operations},
            {"seconds", median(row.samples)},
            {"samples", row.samples},
            {"operations_per_second", rate(row.seconds_per_operation())},
            {"reference",
             {{"name", row.reference},
              {"operations_per_second", rate(row.reference_seconds_per_operation())},
              {"samples", row.reference_samples}}},
            {"ratio", row.ratio()}};
  if (row.least_ratio) json["reach"]["ratio"] = *row.least_ratio;
  if (row.most_seconds) json["reach"]["seconds_per_operation"] = *row.most_seconds;
  if (row.least_ratio || row.most_seconds) json["reached"] = row.reached();
  if (!row.figures.empty()) json["figures"] = row.figures;
  return json;
}

}  // namespace

double OperationRow::seconds_per_operation() const { return per_operation(samples, operations); }
double OperationRow::reference_seconds_per_operation() const { return per_operation(reference_samples, operations); }
double OperationRow::ratio() const {
  const double seconds = seconds_per_operation();
  return seconds > 0 ? reference_seconds_per_operation() / seconds : 0;
}
bool OperationRow::reached() const {
  if (!least_ratio && !most_seconds) return true;
  return (least_ratio && ratio() >= *least_ratio) || (most_seconds && seconds_per_operation() <= *most_seconds);
}

std::string operation_table(const std::vector<OperationRow>& rows) {
  std::string text = fmt::format("{:<44} {:>7} {:>12} {:>12} {:>6}  {}\n", "what", "threads", "ns each", "reference",
                                 "ratio", "reached");
  for (const OperationRow& row : rows) {
    const bool asked = row.least_ratio || row.most_seconds;
    text += fmt::format("{:<44} {:>7} {:>12.1f} {:>12.1f} {:>6.2f}  {}\n", row.name, row.threads,
                        row.seconds_per_operation() * 1e9, row.reference_seconds_per_operation() * 1e9, row.ratio(),
                        asked ? (row.reached() ? "yes" : "no") : "-");
  }
  return text;
}

std::string operation_json(const std::string& command, const std::vector<OperationRow>& rows) {
  Json json = Json::parse(record_head(command));
  json["results"] = Json::array();
  for (const OperationRow& row : rows) json["results"].push_back(to_json(row));
  return json.dump(2) + "\n";
}

std::optional<OperationArguments> parse_operation_arguments(int count, char** arguments) {
  OperationArguments parsed;
  parsed.command = std::string_view(arguments[0]).substr(std::string_view(arguments[0]).rfind('/') + 1);
  for (int i = 1; i < count; ++i) {
    const std::string_view option = arguments[i];
    const std::string_view value = i + 1 < count ? arguments[++i] : "";
    parsed.command += fmt::format(" {} {}", option, value);
    unsigned samples = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), samples);
    const bool is_count = error == std::errc() && end == value.data() + value.size() && samples > 0;
    if (option == "--json" && !value.empty()) {
      parsed.json_file = value;
    } else if (option == "--samples" && is_count) {
      parsed.samples = samples;
    } else {
      std::cerr << fmt::format("'{} {}': expected --json FILE or --samples NUMBER\n", option, value);
      return std::nullopt;
    }
  }
  return parsed;
}

int report_operations(const OperationArguments& arguments, const std::vector<OperationRow>& rows) {
  std::cout << operation_table(rows);
  if (arguments.json_file.empty()) return 0;
  const Status written = write_file(arguments.json_file, operation_json(arguments.command, rows));
  if (written) return 0;
  std::cerr << written.to_string() << '\n';
  return 3;
}

}  // namespace vmem
