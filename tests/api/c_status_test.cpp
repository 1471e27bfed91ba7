#include <gtest/gtest.h>
#include <vmem/vmem.h>
#include <vmem/status.hpp>

#include <cstring>
#include <set>
#include <string>
#include <thread>

#include "tests/api/c_machine.hpp"

namespace {

TEST(CStatusTest, EveryCodeHasTheNameOfItsCppCounterpart) {
  std::set<std::string> texts;
  for (int code = 0; code <= vmemErrorInternal; ++code) {
    const auto status = static_cast<vmemStatus_t>(code);
    const std::string name = vmemGetErrorName(status);
    const auto cpp = std::string(vmem::to_string(static_cast<vmem::StatusCode>(code)));
    if (code == 0) {
      EXPECT_EQ(name, "vmemSuccess");
    } else if (code == vmemErrorIo || code == vmemErrorConfig) {
      EXPECT_EQ(name + "Error", "vmemError" + cpp);
    } else {
      EXPECT_EQ(name, "vmemError" + cpp);
    }
    texts.insert(vmemGetErrorString(status));
  }
  EXPECT_EQ(texts.size(), 16U);
}

TEST(CStatusTest, AnUnknownCodeIsNoCrash) {
  int wrong = 12345;
  vmemStatus_t status = vmemSuccess;
  std::memcpy(&status, &wrong, sizeof(status));
  EXPECT_STREQ(vmemGetErrorName(status), "unknown vmemStatus_t");
  EXPECT_STRNE(vmemGetErrorString(status), "");
}

TEST(CStatusTest, TheVersionIsTheHeaders) {
  int version = 0;
  ASSERT_OK(vmemGetVersion(&version));
  EXPECT_EQ(version, VMEM_VERSION);
  EXPECT_FAILS(vmemErrorInvalidValue, "'version' is NULL", vmemGetVersion(nullptr));
}

TEST(CStatusTest, EachThreadHasItsOwnMessage) {
  EXPECT_EQ(vmemGetVersion(nullptr), vmemErrorInvalidValue);
  const std::string mine = vmemGetLastErrorMessage();
  std::thread([] {
    EXPECT_STREQ(vmemGetLastErrorMessage(), "");
    EXPECT_EQ(vmemGetDeviceCount(nullptr, nullptr), vmemErrorInvalidValue);
  }).join();
  EXPECT_EQ(vmemGetLastErrorMessage(), mine);
  // A success leaves it alone.
  int version = 0;
  EXPECT_OK(vmemGetVersion(&version));
  EXPECT_EQ(vmemGetLastErrorMessage(), mine);
}

}  // namespace
