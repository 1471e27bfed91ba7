// The double of the run-time compiler, as vmem's own code uses one.
#include <gtest/gtest.h>

#include "backends/cuda/nvrtc.hpp"
#include "backends/kernels/kernels.hpp"

namespace vmem {
namespace {

TEST(NvrtcDoubleTest, GivesTheSourceBackAsTheImage) {
  const auto compiler = Nvrtc::open(VMEM_NVRTC_DOUBLE, 13000);
  ASSERT_TRUE(compiler) << compiler.error().to_string();
  for (const KernelImage& kernel : builtin_kernels()) {
    const auto image = (*compiler)->compile(kernel.source, 9, 0);
    ASSERT_TRUE(image) << image.error().to_string();
    EXPECT_STREQ(image->c_str(), kernel.source);
  }
  const auto wrong = (*compiler)->compile("extern \"C\" __global__ void broken(int* out) {", 9, 0);
  EXPECT_EQ(wrong.error().code(), StatusCode::kInvalidValue);
  EXPECT_FALSE((*compiler)->compile("int x;", 9, 0));
}

}  // namespace
}  // namespace vmem
