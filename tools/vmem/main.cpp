// The vmem command.
#include <vmem/version.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <string>

#include "tools/vmem/bench_command.hpp"
#include "tools/vmem/topo_command.hpp"
#include "vmem_commit.hpp"

namespace {

constexpr int kUsage = 2;
constexpr int kFailure = 3;

std::string command_line(int count, char** arguments) {
  std::string text = "vmem";
  for (int i = 1; i < count; ++i) text += std::string(" ") + arguments[i];
  return text;
}

int run(int count, char** arguments) {
  CLI::App app("One pool of GPU and host memory of mixed vendors", "vmem");
  app.set_version_flag("--version", "vmem " VMEM_VERSION_STRING " (" VMEM_COMMIT ")");
  app.require_subcommand(1);
  app.footer("'vmem COMMAND --help' tells more.");
  int exit_code = 0;
  vmem::add_topo_command(app, exit_code);
  vmem::add_bench_command(app, command_line(count, arguments), exit_code);
  try {
    app.parse(count, arguments);
  } catch (const CLI::RequiredError& error) {
    // CLI11 says that a command is missing, but not that what stands in its place is none.
    const std::string first = count > 1 ? arguments[1] : "";
    if (app.get_subcommands().empty() && !first.empty() && first[0] != '-') {
      std::cerr << "vmem: unknown command '" << first << "'; 'vmem --help' lists them\n";
      return kUsage;
    }
    app.exit(error);
    return kUsage;
  } catch (const CLI::ParseError& error) {
    // Help and version are told this way too, and are no errors.
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  return exit_code;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return run(count, arguments);
  } catch (const std::exception& error) {
    std::cerr << "vmem: " << error.what() << '\n';
    return kFailure;
  }
}
