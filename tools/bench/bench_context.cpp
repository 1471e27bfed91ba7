#include "tools/bench/bench_context.hpp"

#include <algorithm>
#include <ostream>
#include <utility>

#include "tools/bench/samples.hpp"

namespace vmem {

bool BenchContext::pool_is_simulated() const {
  const auto& devices = runtime.topology().devices();
  return std::any_of(devices.begin(), devices.end(),
                     [](const TopologyDevice& device) { return device.info.simulated; });
}

void BenchContext::add_row(BenchRow row) {
  progress.clear();
  if (report.rows.empty()) table << table_header();
  table << table_line(row) << std::flush;
  report.rows.push_back(std::move(row));
}

BenchRow BenchContext::pool_row(std::string_view pattern, DeviceIndex index) const {
  BenchRow row;
  row.pattern = pattern;
  row.from = "pool";
  row.to = device(index).info.name;
  row.name = row.pattern + " on " + row.to;
  // A real device's figure, too, depends on the simulated ones that hold the rest of the bytes.
  row.simulated = pool_is_simulated();
  return row;
}

Status time_in_turn(BenchContext& context, BenchRow& row, const BenchRound& measured, const BenchRound& reference) {
  context.progress.start(row.name);
  const unsigned rounds = context.settings.samples + 1;
  for (unsigned round = 0; round < rounds; ++round) {
    const Stopwatch measured_time;
    VMEM_RETURN_IF_ERROR(measured(round));
    const double measured_seconds = measured_time.seconds();
    const Stopwatch reference_time;
    VMEM_RETURN_IF_ERROR(reference(round));
    const double reference_seconds = reference_time.seconds();
    if (round > 0) {
      row.samples.push_back(measured_seconds);
      row.reference.samples.push_back(reference_seconds);
    }
    context.progress.update(round + 1, rounds);
  }
  return {};
}

}  // namespace vmem
