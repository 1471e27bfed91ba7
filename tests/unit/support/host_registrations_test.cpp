#include "runtime/support/host_registrations.hpp"

#include <gtest/gtest.h>

#include <array>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/registering_device.hpp"

namespace vmem {
namespace {

using test::RegisteringDevice;

class HostRegistrationsTest : public testing::Test {
 protected:
  HostRegistrationsTest() {
    logger_.set_callback([this](LogLevel, std::string_view text) { messages_.emplace_back(text); });
  }

  std::array<std::byte, 4096> memory_{};
  RegisteringDevice first_{"gpu:0", "one"};
  RegisteringDevice second_{"gpu:1", "one"};
  RegisteringDevice other_{"other:0", "", 0x1000};
  std::vector<std::string> messages_;
  Logger logger_;
  HostRegistrations registrations_{{&first_, &second_, &other_}, logger_};
};

TEST_F(HostRegistrationsTest, RegistersOnceForAnAddressSpaceAndAnswersWithItsAddresses) {
  registrations_.add_for_all(memory_.data(), memory_.size());
  registrations_.add(memory_.data(), memory_.size(), 1);
  EXPECT_EQ(first_.registered().size(), 1U);
  EXPECT_EQ(second_.num_calls(), 0U);
  EXPECT_EQ(other_.registered().size(), 1U);
  EXPECT_EQ(registrations_.address_on(memory_.data() + 100, 200, 1), memory_.data() + 100);
  EXPECT_EQ(registrations_.address_on(memory_.data() + 100, 200, 2), memory_.data() + 100 + 0x1000);
  registrations_.remove(memory_.data());
  EXPECT_TRUE(first_.registered().empty());
  EXPECT_TRUE(other_.registered().empty());
  EXPECT_EQ(registrations_.address_on(memory_.data(), 1, 0), nullptr);
  EXPECT_EQ(registrations_.num_ranges(), 0U);
}

TEST_F(HostRegistrationsTest, AnswersForWholeRangesOnly) {
  std::byte* const middle = memory_.data() + 1024;
  registrations_.add(middle, 1024, 0);
  EXPECT_EQ(registrations_.address_on(middle, 1024, 0), middle);
  EXPECT_EQ(registrations_.address_on(middle - 1, 2, 0), nullptr);
  EXPECT_EQ(registrations_.address_on(middle, 1025, 0), nullptr);
  EXPECT_EQ(registrations_.address_on(middle + 1, SIZE_MAX, 0), nullptr);
  EXPECT_EQ(registrations_.address_on(middle, 1, 2), nullptr) << "another address space";
  // A neighbour is a range of its own.
  registrations_.add(middle + 1024, 1024, 0);
  EXPECT_EQ(registrations_.address_on(middle, 2048, 0), nullptr);
  registrations_.remove(middle);
  registrations_.remove(middle + 1024);
}

TEST_F(HostRegistrationsTest, WhatRefusesIsPageableFromThenOnAndToldOnce) {
  first_.refuse(Status(StatusCode::kOutOfHostMemory, "locked memory is limited"));
  registrations_.add_for_all(memory_.data(), 2048);
  EXPECT_TRUE(registrations_.is_pageable(0));
  EXPECT_FALSE(registrations_.is_pageable(1)) << "another of the address space may do it";
  EXPECT_EQ(second_.registered().size(), 1U);
  first_.refuse({});
  registrations_.add_for_all(memory_.data() + 2048, 2048);
  EXPECT_EQ(first_.num_calls(), 1U);
  ASSERT_EQ(messages_.size(), 1U);
  EXPECT_NE(messages_[0].find("gpu:0"), std::string::npos) << messages_[0];
  EXPECT_NE(messages_[0].find("locked memory is limited"), std::string::npos) << messages_[0];
  registrations_.remove(memory_.data());
  registrations_.remove(memory_.data() + 2048);
  EXPECT_TRUE(second_.registered().empty());
}

TEST_F(HostRegistrationsTest, LeavesNothingWhereAllRefuse) {
  for (RegisteringDevice* device : {&first_, &second_, &other_}) {
    device->refuse(Status(StatusCode::kUnsupported, "no"));
  }
  registrations_.add_for_all(memory_.data(), memory_.size());
  EXPECT_EQ(registrations_.num_ranges(), 0U);
  EXPECT_EQ(messages_.size(), 3U);
  registrations_.remove(memory_.data());  // of what is not there
}

TEST_F(HostRegistrationsTest, AsksOnlyDevicesThatCan) {
  first_.set_caps({});
  registrations_.add(memory_.data(), memory_.size(), 0);
  EXPECT_EQ(first_.num_calls(), 0U);
  EXPECT_FALSE(registrations_.is_pageable(0));
  EXPECT_TRUE(messages_.empty());
}

}  // namespace
}  // namespace vmem
