// The debug mode that unmaps what nobody holds: bytes stay right, use without acquire is caught.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/pool_machine.hpp"

namespace vmem {
namespace {

PoolMachineSpec debug_spec() {
  PoolMachineSpec spec;
  spec.pool.unmap_released = true;
  return spec;
}

TEST(UnmapReleasedTest, BytesStayThroughReleaseEvictionAndEveryDevice) {
  PoolMachine machine(debug_spec());
  constexpr std::size_t kBytes = 12 * 64_KiB;
  auto buffer = machine.pool().allocate(kBytes);
  ASSERT_TRUE(buffer.has_value());
  const auto bytes = test_pattern(kBytes, 1);
  ASSERT_TRUE(machine.pool().copy_in(buffer->address(), bytes.data(), kBytes).is_ok());
  auto stream = machine.device(1).create_stream();
  for (DeviceIndex device : {0U, 1U, 2U, 0U, 1U}) {
    for (std::size_t offset = 0; offset < kBytes; offset += 64_KiB) {
      AcquireOptions options;
      options.device = device;
      if (device == 1) options.stream = *stream;
      auto acquired = machine.pool().acquire(buffer->range(offset, 64_KiB, Access::kWrite), options);
      ASSERT_TRUE(acquired.has_value()) << acquired.error().to_string();
      ASSERT_TRUE(acquired->release().is_ok());
    }
  }
  ASSERT_TRUE(machine.device(1).destroy_stream(*stream).is_ok());
  std::vector<std::uint8_t> found(kBytes);
  ASSERT_TRUE(machine.pool().copy_out(found.data(), buffer->address(), kBytes).is_ok());
  EXPECT_EQ(found, bytes);
  ASSERT_TRUE(buffer->free().is_ok());
  machine.end_pool();
}

TEST(UnmapReleasedTest, ACopyFromARangeThatWasReleasedFails) {
  PoolMachine machine(debug_spec());
  auto buffer = machine.pool().allocate(64_KiB);
  ASSERT_TRUE(buffer.has_value());
  AcquireOptions options;
  options.device = 0;
  auto acquired = machine.pool().acquire(buffer->all(Access::kWriteDiscard), options);
  ASSERT_TRUE(acquired.has_value());
  void* const address = acquired->data();
  std::vector<std::uint8_t> bytes(64_KiB);
  EXPECT_TRUE(machine.device(0).copy_to_host(bytes.data(), address, bytes.size(), Stream()).has_value());
  ASSERT_TRUE(acquired->release().is_ok());
  auto late = machine.device(0).copy_to_host(bytes.data(), address, bytes.size(), Stream());
  EXPECT_FALSE(late.has_value() && late->wait().is_ok());
}

}  // namespace
}  // namespace vmem
