#include "tests/conformance/conformance.hpp"

#include <chrono>

namespace vmem {
namespace {

constexpr std::chrono::seconds kPatience{30};

}  // namespace

std::string conformance_name(const ::testing::TestParamInfo<SubjectFactory>& info) { return info.param.name; }

void DeviceConformance::SetUp() {
  auto subject = GetParam().make();
  ASSERT_TRUE(subject) << subject.error().to_string();
  subject_ = std::move(subject).value();
  ASSERT_LT(subject_.index, subject_.devices.size());
  free_at_start_ = free_bytes();
  accounted_ = GetParam().exact_memory;
}

void DeviceConformance::TearDown() {
  if (accounted_) {
    EXPECT_EQ(free_bytes(), free_at_start_) << "the test did not give all of the memory back";
  }
}

Device* DeviceConformance::other() {
  if (subject_.devices.size() < 2) return nullptr;
  return subject_.devices[subject_.index == 0 ? 1 : 0].get();
}

Device* DeviceConformance::peer() {
  for (const auto& candidate : subject_.devices) {
    if (candidate.get() != &device() && device().can_access_peer(*candidate)) return candidate.get();
  }
  return nullptr;
}

std::uint64_t DeviceConformance::free_bytes() {
  const auto memory = device().memory_info();
  EXPECT_TRUE(memory) << memory.error().to_string();
  return memory ? memory->free_bytes : 0;
}

void* DeviceConformance::allocate(std::size_t bytes) {
  auto address = device().allocate(bytes);
  EXPECT_TRUE(succeeded(address));
  return address ? *address : nullptr;
}

void DeviceConformance::deallocate(void* address) { EXPECT_TRUE(succeeded(device().deallocate(address))); }

Stream DeviceConformance::create_stream() {
  auto stream = device().create_stream();
  EXPECT_TRUE(succeeded(stream));
  return stream ? *stream : Stream();
}

void DeviceConformance::upload_to(Device& device, void* destination, const std::vector<std::uint8_t>& bytes) {
  EXPECT_TRUE(finished(device.copy_from_host(destination, bytes.data(), bytes.size(), Stream())));
}

std::vector<std::uint8_t> DeviceConformance::download_from(Device& device, const void* source, std::size_t bytes) {
  std::vector<std::uint8_t> result(bytes, 0xEE);
  EXPECT_TRUE(finished(device.copy_to_host(result.data(), source, bytes, Stream())));
  return result;
}

std::vector<std::uint8_t> pattern(std::size_t bytes, std::uint64_t seed) {
  std::vector<std::uint8_t> result(bytes);
  std::uint64_t state = seed * 0x9E3779B97F4A7C15U + 1;
  for (auto& byte : result) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    byte = static_cast<std::uint8_t>(state >> 56U);
  }
  return result;
}

::testing::AssertionResult succeeded(const Status& status) {
  if (status) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << status.to_string();
}

Status outcome(const Result<Event>& event) {
  if (!event) return event.error();
  return event->wait(std::chrono::steady_clock::now() + kPatience);
}

::testing::AssertionResult finished(const Result<Event>& event) { return succeeded(outcome(event)); }

}  // namespace vmem
