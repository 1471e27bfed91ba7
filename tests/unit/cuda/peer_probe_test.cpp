// What is made of the probing program's answers, its crashes and its silence. The program is a script here.
#include "backends/cuda/peer_probe.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace vmem {
namespace {

using namespace std::chrono_literals;
using Answers = std::vector<PeerAnswer>;

const std::vector<PeerPair> kPairs = {{"a", "b"}, {"b", "a"}, {"a", "c"}};

class PeerProbeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "vmem-peers-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // For each pair of its arguments the script does what `body` says; $1 and $2 are the pair.
  PeerProbe probe_with(const std::string& body, std::chrono::milliseconds timeout = 20s) {
    const std::string path = folder_ / "probe";
    std::ofstream(path) << "#!/bin/sh\necho \"$@\" >> " << (folder_ / "calls").string()
                        << "\nshift\nwhile [ $# -gt 0 ]; do\necho begin\n"
                        << body << "\nshift 2\ndone\n";
    ::chmod(path.c_str(), 0700);
    return {path, "driver.so", timeout};
  }
  std::string calls() const {
    std::ifstream file(folder_ / "calls");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::filesystem::path folder_;
};

TEST_F(PeerProbeTest, AsksForAllPairsInOneRun) {
  EXPECT_EQ(probe_peers(probe_with("echo works"), kPairs),
            (Answers{PeerAnswer::kWorks, PeerAnswer::kWorks, PeerAnswer::kWorks}));
  EXPECT_EQ(calls(), "driver.so a b b a a c\n");
}

TEST_F(PeerProbeTest, TellsDirectionsApart) {
  EXPECT_EQ(probe_peers(probe_with("case $1$2 in ab) echo wrong;; ba) echo works;; *) echo unknown;; esac"), kPairs),
            (Answers{PeerAnswer::kWrong, PeerAnswer::kWorks, PeerAnswer::kUnknown}));
}

TEST_F(PeerProbeTest, GoesOnAfterAPairThatCrashes) {
  EXPECT_EQ(probe_peers(probe_with("case $1$2 in ba) kill -SEGV $$;; *) echo works;; esac"), kPairs),
            (Answers{PeerAnswer::kWorks, PeerAnswer::kCrashed, PeerAnswer::kWorks}));
  EXPECT_EQ(calls(), "driver.so a b b a a c\ndriver.so a c\n");
}

TEST_F(PeerProbeTest, GoesOnAfterAPairThatHangs) {
  EXPECT_EQ(probe_peers(probe_with("case $1$2 in ab) exec sleep 1000;; *) echo works;; esac", 2s), kPairs),
            (Answers{PeerAnswer::kHung, PeerAnswer::kWorks, PeerAnswer::kWorks}));
}

TEST_F(PeerProbeTest, EndsInTimeWhereEveryPairHangs) {
  EXPECT_EQ(probe_peers(probe_with("exec sleep 1000", 1s), kPairs)[2], PeerAnswer::kUnknown);
}

TEST_F(PeerProbeTest, KnowsNothingWhereTheProgramDoesNotRun) {
  const Answers unknown(3, PeerAnswer::kUnknown);
  EXPECT_EQ(probe_peers({(folder_ / "none").string(), "driver.so", 20s}, kPairs), unknown);
  EXPECT_EQ(probe_peers({"/bin/false", "driver.so", 20s}, kPairs), unknown);
  EXPECT_EQ(probe_peers({"/bin/true", "driver.so", 20s}, kPairs), unknown);
}

TEST_F(PeerProbeTest, RunsWithoutThePreload) {
  ::setenv("LD_PRELOAD", "", 1);
  EXPECT_EQ(probe_peers(probe_with("[ -z \"${LD_PRELOAD+set}\" ] && echo works || echo wrong"), kPairs),
            Answers(3, PeerAnswer::kWorks));
  ::unsetenv("LD_PRELOAD");
}

TEST_F(PeerProbeTest, KeepsAnswersForTheSameDriver) {
  const Answers answers{PeerAnswer::kWorks, PeerAnswer::kHung, PeerAnswer::kUnknown};
  const std::string folder = folder_ / "new" / "folder";
  PeerCache(folder, "key").store(kPairs, answers);
  EXPECT_EQ(PeerCache(folder, "key").load(kPairs), answers);
  const std::vector<PeerPair> others = {{"b", "a"}, {"x", "y"}};
  EXPECT_EQ(PeerCache(folder, "key").load(others), (Answers{PeerAnswer::kHung, PeerAnswer::kUnknown}));
  EXPECT_EQ(PeerCache(folder, "another key").load(kPairs), Answers(3, PeerAnswer::kUnknown));
  std::ofstream(folder + "/cuda-peers.txt") << "key\na b\n\x01\x02\na c nonsense\n";
  EXPECT_EQ(PeerCache(folder, "key").load(kPairs), Answers(3, PeerAnswer::kUnknown));
  EXPECT_NE(PeerCache::make_key("CUDA 12.4"), PeerCache::make_key("CUDA 13.0"));
}

TEST_F(PeerProbeTest, DoesWithoutACacheThatCannotBeWritten) {
  std::ofstream(folder_ / "file") << "";
  PeerCache((folder_ / "file").string(), "key").store(kPairs, Answers(3, PeerAnswer::kWorks));
  EXPECT_EQ(PeerCache((folder_ / "file").string(), "key").load(kPairs), Answers(3, PeerAnswer::kUnknown));
}

}  // namespace
}  // namespace vmem
