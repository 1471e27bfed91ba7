// Formatting of messages, for the sources of every stage: `format("{} of {}", ...)`, `join(range, ", ")`. Not for
// headers.
#pragma once

#include <fmt/format.h>

namespace vmem {

using fmt::format;
using fmt::join;

}  // namespace vmem
