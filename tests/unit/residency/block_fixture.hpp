// One block of sixteen pages with an instance on each of three devices, for tests of its state machine.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/residency/block.hpp"
#include "runtime/residency/region.hpp"
#include "tests/unit/residency/manual_event.hpp"

namespace vmem::test {

class BlockFixture : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kPages = 16;
  static constexpr PageRange kAllPages{0, kPages};

  BlockFixture() {
    MutexLock lock(block_.mutex);
    for (DeviceIndex device = 0; device < spans_.size(); ++device) {
      spans_[device].device = device;
      Instance instance;
      instance.span = &spans_[device];
      instance.device = device;
      instance.valid = PageMask(kPages);
      instance.dirty = PageMask(kPages);
      block_.instances.push_back(std::move(instance));
    }
  }

  static PageMask pages(PageRange range) { return PageMask::of(kPages, range); }

  Instance& at(DeviceIndex device) VMEM_REQUIRES(block_.mutex) { return *block_.find(spans_[device]); }
  void set(DeviceIndex device, PageRange valid, PageRange dirty) VMEM_REQUIRES(block_.mutex) {
    at(device).valid = pages(valid);
    at(device).dirty = pages(dirty);
  }
  // Pages that a copy in flight fills on a device; they count as valid.
  std::shared_ptr<ManualEvent> arrive(DeviceIndex device, PageRange range) VMEM_REQUIRES(block_.mutex) {
    auto event = ManualEvent::create();
    at(device).valid.set(range);
    at(device).arriving.push_back({pages(range), Event(event)});
    return event;
  }
  // A write of a device that was released before these copies were over.
  void release_write(DeviceIndex device, PageRange range, const std::vector<std::shared_ptr<ManualEvent>>& copies)
      VMEM_REQUIRES(block_.mutex) {
    auto arrivals = std::make_shared<std::vector<Event>>();
    for (const auto& copy : copies) arrivals->push_back(Event(copy));
    block_.pending_commits.push_back({range, device, std::move(arrivals)});
  }
  // What the header promises of every page: at most one owner, and owners have it valid; zeroed and lost ones have
  // none.
  void expect_consistent() VMEM_REQUIRES(block_.mutex) {
    PageMask owned(kPages);
    for (const Instance& instance : block_.instances) {
      EXPECT_TRUE(instance.valid.covers(instance.dirty)) << "device " << instance.device;
      EXPECT_TRUE((owned & instance.dirty).none()) << "two owners, one is device " << instance.device;
      owned |= instance.dirty;
    }
    EXPECT_TRUE((block_.present() & block_.zeroed).none());
    EXPECT_TRUE((block_.present() & block_.lost).none());
    EXPECT_EQ(owned, block_.present()) << "a page that is present has an owner";
  }

  Region region_{0x7000'0000'0000, 64_KiB, 64_KiB, false, 3};
  Block& block_ = region_.block(0);
  std::array<FrameSpan, 3> spans_;
};

}  // namespace vmem::test
