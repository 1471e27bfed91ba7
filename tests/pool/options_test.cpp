// What a pool may be asked for, and that it keeps to it.
#include "tests/pool/pool_test.hpp"

namespace vmem::test {
namespace {

class PoolOptionsTest : public PoolTest {
 protected:
  void SetUp() override { make(); }
  Status error_of(const PoolOptions& options) { return machine().make_pool(options).error(); }
  PoolOptions valid() { return pool().options(); }
};

TEST_F(PoolOptionsTest, BlockSizesMustBePowersOfTwoFromTheGranularityOn) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, 8_KiB, 48_KiB, 64_KiB + 1, 2_GiB, SIZE_MAX}) {
    PoolOptions options = valid();
    options.block_bytes = bytes;
    const Status status = error_of(options);
    EXPECT_EQ(status.code(), StatusCode::kInvalidValue) << bytes;
    EXPECT_NE(status.message().find("block_bytes"), std::string_view::npos);
  }
  PoolOptions options = valid();
  for (const std::size_t bytes : {64_KiB, 1_MiB, 1_GiB}) {
    options.block_bytes = bytes;
    EXPECT_TRUE(error_of(options).is_ok()) << bytes;
  }
}

TEST_F(PoolOptionsTest, LimitsNameDevicesThatThereAre) {
  PoolOptions options = valid();
  options.limits["cuda:99"] = 1_GiB;
  const Status status = error_of(options);
  EXPECT_EQ(status.code(), StatusCode::kInvalidValue);
  EXPECT_NE(status.message().find("cuda:99"), std::string_view::npos);
}

TEST_F(PoolOptionsTest, StrategiesAndDeadlinesAreChecked) {
  PoolOptions options = valid();
  options.fit = static_cast<FitStrategy>(7);
  EXPECT_EQ(error_of(options).code(), StatusCode::kInvalidValue);
  options = valid();
  options.placement = static_cast<PlacementStrategy>(7);
  EXPECT_EQ(error_of(options).code(), StatusCode::kInvalidValue);
  options = valid();
  options.acquire_deadline = std::chrono::milliseconds(-1);
  EXPECT_EQ(error_of(options).code(), StatusCode::kInvalidValue);
}

TEST_F(PoolOptionsTest, AddressesThatAreTooFewAreRefused) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, SIZE_MAX}) {
    PoolOptions options = valid();
    options.address_bytes = bytes;
    const auto made = machine().make_pool(options);
    // What is too much is made less; what is too little is an error.
    if (bytes != SIZE_MAX) {
      EXPECT_FALSE(made.has_value()) << bytes;
    } else if (made) {
      EXPECT_TRUE((*made)->allocate(1).has_value());
    }
  }
}

TEST_F(PoolOptionsTest, ALimitIsKept) {
  PoolOptions options = valid();
  options.limits[name_of(0)] = 4 * kBlock;
  options.limits[name_of(1)] = 1;  // nothing fits
  auto limited = machine().make_pool(options);
  ASSERT_TRUE(limited.has_value());
  auto buffer = (*limited)->allocate(6 * kBlock);
  ASSERT_TRUE(buffer.has_value());
  AcquireOptions on;
  on.device = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    auto acquired = (*limited)->acquire(buffer->range(i * kBlock, kBlock, Access::kWrite), on);
    ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
  }
  const DeviceStats stats = (*limited)->stats().devices[0];
  EXPECT_EQ(stats.limit_bytes, 4 * kBlock);
  EXPECT_EQ(stats.peak_bytes, 3 * kBlock) << "one block is kept spare";
  EXPECT_EQ((*limited)->acquire(buffer->range(0, 4 * kBlock, Access::kRead), on).error().code(),
            StatusCode::kOutOfDeviceMemory);
  on.device = 1;
  EXPECT_EQ((*limited)->acquire(buffer->range(0, 1, Access::kRead), on).error().code(), StatusCode::kOutOfDeviceMemory);
  EXPECT_TRUE(buffer->free().is_ok());
}

TEST_F(PoolOptionsTest, ALimitBeyondTheDeviceIsTheDevices) {
  PoolOptions options = valid();
  options.limits[name_of(0)] = 1_TiB;
  auto limited = machine().make_pool(options);
  ASSERT_TRUE(limited.has_value());
  EXPECT_EQ((*limited)->stats().devices[0].limit_bytes, 8 * kBlock);
}

TEST_F(PoolOptionsTest, TheDeadlineOfThePoolHoldsWhereAnAcquireSaysNone) {
  PoolOptions options = valid();
  options.acquire_deadline = std::chrono::milliseconds(0);
  auto impatient = machine().make_pool(options);
  ASSERT_TRUE(impatient.has_value());
  auto buffer = (*impatient)->allocate(kBlock);
  ASSERT_TRUE(buffer.has_value());
  auto writer = (*impatient)->acquire(buffer->all(Access::kWrite), {});
  ASSERT_TRUE(writer.has_value());
  EXPECT_EQ((*impatient)->acquire(buffer->all(Access::kRead), {}).error().code(), StatusCode::kBusy);
  EXPECT_EQ((*impatient)->options().acquire_deadline, std::chrono::milliseconds(0));
}

}  // namespace
}  // namespace vmem::test
