// Whether peer access that the driver announces really moves bytes: tried in a process of its own, since a wrong link
// may crash or hang whoever uses it, and kept until the machine starts again or the driver changes.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace vmem {

// One direction: the device `from` touches the memory of `to`. UUIDs are the devices'.
struct PeerPair {
  std::string from;
  std::string to;
  friend bool operator==(const PeerPair&, const PeerPair&) = default;
};

enum class PeerAnswer {
  kUnknown,  // not tried: the program can't run, or there was no time left
  kWorks,
  kWrong,  // other bytes arrived, or an error
  kCrashed,
  kHung
};
std::string_view to_string(PeerAnswer answer) noexcept;

struct PeerProbe {
  std::string program;  // vmem-probe-peers
  std::string driver_library;
  std::chrono::milliseconds timeout;  // for all pairs together; one that is silent for half of it hangs
};

// An answer for each pair. The program is started anew after a pair that ends it, so that pairs don't answer for each
// other.
std::vector<PeerAnswer> probe_peers(const PeerProbe& probe, const std::vector<PeerPair>& pairs);

// The program, where it is installed or built relative to the module that holds this code; empty where it is neither.
std::string find_probe_program();

// Answers of earlier runs. A file that can't be read or is of another boot or driver has none.
//
// Thread contract: any number of processes may load and store at once; the last store wins wholly.
class PeerCache {
 public:
  // `key` is what the answers hold for.
  PeerCache(std::string directory, std::string key) : directory_(std::move(directory)), key_(std::move(key)) {}
  static std::string make_key(const std::string& driver_version);

  std::vector<PeerAnswer> load(const std::vector<PeerPair>& pairs) const;
  // Keeps what is known. A failure to write is no harm: the next start tries again.
  void store(const std::vector<PeerPair>& pairs, const std::vector<PeerAnswer>& answers) const;

 private:
  std::string path() const { return directory_ + "/cuda-peers.txt"; }

  const std::string directory_;
  const std::string key_;
};

}  // namespace vmem
