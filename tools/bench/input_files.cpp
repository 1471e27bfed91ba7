#include "tools/bench/input_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

namespace vmem {
namespace {

namespace fs = std::filesystem;

bool is_readable(const fs::path& path) { return std::ifstream(path, std::ios::binary).is_open(); }

// Files below a folder, in the order of their names, so that a seed means the same bytes on every run.
Status list_folder(const fs::path& folder, std::vector<fs::path>& files) {
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error);
  if (error) {
    return Status(StatusCode::kInvalidValue, fmt::format("input '{}': {}", folder.string(), error.message()));
  }
  std::vector<fs::path> found;
  for (const fs::recursive_directory_iterator end; entry != end; entry.increment(error)) {
    if (error) break;
    if (!entry->is_symlink(error) && entry->is_regular_file(error) && is_readable(entry->path())) {
      found.push_back(entry->path());
    }
  }
  std::sort(found.begin(), found.end());
  files.insert(files.end(), found.begin(), found.end());
  return {};
}

}  // namespace

Result<InputFiles> InputFiles::open(const std::vector<std::string>& paths) {
  std::vector<fs::path> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (fs::is_directory(path, error)) {
      VMEM_RETURN_IF_ERROR(list_folder(path, files));
    } else if (!fs::exists(path, error)) {
      return Status(StatusCode::kInvalidValue, fmt::format("input '{}': no such file or folder", path));
    } else if (!fs::is_regular_file(path, error) || !is_readable(path)) {
      return Status(StatusCode::kInvalidValue, fmt::format("input '{}': not a file that can be read", path));
    } else {
      files.emplace_back(path);
    }
  }
  InputFiles inputs;
  for (const fs::path& file : files) {
    std::error_code error;
    const auto bytes = fs::file_size(file, error);
    if (error || bytes == 0) continue;
    inputs.files_.push_back(file.string());
    inputs.total_bytes_ += bytes;
  }
  if (inputs.files_.empty()) {
    return Status(StatusCode::kInvalidValue,
                  fmt::format("the inputs hold no bytes: {} path(s), no file that is not empty", paths.size()));
  }
  return inputs;
}

Result<InputFiles> InputFiles::open_own_libraries() {
  std::set<std::string> paths;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t path = line.find('/');
    std::error_code error;
    if (path == std::string::npos || line.find(".so", path) == std::string::npos) continue;
    if (fs::is_regular_file(line.substr(path), error)) paths.insert(line.substr(path));
  }
  return open({paths.begin(), paths.end()});
}

Status InputFiles::open_next() {
  const std::string& path = files_[next_];
  next_ = (next_ + 1) % files_.size();
  current_ = std::ifstream(path, std::ios::binary);
  if (!current_.is_open())
    return Status(StatusCode::kIoError, fmt::format("input '{}': can't be opened any more", path));
  return {};
}

Status InputFiles::read(std::byte* destination, std::size_t bytes) {
  std::size_t empty_in_a_row = 0;
  while (bytes > 0) {
    if (!current_.is_open()) VMEM_RETURN_IF_ERROR(open_next());
    current_.read(reinterpret_cast<char*>(destination), static_cast<std::streamsize>(bytes));
    const auto got = static_cast<std::size_t>(current_.gcount());
    if (current_.bad()) return Status(StatusCode::kIoError, "an input file could not be read");
    if (got < bytes) current_.close();
    // Files may shrink between the count and the read; all of them at once would make this loop endless.
    empty_in_a_row = got == 0 ? empty_in_a_row + 1 : 0;
    if (empty_in_a_row > files_.size()) return Status(StatusCode::kIoError, "all input files are empty by now");
    destination += got;
    bytes -= got;
  }
  return {};
}

void InputFiles::rewind() {
  next_ = 0;
  current_.close();
}

}  // namespace vmem
