#include "tools/bench/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vmem/version.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/integration/temporary_folder.hpp"
#include "tools/bench/operation_report.hpp"
#include "tools/bench/progress.hpp"
#include "tools/bench/samples.hpp"

namespace vmem {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

BenchRow row() {
  BenchRow row;
  row.name = "sequential on sim:0";
  row.pattern = "sequential";
  row.from = "pool";
  row.to = "sim:0";
  row.bytes = 1000;
  row.samples = {4, 1, 2};
  row.reference = {"the same work in host memory", {1, 1, 5}};
  row.simulated = true;
  row.verified = true;
  return row;
}

TEST(SamplesTest, TheMedianIsTheMiddle) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 2}), 2);
  EXPECT_EQ(median({9, 1, 2, 3}), 2.5);
}

TEST(BenchReportTest, TheRatioIsMeasuredOverReference) {
  EXPECT_EQ(row().seconds(), 2);
  EXPECT_EQ(row().bytes_per_second(), 500);
  EXPECT_EQ(row().reference_bytes_per_second(), 1000);
  EXPECT_EQ(row().ratio(), 0.5);
  EXPECT_EQ(BenchRow().ratio(), 0);
}

TEST(BenchReportTest, TheTableIsAligned) {
  BenchRow wrong = row();
  wrong.verified = false;
  wrong.simulated = false;
  const std::string header = table_header();
  EXPECT_EQ(header.find("rate") + 4, table_line(row()).find("500.0 B/s") + 9);
  EXPECT_EQ(header.find("verified"), table_line(row()).find("yes"));
  EXPECT_EQ(header.find("verified"), table_line(wrong).find("NO"));
  EXPECT_THAT(table_line(row()), HasSubstr("simulated"));
  EXPECT_THAT(table_line(wrong), HasSubstr("real"));
}

TEST(BenchReportTest, WritesWhatTheFormatPromises) {
  BenchReport report;
  report.command = "vmem bench --quick";
  report.rows = {row()};
  report.drivers = {{"host", "built in"}};
  report.stats.emplace();
  report.stats->devices.push_back({"sim:0", 0, 0, 0, 0, 0, 0, 0.25, false});
  report.sparse = SparseFigures{1_TiB, 1000, {{1_GiB, 3000}, {2_GiB, 5000}}};
  const Json json = Json::parse(to_json(report));
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["vmem"], VMEM_VERSION_STRING);
  EXPECT_FALSE(json["commit"].get<std::string>().empty());
  EXPECT_GT(json["machine"]["cores"], 0);
  EXPECT_GT(json["machine"]["memory_bytes"], 0);
  const Json& result = json["results"][0];
  EXPECT_EQ(result["name"], "sequential on sim:0");
  EXPECT_EQ(result["samples"].size(), 3U);
  EXPECT_EQ(result["bytes_per_second"], 500.0);
  EXPECT_EQ(result["reference"]["bytes_per_second"], 1000.0);
  EXPECT_EQ(result["ratio"], 0.5);
  EXPECT_EQ(result["verified"], true);
  EXPECT_EQ(json["fragmentation"]["devices"]["sim:0"], 0.25);
  EXPECT_EQ(json["bookkeeping"]["bookkeeping_bytes_per_gib_touched"], 2000.0);
}

TEST(BenchReportTest, StandsNamesThatAreNoText) {
  BenchReport report;
  report.command = "vmem bench --input \xff\xfe";
  EXPECT_FALSE(Json::parse(to_json(report), nullptr, false).is_discarded());
}

TEST(BenchReportTest, SaysWhyAFileCannotBeWritten) {
  const TemporaryFolder folder;
  EXPECT_TRUE(write_file(folder.path("results.json"), "{}"));
  EXPECT_EQ(folder.read("results.json"), "{}");
  const Status status = write_file(folder.path("no/such/folder.json"), "{}");
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_THAT(status.to_string(), HasSubstr("no/such/folder.json"));
}

TEST(ProgressTest, RewritesOneLineOfATerminalAndTakesItAway) {
  std::ostringstream stream;
  Progress progress(stream, true);
  progress.start("a long name");
  progress.start("short");
  EXPECT_EQ(stream.str(), "\ra long name\rshort      ");
  progress.clear();
  EXPECT_EQ(stream.str().substr(stream.str().size() - 7), "\r     \r");
}

TEST(ProgressTest, SaysNothingAtOnceElsewhere) {
  std::ostringstream stream;
  Progress progress(stream, false);
  progress.start("something quick");
  progress.clear();
  EXPECT_EQ(stream.str(), "");
}

TEST(OperationReportTest, ReachesByRatioOrByTime) {
  OperationRow fast{"acquire", "acquire", 1, 10, {2}, "mutex", {1}, 1.0, 0.3};
  EXPECT_EQ(fast.ratio(), 0.5);
  EXPECT_TRUE(fast.reached());
  fast.most_seconds = 0.1;
  EXPECT_FALSE(fast.reached());
  fast.least_ratio = 0.4;
  EXPECT_TRUE(fast.reached());
  const Json json = Json::parse(operation_json("benchmark", {fast}));
  EXPECT_EQ(json["results"][0]["operations_per_second"], 5.0);
  EXPECT_EQ(json["results"][0]["reached"], true);
}

}  // namespace
}  // namespace vmem
