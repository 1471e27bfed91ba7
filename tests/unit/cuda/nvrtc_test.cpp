#include "backends/cuda/nvrtc.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "backends/kernels/kernels.hpp"

namespace vmem {
namespace {

TEST(NvrtcTest, SaysThatThereIsNone) {
  const auto compiler = Nvrtc::open("/nowhere/libnvrtc.so", 13000);
  ASSERT_FALSE(compiler);
  EXPECT_EQ(compiler.error().code(), StatusCode::kUnsupported);
}

// Where a compiler is installed it must take all of vmem's kernels; elsewhere it must say what is missing.
TEST(NvrtcTest, CompilesTheBuiltInKernels) {
  auto compiler = Nvrtc::open("", 13000);
  if (!compiler) {
    EXPECT_NE(compiler.error().message().find("libnvrtc"), std::string_view::npos);
    return;
  }
  for (const KernelImage& kernel : builtin_kernels()) {
    const auto image = (*compiler)->compile(kernel.source, 9, 0);
    ASSERT_TRUE(image) << image.error().to_string();
    EXPECT_EQ(image->compare(0, 4,
                             "\x7f"
                             "ELF"),
              0)
        << "machine code for an architecture that it knows";
    EXPECT_NE(image->find(kernel.name), std::string::npos);
  }
  // 9.9 is none that any compiler knows: PTX of the one before serves it.
  const auto image = (*compiler)->compile(builtin_kernels()[0].source, 9, 9);
  ASSERT_TRUE(image) << image.error().to_string();
  EXPECT_NE(image->find(".target sm_90"), std::string::npos);
  EXPECT_EQ((*compiler)->compile(builtin_kernels()[0].source, 1, 0).error().code(), StatusCode::kUnsupported);
  const auto wrong = (*compiler)->compile("extern \"C\" __global__ void broken(int* out) { out[0] = nothing; }", 9, 0);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code(), StatusCode::kInvalidValue);
  EXPECT_NE(wrong.error().message().find("nothing"), std::string_view::npos) << "the compiler's own words";
}

}  // namespace
}  // namespace vmem
