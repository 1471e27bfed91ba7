#include "runtime/memory/frame_store.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "runtime/memory/window.hpp"
#include "tests/support/registering_device.hpp"
#include "tests/unit/memory/fake_device.hpp"

namespace vmem {
namespace {

using test::FakeDevice;
using SpareUse = FrameStore::SpareUse;

constexpr std::size_t kBlock = 8_MiB;

// Both forms of the store: chunks (true) and slabs (false).
class EveryForm : public testing::TestWithParam<bool> {
 protected:
  FakeDevice make_device(std::size_t total = 1_GiB, Tier tier = Tier::kDevice) {
    return FakeDevice({GetParam(), tier, total, 2_MiB});
  }
};

std::unique_ptr<FrameStore> make(Device& device, std::size_t limit, std::size_t spare = 0,
                                 std::size_t cache = 4 * kBlock, FitStrategy strategy = FitStrategy::kBestFit) {
  auto store = FrameStore::create(device, {limit, spare, strategy, kBlock, cache});
  EXPECT_TRUE(store) << store.error().to_string();
  return std::move(store).value();
}

Result<Frame> take(FrameStore& store, std::size_t bytes, SpareUse spare = SpareUse::kForbidden) {
  VMEM_RETURN_IF_ERROR(store.reserve(bytes, spare));
  auto frame = store.allocate(bytes);
  if (!frame) store.unreserve(bytes);
  return frame;
}

TEST_P(EveryForm, RoundsToTheGranularityAndCountsTheWaste) {
  FakeDevice device = make_device();
  const auto store = make(device, 64_MiB);
  std::vector<Frame> frames;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{6912}, 2_MiB + 1}) {
    auto frame = take(*store, bytes);
    ASSERT_TRUE(frame) << frame.error().to_string();
    EXPECT_EQ(frame->asked_bytes(), bytes);
    frames.push_back(std::move(*frame));
  }
  EXPECT_EQ(frames[0].bytes(), 2_MiB);
  EXPECT_EQ(frames[1].bytes(), 2_MiB);
  EXPECT_EQ(frames[2].bytes(), 4_MiB);
  const auto figures = store->figures();
  EXPECT_EQ(figures.used_bytes, 8_MiB);
  EXPECT_EQ(figures.asked_bytes, 1 + 6912 + 2_MiB + 1);
  EXPECT_EQ(figures.fragmentation.internal_waste_bytes(), 6_MiB - 6912 - 2);
  EXPECT_EQ(figures.num_frames, 3U);
}

TEST_P(EveryForm, FramesOfSlabsHaveAddressesAndChunksHaveHandles) {
  FakeDevice device = make_device();
  const auto store = make(device, 64_MiB);
  const auto frame = take(*store, kBlock);
  ASSERT_TRUE(frame);
  EXPECT_EQ(store->uses_windows(), GetParam());
  if (GetParam()) {
    EXPECT_EQ(frame->chunk().bytes, kBlock);
    EXPECT_EQ(frame->address(), nullptr);
  } else {
    EXPECT_EQ(frame->chunk().bytes, 0U);
    std::memset(frame->address(), 7, frame->bytes());
  }
}

TEST_P(EveryForm, ReservationsStopAtTheLimitLessTheSpare) {
  FakeDevice device = make_device();
  const auto store = make(device, 4 * kBlock, kBlock);
  ASSERT_TRUE(store->reserve(2 * kBlock));
  ASSERT_TRUE(store->reserve(kBlock));
  const Status status = store->reserve(1);
  EXPECT_EQ(status.code(), StatusCode::kOutOfDeviceMemory);
  EXPECT_EQ(status.device(), "fake:0");
  EXPECT_NE(status.message().find("limit 32.0 MiB"), std::string_view::npos) << status.to_string();
  EXPECT_EQ(store->available_bytes(), 0U);
  EXPECT_EQ(store->available_bytes(SpareUse::kAllowed), kBlock);
  ASSERT_TRUE(store->reserve(kBlock, SpareUse::kAllowed));
  EXPECT_FALSE(store->reserve(1, SpareUse::kAllowed));
  store->unreserve(2 * kBlock);
  EXPECT_EQ(store->available_bytes(), kBlock);
  store->unreserve(kBlock);
  store->unreserve(kBlock);
  EXPECT_EQ(store->figures().reserved_bytes, 0U);
  EXPECT_EQ(device.num_calls(), 0U) << "reserving is bookkeeping alone";
}

TEST_P(EveryForm, TwoFullStoresExchangeThroughTheirSpare) {
  FakeDevice device_a = make_device();
  FakeDevice device_b = make_device();
  const auto a = make(device_a, 3 * kBlock, kBlock);
  const auto b = make(device_b, 3 * kBlock, kBlock);
  std::vector<Frame> in_a;
  std::vector<Frame> in_b;
  for (int i = 0; i < 2; ++i) {
    in_a.push_back(std::move(take(*a, kBlock)).value());
    in_b.push_back(std::move(take(*b, kBlock)).value());
  }
  EXPECT_FALSE(take(*a, kBlock));
  EXPECT_FALSE(take(*b, kBlock));
  for (int i = 0; i < 10; ++i) {
    auto from_b = take(*a, kBlock, SpareUse::kAllowed);
    auto from_a = take(*b, kBlock, SpareUse::kAllowed);
    ASSERT_TRUE(from_a && from_b);
    in_a[0] = std::move(*from_b);
    in_b[0] = std::move(*from_a);
  }
  EXPECT_LE(device_a.most_bytes(), 3 * kBlock);
  EXPECT_LE(device_b.most_bytes(), 3 * kBlock);
}

TEST_P(EveryForm, OutOfMemoryNamesTheTier) {
  FakeDevice host = make_device(64_MiB, Tier::kHost);
  EXPECT_EQ(make(host, kBlock)->reserve(kBlock + 1).code(), StatusCode::kOutOfHostMemory);
  FakeDevice disk = make_device(64_MiB, Tier::kStorage);
  EXPECT_EQ(make(disk, kBlock)->reserve(kBlock + 1).code(), StatusCode::kOutOfStorage);
}

TEST_P(EveryForm, RefusesSizesThatAreZeroOrOverflow) {
  FakeDevice device = make_device();
  const auto store = make(device, 64_MiB);
  const std::size_t most = std::numeric_limits<std::size_t>::max();
  EXPECT_EQ(store->reserve(0).code(), StatusCode::kInvalidValue);
  for (const std::size_t bytes : {most, most - 3, most - 2_MiB, most - 2_MiB + 1, most - 2_MiB + 2}) {
    EXPECT_EQ(store->reserve(bytes).code(), StatusCode::kOutOfDeviceMemory) << bytes;
    EXPECT_EQ(store->reserve(bytes, SpareUse::kAllowed).code(), StatusCode::kOutOfDeviceMemory) << bytes;
  }
  EXPECT_EQ(store->figures().reserved_bytes, 0U);
}

TEST_P(EveryForm, RefusesOptionsThatMakeNoSense) {
  FakeDevice device = make_device();
  const auto code = [&](std::size_t limit, std::size_t spare, std::size_t block) {
    return FrameStore::create(device, {limit, spare, FitStrategy::kBestFit, block, 0}).error().code();
  };
  EXPECT_EQ(code(64_MiB, 0, 3_MiB), StatusCode::kInvalidValue);
  EXPECT_EQ(code(64_MiB, 0, 1_MiB), StatusCode::kInvalidValue);
  EXPECT_EQ(code(64_MiB, 64_MiB, kBlock), StatusCode::kInvalidValue);
  EXPECT_EQ(code(64_MiB, std::numeric_limits<std::size_t>::max(), kBlock), StatusCode::kInvalidValue);
  EXPECT_EQ(code(0, 0, kBlock), StatusCode::kOk) << "a device of which nothing may be used";
}

TEST_P(EveryForm, DroppedMemoryIsReusedWithoutTheDriver) {
  FakeDevice device = make_device();
  const auto store = make(device, 64_MiB);
  std::move(take(*store, kBlock)).value().reset();
  const auto calls = device.num_calls();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(take(*store, kBlock));
  EXPECT_EQ(device.num_calls(), calls);
  EXPECT_EQ(store->figures().used_bytes, 0U);
}

TEST_P(EveryForm, KeepsNoMoreDroppedMemoryThanAsked) {
  FakeDevice device = make_device();
  const auto store = make(device, 256_MiB, 0, 2 * kBlock);
  {
    std::vector<Frame> frames;
    for (int i = 0; i < 20; ++i) frames.push_back(std::move(take(*store, kBlock)).value());
  }
  EXPECT_EQ(store->figures().physical_bytes, device.held_bytes());
  const std::size_t kept = device.held_bytes();
  EXPECT_EQ(kept, GetParam() ? 2 * kBlock : 0) << "a slab of four blocks is more than may be kept";
  EXPECT_EQ(store->trim(), kept);
  EXPECT_EQ(device.held_bytes(), 0U);
}

TEST_P(EveryForm, DroppedMemoryNeverStandsInTheWayOfTheLimit) {
  FakeDevice device = make_device();
  const auto store = make(device, 4 * kBlock);
  {
    std::vector<Frame> frames;
    for (int i = 0; i < 16; ++i) frames.push_back(std::move(take(*store, 2_MiB)).value());
  }
  const auto whole = take(*store, 4 * kBlock);
  ASSERT_TRUE(whole) << whole.error().to_string();
  EXPECT_LE(device.most_bytes(), 4 * kBlock);
}

TEST_P(EveryForm, WhatAnotherProcessTookIsNamedAndTheReservationStays) {
  FakeDevice device = make_device(64_MiB, Tier::kHost);
  const auto store = make(device, 64_MiB);
  ASSERT_TRUE(store->reserve(kBlock));
  device.take_outside(60_MiB);
  const auto frame = store->allocate(kBlock);
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().code(), StatusCode::kOutOfHostMemory);
  EXPECT_EQ(frame.error().driver_name(), "FAKE_OUT_OF_MEMORY");
  EXPECT_NE(frame.error().message().find("8.0 MiB asked, 4.0 MiB free (limit 64.0 MiB)"), std::string_view::npos)
      << frame.error().to_string();
  EXPECT_EQ(store->figures().reserved_bytes, kBlock);
  EXPECT_EQ(store->figures().physical_bytes, 0U);
  device.take_outside(-static_cast<std::int64_t>(60_MiB));
  EXPECT_TRUE(store->allocate(kBlock));
}

TEST(FrameStoreTest, WhatTheDriverRefusesIsOffTheLimitUntilItHasItAgain) {
  FakeDevice device({true, Tier::kDevice, 64_MiB, 2_MiB});
  const auto store = make(device, 64_MiB, kBlock, 0);
  device.take_outside(28_MiB);
  std::vector<Frame> frames;
  for (int i = 0; i < 4; ++i) frames.push_back(std::move(take(*store, kBlock)).value());
  EXPECT_EQ(store->limit_bytes(), 64_MiB) << "nobody has asked for more yet";
  EXPECT_EQ(take(*store, kBlock).error().code(), StatusCode::kOutOfDeviceMemory);
  EXPECT_EQ(store->limit_bytes(), 32_MiB);
  EXPECT_EQ(store->available_bytes(SpareUse::kAllowed), 4_MiB) << "what the driver says it has";
  EXPECT_EQ(store->available_bytes(), 0U);
  frames.pop_back();
  EXPECT_EQ(store->available_bytes(SpareUse::kAllowed), kBlock + 4_MiB);
  device.take_outside(-static_cast<std::int64_t>(28_MiB));
  EXPECT_EQ(store->available_bytes(), 64_MiB - 4 * kBlock);
  EXPECT_EQ(store->limit_bytes(), 64_MiB);
  EXPECT_EQ(store->figures().limit_bytes, 64_MiB);
}

TEST_P(EveryForm, ADriverWithoutMemoryGetsDroppedMemoryBackAndIsAskedAgain) {
  FakeDevice device = make_device(64_MiB);
  const auto store = make(device, 64_MiB, 0, 64_MiB);
  std::move(take(*store, 6 * kBlock)).value().reset();
  ASSERT_EQ(device.held_bytes(), 6 * kBlock);
  device.take_outside(12_MiB);
  const auto frame = take(*store, 6 * kBlock + 2_MiB);
  ASSERT_TRUE(frame) << frame.error().to_string();
}

TEST_P(EveryForm, OtherErrorsOfTheDriverPassThroughWithTheDevice) {
  FakeDevice device = make_device();
  const auto store = make(device, 64_MiB);
  device.fail_after(0, StatusCode::kDeviceFailed);
  const auto frame = take(*store, kBlock);
  EXPECT_EQ(frame.error().code(), StatusCode::kDeviceFailed);
  EXPECT_EQ(frame.error().device(), "fake:0");
  EXPECT_TRUE(take(*store, kBlock));
}

TEST_P(EveryForm, AFreedFrameMayPassStraightIntoAReservation) {
  FakeDevice device = make_device();
  const auto store = make(device, kBlock);
  auto frame = take(*store, kBlock);
  ASSERT_TRUE(frame);
  store->free_to_reservation(std::move(*frame));
  EXPECT_FALSE(store->reserve(1));
  EXPECT_TRUE(store->allocate(kBlock));
  EXPECT_TRUE(store->reserve(kBlock));
  store->unreserve(kBlock);
}

TEST_P(EveryForm, QuarantinedMemoryIsNotUsedAgain) {
  FakeDevice device = make_device();
  {
    const auto store = make(device, 3 * kBlock);
    auto frame = take(*store, kBlock);
    ASSERT_TRUE(frame);
    const std::uint64_t handle = frame->chunk().handle;
    const void* const address = frame->address();
    store->quarantine(std::move(*frame));
    EXPECT_EQ(store->figures().used_bytes, kBlock);
    EXPECT_EQ(store->figures().quarantined_bytes, kBlock);
    EXPECT_EQ(store->figures().num_frames, 0U);
    for (int i = 0; i < 5; ++i) {
      const auto other = take(*store, kBlock);
      ASSERT_TRUE(other);
      if (GetParam()) {
        EXPECT_NE(other->chunk().handle, handle);
      } else {
        EXPECT_NE(other->address(), address);
      }
    }
    EXPECT_FALSE(store->reserve(3 * kBlock));
  }
  EXPECT_EQ(device.held_bytes(), 0U);
}

// One run over everything that the store and a window do. Errors of injected faults are fine; leaks are not.
void use_everything(FakeDevice& device, bool has_windows) {
  const auto store = make(device, 12 * kBlock, kBlock, 2 * kBlock);
  std::vector<Frame> frames;
  for (const std::size_t bytes : {kBlock, kBlock, 3 * kBlock, 2_MiB, std::size_t{5000}, kBlock}) {
    if (auto frame = take(*store, bytes)) frames.push_back(std::move(*frame));
  }
  if (has_windows) {
    if (auto window = Window::create(device, 10 * kBlock)) {
      std::vector<std::pair<std::size_t, std::size_t>> mapped;
      std::size_t offset = 0;
      for (const Frame& frame : frames) {
        if (window->map(offset, frame)) mapped.emplace_back(offset, frame.bytes());
        offset += frame.bytes();
      }
      for (const auto& [at, bytes] : mapped) {
        // A fault comes once: what failed is tried again.
        if (!window->unmap(at, bytes)) {
          EXPECT_TRUE(window->unmap(at, bytes));
        }
      }
    }
  }
  frames.clear();
  EXPECT_EQ(store->figures().used_bytes, 0U);
  EXPECT_EQ(store->figures().reserved_bytes, 0U);
  EXPECT_EQ(store->figures().physical_bytes, device.held_bytes());
  if (auto frame = take(*store, 11 * kBlock)) frames.push_back(std::move(*frame));
  frames.clear();
  store->trim();
  EXPECT_EQ(store->figures().physical_bytes, device.held_bytes());
}

TEST_P(EveryForm, NothingLeaksWhicheverCallFails) {
  for (const StatusCode code : {StatusCode::kInternal, StatusCode::kOutOfDeviceMemory, StatusCode::kDeviceFailed}) {
    bool reached = true;
    std::uint64_t call = 0;
    for (; reached; ++call) {
      SCOPED_TRACE("call " + std::to_string(call) + " fails with " + std::string(to_string(code)));
      FakeDevice device = make_device();
      device.fail_after(call, code);
      use_everything(device, GetParam());
      reached = !device.fault_is_pending();
      EXPECT_EQ(device.num_chunks(), 0U);
      EXPECT_EQ(device.num_slabs(), 0U);
      EXPECT_EQ(device.num_windows(), 0U);
      EXPECT_EQ(device.num_mappings(), 0U);
      EXPECT_LE(device.most_bytes(), 12 * kBlock);
    }
    EXPECT_GT(call, 5U);
  }
}

// Many threads near the limit, with trims between: case C6's shape.
TEST_P(EveryForm, ThreadsNearTheLimitLoseNothing) {
  FakeDevice device = make_device();
  constexpr std::size_t kLimit = 16 * kBlock;
  {
    const auto store = make(device, kLimit, kBlock, kBlock);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 random(t);
        std::vector<Frame> mine;
        for (int i = 0; i < 3000; ++i) {
          if (random() % 50 == 0) store->trim();
          if (mine.size() > 3 || (random() % 3 == 0 && !mine.empty())) {
            mine.erase(mine.begin());
          } else if (auto frame = take(*store, random() % 2 == 0 ? kBlock : 2_MiB)) {
            mine.push_back(std::move(*frame));
          }
        }
      });
    }
    for (auto& thread : threads) thread.join();
    const auto figures = store->figures();
    EXPECT_EQ(figures.used_bytes, 0U);
    EXPECT_EQ(figures.asked_bytes, 0U);
    EXPECT_EQ(figures.reserved_bytes, 0U);
    EXPECT_EQ(figures.num_frames, 0U);
    EXPECT_EQ(figures.physical_bytes, device.held_bytes());
  }
  EXPECT_LE(device.most_bytes(), kLimit);
  EXPECT_EQ(device.held_bytes(), 0U);
}

// Each thread's reservation must be honoured even when all need a slab at the same moment.
TEST_P(EveryForm, AReservationIsHonouredWhenAllGrowAtOnce) {
  for (int round = 0; round < 50; ++round) {
    FakeDevice device = make_device();
    const auto store = make(device, 4 * kBlock);
    std::vector<Frame> frames(4);
    std::vector<std::thread> threads;
    for (Frame& frame : frames) {
      threads.emplace_back([&] {
        auto taken = take(*store, kBlock);
        ASSERT_TRUE(taken) << taken.error().to_string();
        frame = std::move(*taken);
      });
    }
    for (auto& thread : threads) thread.join();
    frames.clear();
  }
}

INSTANTIATE_TEST_SUITE_P(FrameStoreTest, EveryForm, testing::Values(true, false),
                         [](const auto& form) { return form.param ? "Chunks" : "Slabs"; });

TEST(FrameStoreTest, ASmallerSlabIsTakenWhereTheDriverHasLess) {
  FakeDevice device({.has_virtual_memory = false, .total_bytes = 1_GiB});
  const auto store = make(device, 64_MiB);
  device.take_outside(static_cast<std::int64_t>(1_GiB - 10_MiB));
  const auto frame = take(*store, kBlock);
  ASSERT_TRUE(frame) << frame.error().to_string();
  EXPECT_LE(device.held_bytes(), 10_MiB);
  EXPECT_EQ(store->figures().physical_bytes, device.held_bytes());
}

// Slabs of 32 MiB, in order of age with 8, 4 and 16 MiB free, each at its end.
TEST(FrameStoreTest, TheStrategyHoldsOverAllSlabs) {
  for (const auto& [strategy, expected] : {std::pair(FitStrategy::kFirstFit, 0), std::pair(FitStrategy::kBestFit, 1),
                                           std::pair(FitStrategy::kWorstFit, 2)}) {
    FakeDevice device({.has_virtual_memory = false, .total_bytes = 1_GiB});
    const auto store = make(device, 128_MiB, 0, 4 * kBlock, strategy);
    std::vector<Frame> heads;
    std::vector<Frame> tails;
    for (const std::size_t head : {24_MiB, 28_MiB, 16_MiB}) {
      heads.push_back(std::move(take(*store, head)).value());
      tails.push_back(std::move(take(*store, 32_MiB - head)).value());
    }
    ASSERT_EQ(store->figures().num_slabs, 3U);
    const void* const places[] = {tails[0].address(), tails[1].address(), tails[2].address()};
    tails.clear();
    const auto frame = take(*store, 4_MiB);
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->address(), places[expected]);
  }
}

TEST(FrameStoreTest, PiecesThatAreTooSmallAreAnErrorAndCountAsFragmentation) {
  FakeDevice device({.has_virtual_memory = false, .total_bytes = 1_GiB});
  const auto store = make(device, 32_MiB);
  std::vector<Frame> frames;
  for (int i = 0; i < 16; ++i) frames.push_back(std::move(take(*store, 2_MiB)).value());
  for (std::size_t i = 0; i < frames.size(); i += 2) frames[i].reset();
  const auto figures = store->figures();
  EXPECT_EQ(figures.fragmentation.free_bytes, 16_MiB);
  EXPECT_EQ(figures.fragmentation.num_free_extents, 8U);
  EXPECT_DOUBLE_EQ(figures.fragmentation.external(), 1.0 - 2.0 / 16.0);
  const auto frame = take(*store, 4_MiB);
  EXPECT_EQ(frame.error().code(), StatusCode::kOutOfDeviceMemory);
  EXPECT_NE(frame.error().message().find("pieces"), std::string_view::npos) << frame.error().to_string();
  frames[1].reset();
  EXPECT_TRUE(take(*store, 4_MiB));
}

// -- Host memory that devices register
// ---------------------------------------------------------------------------------

class PinnedFrames : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<FrameStore> make_store(std::size_t cache = 0) {
    FrameStore::Options options;
    options.limit_bytes = 64_MiB;
    options.block_bytes = kBlock;
    options.cache_bytes = cache;
    options.registrations = &registrations_;
    auto store = FrameStore::create(host_, options);
    EXPECT_TRUE(store) << store.error().to_string();
    return std::move(store).value();
  }

  FakeDevice host_{{GetParam(), Tier::kHost, 1_GiB, 2_MiB}};
  test::RegisteringDevice gpu_{"gpu:0"};
  Logger logger_{LogLevel::kOff};
  HostRegistrations registrations_{{&host_, &gpu_}, logger_};
};

TEST_P(PinnedFrames, StayRegisteredUntilTheirMemoryGoes) {
  const auto store = make_store(kBlock * 4);
  void* address = nullptr;
  {
    auto frame = take(*store, kBlock);
    ASSERT_TRUE(frame) << frame.error().to_string();
    address = frame->copy_address();
    EXPECT_EQ(registrations_.address_on(address, kBlock, 1), address);
    EXPECT_EQ(gpu_.registered().size(), 1U);
  }
  // Dropped, cached, and taken again.
  EXPECT_EQ(gpu_.num_calls(), 1U);
  {
    auto frame = take(*store, kBlock);
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->copy_address(), address);
  }
  EXPECT_EQ(gpu_.num_calls(), 1U);
  EXPECT_GT(store->trim(), 0U);
  EXPECT_TRUE(gpu_.registered().empty());
  EXPECT_EQ(host_.num_windows() + host_.num_mappings() + host_.num_chunks() + host_.num_slabs(), 0U);
}

TEST_P(PinnedFrames, AreThereAlsoWhereNothingCanBeRegistered) {
  gpu_.refuse(Status(StatusCode::kOutOfHostMemory, "limited"));
  const auto store = make_store();
  auto frame = take(*store, kBlock);
  ASSERT_TRUE(frame);
  EXPECT_EQ(registrations_.num_ranges(), 0U);
  frame->reset();
  store->trim();
  EXPECT_EQ(host_.num_windows() + host_.num_mappings() + host_.num_chunks() + host_.num_slabs(), 0U);
}

// Whichever call of the host device fails: a frame is had or not, and nothing is left over.
TEST_P(PinnedFrames, LeaveNothingBehindWhicheverCallFails) {
  for (std::uint64_t call = 0; call < 8; ++call) {
    {
      const auto store = make_store();
      host_.fail_after(call, StatusCode::kInternal);
      if (auto frame = take(*store, kBlock)) frame->reset();
      store->trim();
    }
    EXPECT_TRUE(gpu_.registered().empty()) << call;
    EXPECT_EQ(host_.num_windows() + host_.num_mappings() + host_.num_chunks() + host_.num_slabs(), 0U) << call;
  }
}

INSTANTIATE_TEST_SUITE_P(FrameStore, PinnedFrames, testing::Bool(),
                         [](const auto& form) { return form.param ? "Chunks" : "Slabs"; });

}  // namespace
}  // namespace vmem
