// Prints a line for each file: "ok", or the parser's error.
#include <cstdio>

#include "runtime/topology/topology_file.hpp"

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const auto file = vmem::read_topology_file(argv[i]);
    std::printf("%s\n", file ? "ok" : file.error().to_string().c_str());
  }
  return 0;
}
