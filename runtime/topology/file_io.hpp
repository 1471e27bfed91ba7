// Whole small files: read with a bound, replaced at once.
#pragma once

#include <vmem/status.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace vmem {

// kNotFound where there is no such file; kIoError for a directory, an unreadable file or one longer than `max_bytes`.
// Regular files only: a pipe or a device could block for ever.
Result<std::string> read_file(const std::string& path, std::size_t max_bytes);

// Readers see the old contents or the new, never a part, also when several processes write at once. Makes missing
// folders.
Status replace_file(const std::string& path, std::string_view contents);

}  // namespace vmem
