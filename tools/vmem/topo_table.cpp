#include "tools/vmem/topo_table.hpp"

#include <algorithm>
#include <array>
#include <iomanip>
#include <sstream>
#include <string>
#include <utility>

namespace vmem {
namespace {

// What the routes are chosen for: large enough that bandwidth decides.
constexpr std::size_t kRouteBytes = 64_MiB;
// Beyond this many the list of indirect routes helps nobody; --json has them all.
constexpr std::size_t kMostRoutesListed = 24;

using Row = std::vector<std::string>;

// Names come from drivers: a control character must not reach the terminal.
std::string printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  return text;
}

std::string one_decimal(double value) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << value;
  return text.str();
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // 1023.95 and above would print as 1024.0 of the smaller unit.
  for (; value >= 1023.95 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return (unit == 0 ? std::to_string(bytes) : one_decimal(value)) + ' ' + kUnits.at(unit);
}

std::string gigabytes(double bytes_per_second) { return one_decimal(bytes_per_second / 1e9); }

// Columns as wide as their longest cell; those of `right` are flush right.
void print_table(const std::vector<Row>& rows, const std::vector<bool>& right, std::ostream& out) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      const bool flush_right = i < right.size() && right[i];
      line += "  " + (flush_right ? padding + row[i] : row[i] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  }
}

std::string kind_of(const DeviceInfo& info) {
  switch (info.tier) {
    case Tier::kDevice:
      return info.simulated ? "simulated GPU" : "GPU";
    case Tier::kHost:
      return "host memory";
    case Tier::kStorage:
      return "storage";
    case Tier::kRemote:
      return "remote";
  }
  return "unknown";
}

std::string slot_of(const TopologyDevice& device) {
  if (!device.link_width) return device.info.tier == Tier::kDevice && !device.info.simulated ? "unknown" : "-";
  std::string text = "x" + std::to_string(*device.link_width);
  if (device.link_width_max && *device.link_width_max != *device.link_width) {
    text += " of x" + std::to_string(*device.link_width_max);
  }
  if (device.link_gts) text += ", " + one_decimal(*device.link_gts) + " GT/s";
  return text;
}

void print_devices(const Topology& topology, const std::vector<MemoryInfo>& memory, std::ostream& out) {
  std::vector<Row> rows = {{"DEVICE", "KIND", "MODEL", "TOTAL", "FREE", "LIMIT", "NUMA", "PCIE"}};
  for (DeviceIndex i = 0; i < topology.devices().size(); ++i) {
    const TopologyDevice& device = topology.devices()[i];
    const bool known = i < memory.size() && memory[i].total_bytes != 0;
    rows.push_back({printable(device.info.name), kind_of(device.info), printable(device.info.model),
                    bytes_text(device.info.total_bytes), known ? bytes_text(memory[i].free_bytes) : "unknown",
                    bytes_text(device.limit_bytes),
                    device.info.numa_node ? std::to_string(*device.info.numa_node) : "unknown", slot_of(device)});
  }
  out << "Devices\n";
  print_table(rows, {false, false, false, true, true, true, true, false}, out);
}

// Whether somebody measured or said every figure of the route.
bool is_known(const Topology& topology, const Route& route) {
  for (std::size_t hop = 0; hop + 1 < route.devices.size(); ++hop) {
    const Link* link = topology.link(route.devices[hop], route.devices[hop + 1]);
    if (link == nullptr || link->source < LinkSource::kMeasured) return false;
  }
  return true;
}

std::string way_of(const Topology& topology, const Route& route) {
  std::string text;
  for (const DeviceIndex index : route.devices) {
    text += (text.empty() ? "" : " -> ") + printable(topology.devices()[index].info.name);
  }
  return text;
}

std::string microseconds(std::chrono::nanoseconds latency) {
  return one_decimal(std::chrono::duration<double, std::micro>(latency).count()) + " us";
}

// What the marks in the matrix mean; only those that occur are explained.
struct Marks {
  bool estimate = false;
  bool peer = false;
  bool indirect = false;
  bool forced = false;
};

std::string cell_of(const Topology& topology, const Route& route, Marks& marks) {
  std::string text = gigabytes(route.bytes_per_second);
  const auto mark = [&](bool holds, bool& seen, char sign) {
    if (holds) text += sign;
    seen = seen || holds;
  };
  const Link* direct = route.devices.size() == 2 ? topology.link(route.devices[0], route.devices[1]) : nullptr;
  mark(!is_known(topology, route), marks.estimate, '~');
  mark(direct != nullptr && direct->peer, marks.peer, 'p');
  mark(direct == nullptr, marks.indirect, '+');
  mark(route.forced, marks.forced, '!');
  return text;
}

void print_marks(const Marks& marks, std::ostream& out) {
  const std::array<std::pair<bool, const char*>, 4> explained = {
      {{marks.estimate, "~ not measured: an estimate (vmem topo --measure measures the links)"},
       {marks.peer, "p straight between the GPUs"},
       {marks.indirect, "+ through other devices"},
       {marks.forced, "! forced by the topology file"}}};
  for (const auto& [seen, text] : explained) {
    if (seen) out << "  " << text << '\n';
  }
}

void print_routes(const Topology& topology, std::ostream& out) {
  const std::size_t count = topology.devices().size();
  if (count < 2) return;
  std::vector<Row> rows(1, Row{"FROM \\ TO"});
  std::vector<bool> right = {false};
  std::vector<Row> indirect;
  Marks marks;
  for (DeviceIndex from = 0; from < count; ++from) {
    const std::string name = printable(topology.devices()[from].info.name);
    rows.front().push_back(name);
    right.push_back(true);
    Row row = {name};
    for (DeviceIndex to = 0; to < count; ++to) {
      const auto route = topology.route(from, to, kRouteBytes);
      if (from == to) {
        row.push_back("-");
      } else if (!route) {
        row.push_back("none");
      } else {
        row.push_back(cell_of(topology, *route, marks));
        if (route->devices.size() > 2) {
          indirect.push_back(
              {way_of(topology, *route), gigabytes(route->bytes_per_second) + " GB/s", microseconds(route->latency)});
        }
      }
    }
    rows.push_back(std::move(row));
  }
  out << "\nRoutes, GB/s for copies of " << bytes_text(kRouteBytes) << '\n';
  print_table(rows, right, out);
  print_marks(marks, out);
  if (indirect.empty()) return;
  const std::size_t hidden = indirect.size() - std::min(indirect.size(), kMostRoutesListed);
  indirect.resize(indirect.size() - hidden);
  out << "\nWays through other devices\n";
  print_table(indirect, {false, true, true}, out);
  if (hidden > 0) out << "  and " << hidden << " more (--json has all)\n";
}

}  // namespace

void print_topology(const Topology& topology, const std::vector<MemoryInfo>& memory, std::ostream& out) {
  print_devices(topology, memory, out);
  print_routes(topology, out);
  if (!topology.absent_backends().empty()) {
    std::vector<Row> rows;
    for (const AbsentBackend& backend : topology.absent_backends()) {
      rows.push_back({printable(backend.name), printable(backend.reason)});
    }
    out << "\nAbsent backends\n";
    print_table(rows, {}, out);
  }
  if (topology.notes().empty()) return;
  out << "\nNotes\n";
  for (const TopologyNote& note : topology.notes()) {
    out << "  " << (note.device.empty() ? "" : printable(note.device) + ": ") << printable(note.text) << '\n';
  }
}

}  // namespace vmem
