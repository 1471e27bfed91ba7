#include "tools/vmem/bench_command.hpp"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>

#include "tools/bench/bench.hpp"

namespace vmem {
namespace {

std::string pattern_names() {
  std::ostringstream text;
  for (const std::string_view name : bench_patterns()) text << (text.tellp() > 0 ? ", " : "") << name;
  return text.str();
}

// CLI11 takes "-1" for a large number otherwise.
std::string not_negative(const std::string& text) {
  return text.starts_with('-') ? "expected a number that is not negative, not " + text : std::string();
}

}  // namespace

void add_bench_command(CLI::App& app, const std::string& command, int& exit_code) {
  // Shared with the callback, which runs after this function has returned.
  const auto options = std::make_shared<BenchOptions>();
  options->command = command;
  CLI::App* const bench = app.add_subcommand(
      "bench", "Work on a buffer larger than any GPU with every device, check every byte, and measure");
  bench
      ->add_option("--input", options->inputs,
                   "Files and folders that fill the buffer (default: this program's libraries)")
      ->type_name("PATH...")
      ->expected(1, -1);
  bench->add_option("--topology", options->topology_file, "Topology file (default: VMEM_TOPOLOGY)")->type_name("FILE");
  bench->add_option("--size", options->size, "Size of the buffer, such as 512MiB or 4GiB")->type_name("BYTES");
  bench->add_option("--device", options->devices, "Devices that work (default: all)")
      ->type_name("NAME...")
      ->expected(1, -1);
  bench->add_option("--pattern", options->patterns, "What to run: " + pattern_names() + " (default: all)")
      ->type_name("NAME...")
      ->expected(1, -1);
  bench->add_option("--seed", options->seed, "Seed of what is random")
      ->capture_default_str()
      ->type_name("NUMBER")
      ->check(not_negative);
  bench->add_option("--samples", options->samples, "Timed rounds of each measurement (default: 7, 3 with --quick)")
      ->type_name("NUMBER")
      ->check(not_negative);
  bench->add_option("--json", options->json_file, "Write the results to a file")->type_name("FILE");
  bench->add_flag("--quick", options->quick, "A smaller buffer and fewer rounds: within a minute on two cores");
  CLI::App* const copy = bench->add_subcommand(
      "copy", "Copy between every pair of devices, beside the plain copies of the driver, and through a pool");
  copy->fallthrough();
  copy->add_option("--least", options->least_copy, "The smallest copy")->capture_default_str()->type_name("BYTES");
  copy->add_option("--most", options->most_copy, "The largest copy (default: 4GiB, 16MiB with --quick)")
      ->type_name("BYTES");
  copy->add_option("--report", options->report_file, "Draw the curves into an HTML file")->type_name("FILE");
  copy->footer(
      "Sizes are powers of two from 4KiB to 64GiB. Of 'vmem bench' it also takes --input, --topology, --device, "
      "--seed, "
      "--samples, --json and --quick.\n"
      "Exit status: 0 all bytes were right, 1 some were not, 2 wrong usage, 3 something failed.");
  copy->callback([options] { options->copies = true; });
  bench->footer("Exit status: 0 all bytes were right, 1 some were not, 2 wrong usage, 3 something failed.");
  bench->callback([options, &exit_code] { exit_code = static_cast<int>(run_bench(*options, std::cout, std::cerr)); });
}

}  // namespace vmem
