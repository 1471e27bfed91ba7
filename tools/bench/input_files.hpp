// Real files as an endless run of bytes.
#pragma once

#include <vmem/status.hpp>

#include <cstddef>
#include <fstream>
#include <string>
#include <vector>

namespace vmem {

// Reads the files one after another, and again from the first when the last has ended.
class InputFiles {
 public:
  // Folders stand for the regular files in them, at any depth; links in a folder and empty files are passed over.
  // Errors: kInvalidValue (a path that is not there or can't be read, nothing but empty files).
  static Result<InputFiles> open(const std::vector<std::string>& paths);
  // The shared libraries that this process has mapped.
  static Result<InputFiles> open_own_libraries();

  // Fills `destination`. Errors: kIoError (a file that ends or fails while it is read).
  Status read(std::byte* destination, std::size_t bytes);
  // Goes back to the first byte of the first file.
  void rewind();

  std::size_t num_files() const noexcept { return files_.size(); }
  std::size_t total_bytes() const noexcept { return total_bytes_; }

 private:
  Status open_next();

  std::vector<std::string> files_;
  std::size_t total_bytes_ = 0;
  std::size_t next_ = 0;
  std::ifstream current_;
};

}  // namespace vmem
