// A process that holds a backend ends well, whatever is destroyed first, with a driver that aborts on late calls.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace vmem {
namespace {

class CudaExitTest : public ::testing::TestWithParam<const char*> {};

TEST_P(CudaExitTest, EndsWellEveryTime) {
  // Only the part that matters here: peers are tried in processes of their own, kernels take a compiler.
  const std::string environment = "VMEM_CUDA_LIBRARY=" VMEM_CUDA_DOUBLE
                                  " VMEM_NVRTC_LIBRARY=/nowhere VMEM_DOUBLE_PEER=absent VMEM_DOUBLE_CAPACITY=64MiB"
                                  " VMEM_DOUBLE_LATE_CALLS=abort ";
  const std::string command = environment + VMEM_EXIT_PROGRAM + " " + VMEM_CUDA_MODULE + " " + GetParam();
  for (int run = 0; run < 15; ++run) EXPECT_EQ(std::system(command.c_str()), 0) << command << ", run " << run;
}

INSTANTIATE_TEST_SUITE_P(Holder, CudaExitTest,
                         ::testing::Values("main", "static-before", "static-after", "atexit-before", "atexit-after",
                                           "thread-local", "nobody", "exit"),
                         [](const auto& chosen) {
                           std::string name = chosen.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace vmem
