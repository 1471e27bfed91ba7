// main() of the test executables: GoogleTest's, and with VMEM_TESTS_FAIL_ON_SKIP a skipped test counts as failed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

class [[maybe_unused]] SkipsFail : public testing::EmptyTestEventListener {
  // Runs before the printer's: listeners are told of an end in reverse order.
  void OnTestEnd(const testing::TestInfo& info) override {
    if (info.result()->Skipped()) ADD_FAILURE() << "the test was skipped, and VMEM_TESTS_FAIL_ON_SKIP is on";
  }
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
#ifdef VMEM_TESTS_FAIL_ON_SKIP
  testing::UnitTest::GetInstance()->listeners().Append(new SkipsFail);
#endif
  return RUN_ALL_TESTS();
}
