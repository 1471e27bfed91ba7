#include "tools/vmem/topo_command.hpp"

#include <vmem/runtime.hpp>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "tools/vmem/topo_table.hpp"

namespace vmem {
namespace {

constexpr int kUsage = 2;
constexpr int kFailure = 3;

struct TopoOptions {
  std::string topology_file;
  bool json = false;
  bool measure = false;
  bool remeasure = false;
};

int report(const Status& status) {
  std::cerr << "vmem topo: " << status.to_string() << '\n';
  return status.code() == StatusCode::kConfigError ? kUsage : kFailure;
}

// Free memory is asked of every device; one that fails is shown as unknown and named on standard error.
std::vector<MemoryInfo> ask_memory(const Runtime& runtime) {
  std::vector<MemoryInfo> memory;
  for (DeviceIndex i = 0; i < runtime.topology().devices().size(); ++i) {
    const auto info = runtime.device(i).memory_info();
    if (!info) std::cerr << "vmem topo: " << info.error().to_string() << '\n';
    memory.push_back(info.value_or(MemoryInfo{}));
  }
  return memory;
}

int run_topo(const TopoOptions& options) {
  RuntimeOptions settings;
  settings.topology_file = options.topology_file;
  const auto runtime = Runtime::create(settings);
  if (!runtime) return report(runtime.error());
  // Before the links are measured: that takes memory of its own.
  const std::vector<MemoryInfo> memory = ask_memory(**runtime);
  Topology topology = (*runtime)->topology();
  if (options.measure || options.remeasure) {
    std::cerr << "measuring the links ...\n";
    auto measured = (*runtime)->measure_links(!options.remeasure);
    if (!measured) return report(measured.error());
    topology = std::move(measured).value();
  }
  if (options.json) {
    std::cout << topology.to_json(memory);
  } else {
    print_topology(topology, memory, std::cout);
  }
  std::cout.flush();
  if (std::cout) return 0;
  std::cerr << "vmem topo: the output can't be written\n";
  return kFailure;
}

}  // namespace

void add_topo_command(CLI::App& app, int& exit_code) {
  // Shared with the callback, which runs after this function has returned.
  const auto options = std::make_shared<TopoOptions>();
  CLI::App* const topo =
      app.add_subcommand("topo", "Show devices with their memory, the routes between them, and what surprises");
  topo->add_option("--topology", options->topology_file, "Topology file (default: VMEM_TOPOLOGY)")->type_name("FILE");
  topo->add_flag("--json", options->json, "Print JSON instead of tables");
  topo->add_flag("--measure", options->measure,
                 "Measure the links under load, unless they have been on this machine with these drivers");
  topo->add_flag("--remeasure", options->remeasure, "Measure the links even if they have been");
  topo->footer("Exit status: 0 shown, 2 wrong usage or topology file, 3 something failed.");
  topo->callback([options, &exit_code] { exit_code = run_topo(*options); });
}

}  // namespace vmem
