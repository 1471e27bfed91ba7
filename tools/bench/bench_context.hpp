// What the parts of a run share, and how they time and report.
#pragma once

#include <vmem/runtime.hpp>
#include <vmem/status.hpp>

#include <functional>
#include <iosfwd>
#include <optional>

#include "tools/bench/input_files.hpp"
#include "tools/bench/progress.hpp"
#include "tools/bench/report.hpp"
#include "tools/bench/settings.hpp"
#include "tools/bench/verification.hpp"

namespace vmem {

struct BenchContext {
  Runtime& runtime;
  const BenchSettings& settings;
  const BenchPlan& plan;
  InputFiles& inputs;
  Progress& progress;
  std::ostream& table;
  BenchReport& report;
  // The first one. The parts stop when there is one: everything after it would differ too.
  std::optional<Mismatch> mismatch;

  const TopologyDevice& device(DeviceIndex index) const { return runtime.topology().devices()[index]; }
  bool pool_is_simulated() const;
  // Prints the row and keeps it.
  void add_row(BenchRow row);
  // The row of work on the pool's bytes by one device.
  BenchRow pool_row(std::string_view pattern, DeviceIndex device) const;
};

// One round of something; `round` 0 is the one that is not timed.
using BenchRound = std::function<Status(unsigned round)>;

// Times both in turn, round by round, into the row's samples and its reference's.
Status time_in_turn(BenchContext& context, BenchRow& row, const BenchRound& measured, const BenchRound& reference);

}  // namespace vmem
