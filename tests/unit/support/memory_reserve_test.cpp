#include "runtime/support/memory_reserve.hpp"

#include <gtest/gtest.h>

#include <new>

namespace vmem {
namespace {

TEST(MemoryReserveTest, AStepThatFindsMemoryRunsOnce) {
  MemoryReserve reserve;
  int runs = 0;
  reserve.finish([&] { ++runs; });
  EXPECT_EQ(runs, 1);
}

TEST(MemoryReserveTest, AStepThatFindsNoneRunsAgainOnWhatIsKept) {
  MemoryReserve reserve;
  for (int round = 0; round < 10; ++round) {  // what was given is kept again afterwards
    int runs = 0;
    reserve.finish([&] {
      if (++runs < 4) throw std::bad_alloc();
    });
    EXPECT_EQ(runs, 4);
  }
}

TEST(MemoryReserveDeathTest, WithoutAnyMemoryTheProcessEnds) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(MemoryReserve().finish([] { throw std::bad_alloc(); }), "kHostMemoryIsLeft");
}

}  // namespace
}  // namespace vmem
