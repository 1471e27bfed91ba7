#include "runtime/topology/file_io.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "runtime/support/unique_fd.hpp"

namespace vmem {
namespace {

Status file_error(StatusCode code, const std::string& path, const std::string& what, int error) {
  std::string message = "file '" + path + "': " + what;
  if (error != 0) message += ": " + std::generic_category().message(error);
  return Status(code, message);
}

Status write_all(int fd, std::string_view contents) {
  while (!contents.empty()) {
    const ssize_t written = ::write(fd, contents.data(), contents.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return Status(StatusCode::kIoError, std::generic_category().message(written < 0 ? errno : EIO));
    contents.remove_prefix(static_cast<std::size_t>(written));
  }
  return Status::ok();
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::size_t max_bytes) {
  // O_NONBLOCK: opening a pipe must not wait for its writer.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    const int error = errno;
    const bool absent = error == ENOENT || error == ENOTDIR;
    return file_error(absent ? StatusCode::kNotFound : StatusCode::kIoError, path, "can't be opened", error);
  }
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) return file_error(StatusCode::kIoError, path, "can't be examined", errno);
  if (!S_ISREG(status.st_mode)) {
    return file_error(StatusCode::kIoError, path, "is no regular file; expected a file with text", 0);
  }
  std::string contents;
  // To the end of file, not by st_size: files of sysfs claim a page and hold a few characters.
  char part[16384];
  for (;;) {
    const ssize_t got = ::read(fd.get(), part, sizeof(part));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error(StatusCode::kIoError, path, "can't be read", errno);
    if (got == 0) return contents;
    contents.append(part, static_cast<std::size_t>(got));
    if (contents.size() > max_bytes) {
      return file_error(StatusCode::kIoError, path,
                        "is longer than the allowed " + std::to_string(max_bytes) + " bytes", 0);
    }
  }
}

Status replace_file(const std::string& path, std::string_view contents) {
  const std::filesystem::path target(path);
  std::error_code ignored;  // what stands in the way shows when the file is made
  if (target.has_parent_path()) std::filesystem::create_directories(target.parent_path(), ignored);
  std::string temporary = path + ".XXXXXX";
  UniqueFd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd) return file_error(StatusCode::kIoError, temporary, "can't be made", errno);
  Status status = write_all(fd.get(), contents);
  // Without this a crash soon after the rename may leave an empty file under the new name.
  if (status && ::fsync(fd.get()) != 0) status = Status(StatusCode::kIoError, std::generic_category().message(errno));
  fd.reset();
  if (status && ::rename(temporary.c_str(), path.c_str()) != 0) {
    status = Status(StatusCode::kIoError, std::generic_category().message(errno));
  }
  if (status) return status;
  ::unlink(temporary.c_str());
  return file_error(StatusCode::kIoError, path, "can't be written: " + std::string(status.message()), 0);
}

}  // namespace vmem
