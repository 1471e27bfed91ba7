#include "runtime/memory/window.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "runtime/memory/frame_store.hpp"
#include "tests/unit/memory/fake_device.hpp"

namespace vmem {
namespace {

using test::FakeDevice;

class WindowTest : public testing::Test {
 protected:
  Frame take(std::size_t bytes) {
    EXPECT_TRUE(store_->reserve(bytes));
    return std::move(store_->allocate(bytes)).value();
  }

  FakeDevice device_{{.total_bytes = 256_MiB}};
  std::unique_ptr<FrameStore> store_ =
      std::move(FrameStore::create(device_, {.limit_bytes = 128_MiB, .block_bytes = 8_MiB})).value();
};

TEST_F(WindowTest, MapsFramesAtTheirOffsets) {
  auto window = Window::create(device_, 20_MiB + 1);
  ASSERT_TRUE(window);
  EXPECT_EQ(window->bytes(), 22_MiB);
  const Frame a = take(8_MiB);
  const Frame b = take(1);
  EXPECT_TRUE(window->map(8_MiB, a));
  EXPECT_TRUE(window->map(20_MiB, b));
  EXPECT_EQ(device_.num_mappings(), 2U);
  EXPECT_TRUE(window->unmap(8_MiB, a.bytes()));
  EXPECT_TRUE(window->unmap(20_MiB, b.bytes()));
  EXPECT_TRUE(window->release());
  EXPECT_FALSE(*window);
  EXPECT_EQ(device_.num_windows(), 0U);
}

TEST_F(WindowTest, RefusesPlacesOutsideOrBetweenGranules) {
  auto window = Window::create(device_, 8_MiB);
  ASSERT_TRUE(window);
  const Frame frame = take(4_MiB);
  const std::size_t most = std::numeric_limits<std::size_t>::max();
  for (const std::size_t offset : {std::size_t{4096}, 6_MiB, 8_MiB, 10_MiB, most - 2_MiB + 1}) {
    EXPECT_EQ(window->map(offset, frame).code(), StatusCode::kInvalidValue) << offset;
    EXPECT_EQ(window->unmap(offset, 4_MiB).code(), StatusCode::kInvalidValue) << offset;
  }
  EXPECT_EQ(window->map(0, Frame()).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(device_.num_mappings(), 0U);
}

TEST_F(WindowTest, RefusesZeroAndOverflowingSizes) {
  EXPECT_EQ(Window::create(device_, 0).error().code(), StatusCode::kInvalidValue);
  EXPECT_EQ(Window::create(device_, std::numeric_limits<std::size_t>::max()).error().code(), StatusCode::kInvalidValue);
}

TEST_F(WindowTest, IsGivenBackOnceWhenMoved) {
  {
    auto first = Window::create(device_, 2_MiB);
    ASSERT_TRUE(first);
    Window second = std::move(*first);
    Window third;
    third = std::move(second);
    EXPECT_EQ(device_.num_windows(), 1U);
    EXPECT_TRUE(third);
  }
  EXPECT_EQ(device_.num_windows(), 0U);
}

TEST_F(WindowTest, AReleaseThatFailsIsTriedAgain) {
  {
    auto window = Window::create(device_, 2_MiB);
    ASSERT_TRUE(window);
    device_.fail_after(0, StatusCode::kInternal);
    EXPECT_EQ(window->release().code(), StatusCode::kInternal);
    EXPECT_TRUE(*window);
  }
  EXPECT_EQ(device_.num_windows(), 0U);
}

}  // namespace
}  // namespace vmem
