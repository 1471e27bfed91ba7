// `vmem bench`.
#pragma once

#include <memory>
#include <string>

namespace CLI {
class App;
}

namespace vmem {

// Adds the subcommand. What it exits with is put into `exit_code` when the command line asks for it; `command` is what
// was typed.
void add_bench_command(CLI::App& app, const std::string& command, int& exit_code);

}  // namespace vmem
