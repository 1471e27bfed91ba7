#include "backends/cuda/peer_probe.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>

#include "runtime/support/unique_fd.hpp"

extern char** environ;

namespace vmem {
namespace {

using Clock = std::chrono::steady_clock;

// A process that was started, until it is known to have ended or is given up.
class Child {
 public:
  explicit Child(pid_t id) : id_(id) {}
  ~Child() {
    if (id_ > 0) end();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Kills it if need be. One that can't be killed (it waits for the hardware) is left to itself after a second.
  void end() {
    ::kill(id_, SIGKILL);
    for (int i = 0; i < 1000; ++i) {
      const pid_t ended = ::waitpid(id_, nullptr, WNOHANG);
      // The application may have collected it: a signal handler of its own does so.
      if (ended == id_ || (ended < 0 && errno == ECHILD)) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    id_ = -1;
  }

 private:
  pid_t id_;
};

// The caller's environment without what would put libraries into the program.
std::vector<char*> child_environment() {
  std::vector<char*> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, "LD_PRELOAD=", 11) != 0) variables.push_back(*variable);
  }
  variables.push_back(nullptr);
  return variables;
}

class SpawnActions {
 public:
  explicit SpawnActions(int output) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    ::posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 34)
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
#endif
#endif
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnActions() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

std::optional<pid_t> spawn(const PeerProbe& probe, const std::vector<PeerPair>& pairs, int output) {
  std::vector<std::string> arguments{probe.program, probe.driver_library};
  for (const PeerPair& pair : pairs) {
    arguments.push_back(pair.from);
    arguments.push_back(pair.to);
  }
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  std::vector<char*> variables = child_environment();
  const SpawnActions how(output);
  pid_t id = -1;
  if (::posix_spawn(&id, probe.program.c_str(), how.actions(), how.attributes(), pointers.data(), variables.data()) !=
      0) {
    return std::nullopt;
  }
  return id;
}

// What one run of the program said. It prints a line "begin" before each pair and an answer after it.
struct Said {
  std::vector<PeerAnswer> answers;
  bool begun = false;   // one more pair, without an answer
  bool silent = false;  // the end came by time
};

Said listen(int from, Clock::time_point deadline, std::chrono::milliseconds silence) {
  Said said;
  std::string line;
  for (;;) {
    const auto until = std::min(deadline, Clock::now() + silence);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd ready{from, POLLIN, 0};
    const int count = ::poll(&ready, 1, static_cast<int>(std::max<long>(0, left)));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return said.silent = true, said;
    char text[256];
    const ssize_t bytes = ::read(from, text, sizeof text);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return said;
    for (const char c : std::string_view(text, static_cast<std::size_t>(bytes))) {
      if (c != '\n') {
        line += c;
        continue;
      }
      said.begun = line == "begin";
      if (line == "works") said.answers.push_back(PeerAnswer::kWorks);
      if (line == "wrong") said.answers.push_back(PeerAnswer::kWrong);
      if (line == "unknown") said.answers.push_back(PeerAnswer::kUnknown);
      line.clear();
    }
  }
}

std::filesystem::path module_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&find_probe_program), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code error;
  const auto module = std::filesystem::canonical(info.dli_fname, error);
  return error ? std::filesystem::path() : module.parent_path();
}

}  // namespace

std::vector<PeerAnswer> probe_peers(const PeerProbe& probe, const std::vector<PeerPair>& pairs) {
  std::vector<PeerAnswer> answers;
  const auto deadline = Clock::now() + probe.timeout;
  while (answers.size() < pairs.size() && Clock::now() < deadline) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) break;
    const UniqueFd output(ends[0]);
    UniqueFd input(ends[1]);
    const auto first = pairs.begin() + static_cast<std::ptrdiff_t>(answers.size());
    const auto id = spawn(probe, {first, pairs.end()}, input.get());
    if (!id) break;
    Child child(*id);
    input.reset();
    const Said said = listen(output.get(), deadline, probe.timeout / 2);
    child.end();
    answers.insert(answers.end(), said.answers.begin(), said.answers.end());
    if (answers.size() >= pairs.size()) break;
    // Without a pair begun, the program itself does not run here.
    if (!said.begun) break;
    answers.push_back(said.silent ? PeerAnswer::kHung : PeerAnswer::kCrashed);
  }
  answers.resize(pairs.size(), PeerAnswer::kUnknown);
  return answers;
}

std::string find_probe_program() {
  const std::filesystem::path folder = module_folder();
  if (folder.empty()) return {};
  for (const char* const place : {VMEM_CUDA_PROBE_INSTALLED, VMEM_CUDA_PROBE_BUILT}) {
    const auto program = (folder / place).lexically_normal();
    if (::access(program.c_str(), X_OK) == 0) return program.string();
  }
  return {};
}

}  // namespace vmem
