#include "runtime/pool/fork_marker.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace vmem {
namespace {

// Runs `check` in a fork and answers with its result.
template <typename Check>
bool in_fork(Check check) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(check() ? 0 : 1);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(ForkMarkerTest, TheProcessThatMadeItIsNoChild) {
  const ForkMarker marker;
  EXPECT_FALSE(marker.in_child());
  EXPECT_TRUE(in_fork([] { return true; }));
  EXPECT_FALSE(marker.in_child());
}

TEST(ForkMarkerTest, AForkIsAChild) {
  const ForkMarker marker;
  EXPECT_TRUE(in_fork([&] { return marker.in_child(); }));
}

TEST(ForkMarkerTest, AMarkerMadeInTheChildIsItsOwn) {
  EXPECT_TRUE(in_fork([] {
    const ForkMarker marker;
    return !marker.in_child();
  }));
}

TEST(ForkMarkerTest, AGrandchildIsAChild) {
  const ForkMarker marker;
  EXPECT_TRUE(in_fork([&] { return in_fork([&] { return marker.in_child(); }); }));
}

}  // namespace
}  // namespace vmem
