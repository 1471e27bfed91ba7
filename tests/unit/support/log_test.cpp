#include "runtime/support/log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace vmem {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

class LogTest : public testing::Test {
 protected:
  void collect(Logger& logger) {
    logger.set_callback([this](LogLevel level, std::string_view text) { messages_.emplace_back(level, text); });
  }

  std::vector<std::pair<LogLevel, std::string>> messages_;
};

TEST_F(LogTest, PassesMessagesFromItsLevelUp) {
  Logger logger(LogLevel::kWarn);
  collect(logger);
  logger.error("broken");
  logger.warn("odd");
  logger.info("usual");
  EXPECT_THAT(messages_, ElementsAre(Pair(LogLevel::kError, "broken"), Pair(LogLevel::kWarn, "odd")));
}

TEST_F(LogTest, LevelsChangeWhileItRuns) {
  Logger logger(LogLevel::kOff);
  collect(logger);
  logger.error("unheard");
  EXPECT_FALSE(logger.enabled(LogLevel::kError));
  EXPECT_FALSE(logger.enabled(LogLevel::kOff));
  logger.set_level(LogLevel::kDebug);
  logger.debug("heard");
  EXPECT_EQ(logger.level(), LogLevel::kDebug);
  EXPECT_THAT(messages_, ElementsAre(Pair(LogLevel::kDebug, "heard")));
}

TEST_F(LogTest, BracesInAMessageAreText) {
  Logger logger;
  testing::internal::CaptureStderr();
  logger.warn("{} and {0}");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("{} and {0}"));
}

TEST_F(LogTest, WithoutACallbackMessagesGoToStandardError) {
  Logger logger;
  collect(logger);
  logger.set_callback({});
  testing::internal::CaptureStderr();
  logger.warn("back on the console");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("warning: back on the console"));
  EXPECT_THAT(messages_, IsEmpty());
}

TEST_F(LogTest, WarnsOncePerKey) {
  Logger logger;
  collect(logger);
  logger.warn_once("memlock", "first");
  logger.warn_once("memlock", "second");
  logger.warn_once("hugepages", "third");
  EXPECT_THAT(messages_, ElementsAre(Pair(LogLevel::kWarn, "first"), Pair(LogLevel::kWarn, "third")));
}

TEST_F(LogTest, ACallbackThatThrowsHarmsNobody) {
  Logger logger;
  logger.set_callback([](LogLevel, std::string_view) { throw std::runtime_error("callback"); });
  logger.warn("lost");
  collect(logger);
  logger.warn("kept");
  EXPECT_THAT(messages_, ElementsAre(Pair(LogLevel::kWarn, "kept")));
}

TEST_F(LogTest, ThreadsShareIt) {
  Logger logger;
  collect(logger);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&logger] {
      for (int n = 0; n < 100; ++n) logger.warn("message");
      logger.warn_once("key", "once");
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(messages_.size(), 401U);
}

TEST_F(LogTest, LevelsHaveNames) {
  for (const LogLevel level : {LogLevel::kOff, LogLevel::kError, LogLevel::kWarn, LogLevel::kInfo, LogLevel::kDebug}) {
    EXPECT_EQ(parse_log_level(to_string(level)), level);
  }
  EXPECT_EQ(parse_log_level("WARN"), std::nullopt);
  EXPECT_EQ(to_string(static_cast<LogLevel>(9)), "unknown");
}

}  // namespace
}  // namespace vmem
