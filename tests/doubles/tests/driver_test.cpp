// Parts of the simulated driver by themselves: addresses and views, physical memory, kernels' declarations, settings.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/doubles/driver/address_space.hpp"
#include "tests/doubles/driver/fault_plan.hpp"
#include "tests/doubles/driver/kernel_table.hpp"
#include "tests/doubles/driver/physical_memory.hpp"
#include "tests/doubles/driver/settings.hpp"

namespace vmem::sim {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20U;
constexpr std::size_t kArena = std::size_t{1} << 30U;

class AddressSpaceTest : public ::testing::Test {
 protected:
  PhysicalMemory memory{0, 64 * kMiB};
  AddressSpace addresses{2, kArena};
};

TEST_F(AddressSpaceTest, ReservesApartAndNotAtOnceAgain) {
  const Address first = addresses.reserve(2 * kMiB, 2 * kMiB, 0);
  const Address second = addresses.reserve(2 * kMiB, 2 * kMiB, 0);
  EXPECT_GT(second, first + 2 * kMiB) << "a gap between them";
  EXPECT_EQ(addresses.release(first, kMiB), Error::kInvalidValue);
  EXPECT_EQ(addresses.release(first, 2 * kMiB), Error::kNone);
  EXPECT_NE(addresses.reserve(2 * kMiB, 2 * kMiB, 0), first);
  EXPECT_EQ(addresses.reserve(2 * kMiB, 2 * kMiB, first), first) << "a hint that is free";
  EXPECT_NE(addresses.reserve(2 * kMiB, 2 * kMiB, second), second);
  EXPECT_EQ(addresses.reserve(2 * kArena, kPage, 0), 0U);
  EXPECT_EQ(addresses.reserve(kMiB, 512 * kMiB, 0) % (512 * kMiB), 0U);
}

TEST_F(AddressSpaceTest, FindsRoomAgainWhereAddressesWereGivenBack) {
  for (int round = 0; round < 3; ++round) {
    const Address most = addresses.reserve(kArena - 64 * kMiB, kPage, 0);
    ASSERT_NE(most, 0U) << round;
    EXPECT_EQ(addresses.release(most, kArena - 64 * kMiB), Error::kNone);
  }
}

TEST_F(AddressSpaceTest, EveryViewSeesWhatItWasGranted) {
  const Address window = addresses.reserve(4 * kMiB, kMiB, 0);
  ASSERT_EQ(addresses.map(window, memory.allocate(kMiB, false)), Error::kNone);
  ASSERT_EQ(addresses.map(window + kMiB, memory.allocate(kMiB, false)), Error::kNone);
  EXPECT_FALSE(addresses.accessible(view_of(0), window, 1, false));
  ASSERT_EQ(addresses.set_access(window, 2 * kMiB, view_of(0), Protection::kReadWrite, false), Error::kNone);
  ASSERT_EQ(addresses.set_access(window, kMiB, view_of(1), Protection::kRead, false), Error::kNone);
  EXPECT_TRUE(addresses.accessible(view_of(0), window, 2 * kMiB, true));
  EXPECT_FALSE(addresses.accessible(view_of(0), window, 2 * kMiB + 1, true));
  EXPECT_TRUE(addresses.accessible(view_of(1), window, kMiB, false));
  EXPECT_FALSE(addresses.accessible(view_of(1), window, kMiB, true));
  EXPECT_FALSE(addresses.accessible(view_of(1), window, kMiB + 1, false));
  EXPECT_FALSE(addresses.accessible(kCpuView, window, 1, false));
  std::memset(addresses.pointer(view_of(0), window + kMiB - 8), 0x7E, 16);  // over the seam
  EXPECT_EQ(addresses.pointer(view_of(1), window)[kMiB - 1], 0x7E);
  EXPECT_EQ(addresses.set_access(window, kMiB / 2, view_of(0), Protection::kNone, false), Error::kInvalidValue);
  EXPECT_EQ(addresses.unmap(window, 2 * kMiB), Error::kNone) << "several whole mappings";
  EXPECT_EQ(memory.free_bytes(), 64 * kMiB);
}

TEST_F(AddressSpaceTest, ADecoyKeepsWritesFromArriving) {
  const Address window = addresses.reserve(kMiB, kMiB, 0);
  ASSERT_EQ(addresses.map(window, memory.allocate(kMiB, false)), Error::kNone);
  ASSERT_EQ(addresses.set_access(window, kMiB, view_of(0), Protection::kReadWrite, false), Error::kNone);
  ASSERT_EQ(addresses.set_access(window, kMiB, view_of(1), Protection::kReadWrite, true), Error::kNone);
  *addresses.pointer(view_of(1), window) = 5;
  EXPECT_EQ(*addresses.pointer(view_of(0), window), 0);
}

TEST(PhysicalMemoryTest, HandsOutZerosUpToItsCapacity) {
  PhysicalMemory memory(0, 4 * kMiB);
  AddressSpace addresses(1, kArena);
  const Address window = addresses.reserve(kMiB, kMiB, 0);
  for (int round = 0; round < 3; ++round) {
    auto backing = memory.allocate(kMiB, round == 1);
    ASSERT_NE(backing, nullptr);
    ASSERT_EQ(addresses.map(window, std::move(backing)), Error::kNone);
    ASSERT_EQ(addresses.set_access(window, kMiB, view_of(0), Protection::kReadWrite, false), Error::kNone);
    EXPECT_EQ(*addresses.pointer(view_of(0), window), 0);
    *addresses.pointer(view_of(0), window) = 1;
    EXPECT_EQ(addresses.unmap(window, kMiB), Error::kNone);
  }
  memory.occupy(2 * kMiB);
  EXPECT_EQ(memory.free_bytes(), 2 * kMiB);
  EXPECT_EQ(memory.allocate(3 * kMiB, false), nullptr);
}

TEST(KernelTableTest, ReadsParametersFromADeclaration) {
  const char* const source = R"(
// kernel_a is used by kernel_ab
__device__ int kernel_a_of(int x);
extern "C" __global__ void kernel_ab(const float* in, unsigned char flag, unsigned long long count, unsigned int n,
                                     short s, double d) {}
extern "C" __global__ void kernel_a() {}
extern "C" __global__ void kernel_struct(Some thing) {}
)";
  const auto parameters = parse_parameters(source, "kernel_ab");
  ASSERT_TRUE(parameters);
  const std::size_t offsets[] = {0, 8, 16, 24, 28, 32}, bytes[] = {8, 1, 8, 4, 2, 8};
  ASSERT_EQ(parameters->size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ((*parameters)[i].offset, offsets[i]) << i;
    EXPECT_EQ((*parameters)[i].bytes, bytes[i]) << i;
    EXPECT_EQ((*parameters)[i].pointer, i == 0) << i;
  }
  ASSERT_TRUE(parse_parameters(source, "kernel_a"));
  EXPECT_TRUE(parse_parameters(source, "kernel_a")->empty());
  EXPECT_FALSE(parse_parameters(source, "kernel_struct")) << "a type that it does not know";
  EXPECT_FALSE(parse_parameters(source, "kernel"));
  EXPECT_FALSE(parse_parameters(source, ""));
}

TEST(SettingsTest, TakesWhatIsRightAndNothingElse) {
  Settings settings;
  EXPECT_TRUE(settings.set("capacity", "3GiB"));
  EXPECT_EQ(settings.capacity, std::size_t{3} << 30U);
  EXPECT_FALSE(settings.set("capacity", "3GB"));
  EXPECT_FALSE(settings.set("capacity", "0"));
  EXPECT_FALSE(settings.set("granularity", "3MiB"));
  EXPECT_TRUE(settings.set("off", "host_vmm,posix_fd"));
  EXPECT_TRUE(settings.vmm);
  EXPECT_FALSE(settings.host_vmm);
  EXPECT_FALSE(settings.set("off", "vmm,nonsense"));
  EXPECT_TRUE(settings.vmm) << "unchanged";
  EXPECT_TRUE(settings.set("peer", "0>1:lies,1>0:hangs"));
  EXPECT_EQ(settings.link(0, 1), VMEM_DOUBLE_PEER_LIES);
  EXPECT_EQ(settings.link(1, 0), VMEM_DOUBLE_PEER_HANGS);
  EXPECT_EQ(settings.link(2, 0), VMEM_DOUBLE_PEER_WORKS);
  EXPECT_FALSE(settings.set("peer", "0:lies"));
  EXPECT_TRUE(settings.set("faults", "cuMemAlloc:fail:3:2,cuMemcpy:hang:0"));
  ASSERT_EQ(settings.faults.size(), 2U);
  EXPECT_EQ(settings.faults[0].after, 3U);
  EXPECT_EQ(settings.faults[0].code, 2);
  EXPECT_FALSE(settings.set("faults", "cuMemAlloc:explode:0"));
}

TEST(FaultPlanTest, CountsCallsAndMeetsFaultsInTurn) {
  FaultPlan plan;
  plan.inject("a", VMEM_DOUBLE_FAIL, 1, 2, 7);
  plan.inject("", VMEM_DOUBLE_HANG, 3, 1, 0);
  EXPECT_EQ(plan.call("a").fail, 0);
  EXPECT_EQ(plan.call("b").fail, 0);
  EXPECT_EQ(plan.call("a").fail, 7);
  const CallFault both = plan.call("a");
  EXPECT_EQ(both.fail, 7);
  EXPECT_TRUE(both.hang) << "the fourth call of all";
  EXPECT_EQ(plan.call("a").fail, 0);
  EXPECT_EQ(plan.calls("a"), 4U);
  EXPECT_EQ(plan.calls(""), 5U);
  plan.forget_calls();
  EXPECT_EQ(plan.calls("a"), 0U);
}

}  // namespace
}  // namespace vmem::sim
