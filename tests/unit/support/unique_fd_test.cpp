#include "runtime/support/unique_fd.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <utility>

namespace vmem {
namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

class UniqueFdTest : public testing::Test {
 protected:
  static int open_one() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }
};

TEST_F(UniqueFdTest, ClosesAtTheEndOfItsScope) {
  const int fd = open_one();
  {
    const UniqueFd owner(fd);
    EXPECT_TRUE(owner);
    EXPECT_TRUE(is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
}

TEST_F(UniqueFdTest, MovesItsDescriptor) {
  const int first = open_one();
  const int second = open_one();
  UniqueFd a(first);
  UniqueFd b(second);
  b = std::move(a);
  EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(b.get(), first);
  EXPECT_FALSE(is_open(second));
  const UniqueFd c(std::move(b));
  EXPECT_EQ(c.get(), first);
  EXPECT_TRUE(is_open(first));
}

TEST_F(UniqueFdTest, ReleasesWithoutClosing) {
  const int fd = open_one();
  UniqueFd owner(fd);
  EXPECT_EQ(owner.release(), fd);
  EXPECT_FALSE(owner);
  EXPECT_TRUE(is_open(fd));
  ::close(fd);
}

TEST_F(UniqueFdTest, StartsEmpty) {
  UniqueFd owner;
  EXPECT_FALSE(owner);
  EXPECT_EQ(owner.get(), -1);
  owner.reset();
}

}  // namespace
}  // namespace vmem
