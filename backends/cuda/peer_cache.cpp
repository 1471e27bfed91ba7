#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "backends/cuda/peer_probe.hpp"

namespace vmem {
namespace {

constexpr PeerAnswer kAnswers[] = {PeerAnswer::kUnknown, PeerAnswer::kWorks, PeerAnswer::kWrong, PeerAnswer::kCrashed,
                                   PeerAnswer::kHung};

PeerAnswer answer_named(std::string_view name) {
  const auto* const it = std::find_if(std::begin(kAnswers), std::end(kAnswers),
                                      [&](PeerAnswer answer) { return to_string(answer) == name; });
  return it != std::end(kAnswers) ? *it : PeerAnswer::kUnknown;
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

std::string_view to_string(PeerAnswer answer) noexcept {
  switch (answer) {
    case PeerAnswer::kWorks:
      return "works";
    case PeerAnswer::kWrong:
      return "wrong";
    case PeerAnswer::kCrashed:
      return "crashed";
    case PeerAnswer::kHung:
      return "hung";
    case PeerAnswer::kUnknown:
      break;
  }
  return "unknown";
}

std::string PeerCache::make_key(const std::string& driver_version) {
  // Settings of the IOMMU and of the bus, which decide about peers, change with a boot.
  return "vmem-peers 1; boot " + first_line("/proc/sys/kernel/random/boot_id") + "; " + driver_version;
}

std::vector<PeerAnswer> PeerCache::load(const std::vector<PeerPair>& pairs) const {
  std::vector<PeerAnswer> answers(pairs.size(), PeerAnswer::kUnknown);
  std::ifstream file(path());
  std::string line;
  if (!std::getline(file, line) || line != key_) return answers;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    PeerPair pair;
    std::string answer;
    fields >> pair.from >> pair.to >> answer;
    const auto it = std::find(pairs.begin(), pairs.end(), pair);
    if (it != pairs.end()) answers[static_cast<std::size_t>(it - pairs.begin())] = answer_named(answer);
  }
  return answers;
}

void PeerCache::store(const std::vector<PeerPair>& pairs, const std::vector<PeerAnswer>& answers) const {
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  const std::string unfinished = path() + "." + std::to_string(::getpid());
  {
    std::ofstream file(unfinished, std::ios::trunc);
    file << key_ << '\n';
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (answers[i] == PeerAnswer::kUnknown) continue;
      file << pairs[i].from << ' ' << pairs[i].to << ' ' << to_string(answers[i]) << '\n';
    }
    if (!file.flush()) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) std::filesystem::rename(unfinished, path(), error);
  if (error) std::filesystem::remove(unfinished, error);
}

}  // namespace vmem
