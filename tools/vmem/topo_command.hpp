// `vmem topo`.
#pragma once

namespace CLI {
class App;
}

namespace vmem {

// Adds the subcommand. What it exits with is put into `exit_code` when the command line asks for it.
void add_topo_command(CLI::App& app, int& exit_code);

}  // namespace vmem
