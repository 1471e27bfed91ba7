// The main job, run in this process on simulated devices.
#include "tools/bench/bench.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/integration/temporary_folder.hpp"

namespace vmem {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

Json simulated(const char* name, const char* vendor = "simulated") {
  return {{"name", name}, {"vendor", vendor}, {"capacity", "64MiB"}, {"granularity", "64KiB"}};
}

class BenchTest : public testing::Test {
 protected:
  // Two vendors' devices with blocks small enough for a buffer that runs in a moment.
  BenchTest() {
    options_.inputs = {folder_.write("input", std::string(100'000, 'x') + "some other bytes, an odd number of them")};
    options_.size = "3MiB";
    options_.samples = 1;
    options_.quick = true;
    options_.command = "vmem bench";
    options_.json_file = folder_.path("results.json");
    devices_ = Json::array({simulated("sim:0", "one"), simulated("sim:1", "two")});
  }

  BenchExit run() {
    const Json topology{{"version", 1}, {"simulated_devices", devices_}};
    options_.topology_file = folder_.write("topology.json", topology.dump());
    return run_bench(options_, out_, err_);
  }
  Json results() { return Json::parse(folder_.read("results.json")); }

  TemporaryFolder folder_;
  BenchOptions options_;
  Json devices_;
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(BenchTest, EveryPatternIsRightOnEveryDevice) {
  ASSERT_EQ(run(), BenchExit::kOk) << err_.str() << out_.str();
  const Json json = results();
  for (const std::string device : {"sim:0", "sim:1", "host:0"}) {
    for (const std::string pattern :
         {"sequential", "strided", "random", "mixed", "iterating", "triad", "matmul", "stencil"}) {
      bool found = false;
      for (const Json& result : json["results"]) found |= result["name"] == pattern + " on " + device;
      EXPECT_TRUE(found) << pattern << " on " << device;
    }
  }
  for (const Json& result : json["results"]) {
    EXPECT_EQ(result["verified"], true) << result;
    EXPECT_EQ(result["samples"].size(), 1U) << result;
  }
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("sim:0 -> sim:1"), HasSubstr("simulated"), HasSubstr("bookkeeping of a ")));
  // Slow machines see how far it is, nothing else.
  EXPECT_THAT(err_.str(), Not(AnyOf(HasSubstr("mismatch"), HasSubstr(": error"))));
}

TEST_F(BenchTest, TheBufferIsThreeTimesLargerThanAnyGpu) {
  options_.patterns = {"sequential"};
  ASSERT_EQ(run(), BenchExit::kOk) << err_.str();
  const Json json = results();
  for (const Json& device : json["devices"]) {
    if (device["simulated"] != true) continue;
    EXPECT_LE(device["limit_bytes"].get<double>() * 3, json["buffer_bytes"].get<double>());
  }
}

TEST_F(BenchTest, DevicesWithoutKernelsWorkOnTheCpu) {
  devices_[0]["capabilities"] = {"virtual_memory"};
  devices_[1]["capabilities"] = {"peer_copy", "kernels"};
  options_.patterns = {"random", "mixed", "stencil"};
  options_.devices = {"host:0", "sim:1"};
  EXPECT_EQ(run(), BenchExit::kOk) << err_.str();
}

TEST_F(BenchTest, NamesTheByteThatIsWrong) {
  devices_[1]["faults"] = {{{"kind", "corrupt"}, {"call", "copy_from_host"}, {"after", 3}, {"count", 1000000}}};
  options_.patterns = {"sequential"};
  options_.devices = {"sim:1"};
  ASSERT_EQ(run(), BenchExit::kMismatch) << out_.str();
  EXPECT_THAT(err_.str(),
              ContainsRegex("mismatch after '.+': buffer 'main' at 0x[0-9a-f]+: block [0-9]+, offset [0-9]+: "
                            "expected 0x[0-9a-f]{2}, found 0x[0-9a-f]{2}; [0-9]+ byte"));
  // What was found is on record, too.
  EXPECT_EQ(results()["results"].back()["verified"], false);
  EXPECT_THAT(out_.str(), HasSubstr(" NO "));
}

TEST_F(BenchTest, FindsAWrongByteOfAComputation) {
  devices_[0]["faults"] = {{{"kind", "corrupt"}, {"call", "copy_to_host"}, {"after", 0}, {"count", 1000000}}};
  options_.patterns = {"triad"};
  options_.devices = {"sim:0"};
  ASSERT_EQ(run(), BenchExit::kMismatch) << out_.str();
  EXPECT_THAT(err_.str(), HasSubstr("buffer 'a'"));
}

TEST_F(BenchTest, FindsAWrongByteOfACopy) {
  devices_[0]["faults"] = {{{"kind", "corrupt"}, {"call", "copy_to_host"}, {"after", 0}, {"count", 1000000}}};
  options_.patterns = {"copy"};
  ASSERT_EQ(run(), BenchExit::kMismatch) << out_.str();
  EXPECT_THAT(err_.str(), HasSubstr("buffer 'copy of "));
}

TEST_F(BenchTest, CopiesOfEveryKindAreRightBetweenAllPairs) {
  options_.copies = true;
  options_.size = "";
  options_.least_copy = "16KiB";
  options_.most_copy = "256KiB";
  options_.report_file = folder_.path("curves.html");
  ASSERT_EQ(run(), BenchExit::kOk) << err_.str() << out_.str();
  const Json json = results();
  const auto rows = [&](const std::string& pattern, const std::string& from, const std::string& to) {
    std::size_t count = 0;
    for (const Json& row : json["results"]) {
      count += row["pattern"] == pattern && row["from"] == from && row["to"] == to ? 1 : 0;
    }
    return count;
  };
  for (const std::string from : {"sim:0", "sim:1", "host:0"}) {
    for (const std::string to : {"sim:0", "sim:1", "host:0"}) {
      if (from == to) continue;
      EXPECT_EQ(rows("copy", from, to), 3U) << from << " to " << to;
      EXPECT_EQ(rows("fetch", from, to), 2U) << "from 64 KiB on";
      EXPECT_EQ(rows("scattered", from, to), 2U);
    }
  }
  EXPECT_EQ(rows("exchange", "sim:0", "sim:1"), 3U);
  for (const Json& row : json["results"]) EXPECT_EQ(row["verified"], true) << row;
  EXPECT_THAT(folder_.read("curves.html"), AllOf(HasSubstr("copy: sim:0 to sim:1"), HasSubstr("<polyline")));
}

TEST_F(BenchTest, FindsAWrongByteOfEveryKindOfCopy) {
  options_.copies = true;
  options_.size = "";
  options_.devices = {"host:0", "sim:1"};
  options_.least_copy = options_.most_copy = "64KiB";
  // The copies into the GPU, one after the other: of `copy` and of what a pool does.
  std::vector<std::string> kinds;
  for (std::uint64_t after = 0; after < 40; ++after) {
    devices_[1]["faults"] = {{{"kind", "corrupt"}, {"call", "copy_from_host"}, {"after", after}, {"count", 1}}};
    out_.str("");
    err_.str("");
    const BenchExit exit = run();
    if (exit == BenchExit::kOk) continue;  // bytes that are written again, or that nobody reads
    ASSERT_EQ(exit, BenchExit::kMismatch) << err_.str();
    for (const std::string kind : {"copy", "fetch", "scattered"}) {
      if (err_.str().find("'" + kind + " of ") != std::string::npos) kinds.push_back(kind);
    }
  }
  EXPECT_THAT(kinds, ::testing::Contains("copy"));
  EXPECT_THAT(kinds, ::testing::Contains("fetch"));
}

TEST_F(BenchTest, ADeviceThatFailsIsAFailureAndNoMismatch) {
  devices_[0]["faults"] = {{{"kind", "vanish"}, {"call", "launch"}, {"after", 5}}};
  options_.patterns = {"sequential"};
  options_.devices = {"sim:0"};
  EXPECT_EQ(run(), BenchExit::kFailure) << out_.str();
  EXPECT_THAT(err_.str(), AllOf(HasSubstr("sim:0"), Not(HasSubstr("mismatch"))));
}

TEST_F(BenchTest, WrongUsageIsToldApart) {
  const auto expect_usage = [&](BenchOptions changed, const std::string& named) {
    std::ostringstream err;
    EXPECT_EQ(run_bench(changed, out_, err), BenchExit::kUsage);
    EXPECT_THAT(err.str(), HasSubstr(named));
  };
  BenchOptions options = options_;
  options.patterns = {"zigzag"};
  expect_usage(options, "zigzag");
  options = options_;
  options.size = "many";
  expect_usage(options, "many");
  options = options_;
  options.inputs = {folder_.path("nowhere")};
  expect_usage(options, "nowhere");
  options = options_;
  options.topology_file = folder_.write("bad.json", "{\"version\": 1, \"linksss\": []}");
  expect_usage(options, "linksss");
  options = options_;
  options.topology_file = folder_.path("no-topology.json");
  expect_usage(options, "no-topology.json");
  options = options_;
  options.devices = {"cuda:99"};
  expect_usage(options, "cuda:99");
  options.copies = true;
  options.size = "";
  expect_usage(options, "cuda:99");
  options = options_;
  options.copies = true;
  options.size = "";
  for (const char* size : {"0", "5000", "many", "1TiB", ""}) {
    options.least_copy = size;
    expect_usage(options, "--least");
  }
  options.least_copy = "1MiB";
  options.most_copy = "64KiB";
  expect_usage(options, "--most");
  options.most_copy = "";
  options.patterns = {"copy"};
  expect_usage(options, "--pattern");
  options.patterns = {};
  options.size = "1GiB";
  expect_usage(options, "--size");
  options.size = "";
  options.topology_file = folder_.write("good.json", R"({"version": 1})");
  options.devices = {"host:0"};
  expect_usage(options, "two devices");
}

TEST_F(BenchTest, SaysSoWhenTheResultsCannotBeWritten) {
  options_.patterns = {"sequential"};
  options_.json_file = folder_.path("no/such/folder.json");
  EXPECT_EQ(run(), BenchExit::kFailure);
  EXPECT_THAT(err_.str(), HasSubstr("no/such/folder.json"));
}

TEST_F(BenchTest, TheSeedDecidesTheBytesTouched) {
  options_.patterns = {"random"};
  options_.devices = {"sim:0"};
  ASSERT_EQ(run(), BenchExit::kOk) << err_.str();
  const Json first = results();
  ASSERT_EQ(run(), BenchExit::kOk);
  EXPECT_EQ(results()["results"][1]["bytes"], first["results"][1]["bytes"]);
  options_.seed = 2;
  ASSERT_EQ(run(), BenchExit::kOk);
  EXPECT_NE(results()["results"][1]["bytes"], first["results"][1]["bytes"]);
}

}  // namespace
}  // namespace vmem
