// What a topology file says that does not fit the machine: a note, or under `strict` an error.
#pragma once

#include <vmem/status.hpp>
#include <vmem/topology.hpp>

#include <string>
#include <vector>

#include "runtime/topology/topology_file.hpp"

namespace vmem {

// A contradiction, whether strict or not.
inline Status file_error(const TopologyFile& file, std::size_t line, const std::string& text) {
  return Status(StatusCode::kConfigError,
                "topology file '" + file.path + "', line " + std::to_string(line) + ": " + text);
}

// Something about hardware that is not there; the entry is then ignored.
inline Status note_or_error(const TopologyFile& file, std::size_t line, const std::string& text,
                            std::vector<TopologyNote>& notes) {
  if (file.strict) return file_error(file, line, text);
  notes.push_back(
      {"", "topology file '" + file.path + "', line " + std::to_string(line) + ": " + text + "; the entry is ignored"});
  return Status::ok();
}

}  // namespace vmem
