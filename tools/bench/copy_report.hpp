// Curves of copies over their size, against the limit: an HTML page that needs nothing else.
#pragma once

#include <string>

#include "tools/bench/report.hpp"

namespace vmem {

// One chart for each kind of row and pair of devices that has more than one size.
std::string copy_report(const BenchReport& report);

}  // namespace vmem
