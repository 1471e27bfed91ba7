#include <gtest/gtest.h>
#include <pthread.h>

#include <string>
#include <vector>

#include "runtime/topology/topology_file.hpp"

namespace vmem {
namespace {

// What an error must say: its line, its place and what is wrong.
struct BadFile {
  const char* name;
  std::string text;
  std::vector<std::string> expected;
};

std::string simulated(const std::string& member) {
  return "{\"version\": 1,\n \"simulated_devices\": [\n  {\"capacity\": \"64MiB\"},\n  {" + member + "}]}";
}

std::string link(const std::string& members) {
  return "{\"version\": 1,\n\"links\": [\n{\"from\": \"a\", \"to\": \"b\"" + members + "}]}";
}

class TopologyFileErrors : public testing::TestWithParam<BadFile> {};

TEST_P(TopologyFileErrors, NameTheFileTheLineThePlaceAndWhatWasExpected) {
  const auto file = parse_topology_file(GetParam().text, "bad.json");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code(), StatusCode::kConfigError);
  const std::string message(file.error().message());
  EXPECT_NE(message.find("bad.json"), std::string::npos) << message;
  for (const std::string& part : GetParam().expected) EXPECT_NE(message.find(part), std::string::npos) << message;
}

const BadFile kMissing[] = {
    {"Version", "{\n}", {"line 1", "$.version", "missing"}},
    {"Capacity", simulated("\"name\": \"x\""), {"line 4", "$.simulated_devices[1].capacity", "missing", "16GiB"}},
    {"LinkTo", "{\"version\": 1, \"links\": [{\"from\": \"a\", \"latency\": 1}]}", {"$.links[0].to", "missing"}},
    {"Device", "{\"version\": 1, \"devices\": [{}]}", {"$.devices[0].device", "missing"}},
    {"RouteDevices", "{\"version\": 1, \"routes\": [{}]}", {"$.routes[0].devices", "missing"}},
    {"FaultKind", simulated("\"capacity\": \"4MiB\", \"faults\": [{}]"), {"[1].faults[0].kind", "missing"}},
    {"WhatALinkSays", link(""), {"line 3", "$.links[0]", "says nothing", "bandwidth"}},
};

const BadFile kNumbers[] = {
    {"NegativeCapacity", simulated("\"capacity\": -1"), {"line 4", "[1].capacity", "found -1", "expected"}},
    {"ZeroCapacity", simulated("\"capacity\": 0"), {"[1].capacity", "found 0"}},
    {"FractionalCapacity", simulated("\"capacity\": 3.14"), {"[1].capacity", "found 3.14"}},
    {"WholeRealCapacity", simulated("\"capacity\": 1e9"), {"[1].capacity", "found 1e9"}},
    {"NullCapacity", simulated("\"capacity\": null"), {"[1].capacity", "found null"}},
    {"CapacityBeyond64Bits",
     simulated("\"capacity\": 18446744073709551716"),
     {"line 4", "[1].capacity", "found 18446744073709551716"}},
    {"CapacityBeyond64BitsAsText", simulated("\"capacity\": \"18446744073709551716\""), {"[1].capacity"}},
    {"CapacityBeyondAllNumbers", simulated("\"capacity\": 1e400"), {"line 4", "[1].capacity", "1e400", "range"}},
    {"CapacityBelowGranularity", simulated("\"capacity\": 4096"), {"[1].capacity", "2097152"}},
    {"NegativeNode", simulated("\"capacity\": \"4MiB\", \"numa_node\": -1"), {"[1].numa_node", "found -1", "65535"}},
    {"NodeBeyond32Bits", simulated("\"capacity\": \"4MiB\", \"numa_node\": 4294967296"), {"[1].numa_node"}},
    {"WaveWidth", simulated("\"capacity\": \"4MiB\", \"wave_width\": 33"), {"[1].wave_width", "32 or 64"}},
    {"Granularity", simulated("\"capacity\": \"4MiB\", \"granularity\": 5000"), {"[1].granularity", "power of two"}},
    {"NegativeBandwidth", link(", \"bandwidth\": -1"), {"line 3", "$.links[0].bandwidth", "found -1"}},
    {"ZeroBandwidth", link(", \"bandwidth\": 0"), {"$.links[0].bandwidth", "found 0"}},
    {"EndlessBandwidth", link(", \"bandwidth\": -1e400"), {"$.links[0].bandwidth", "range"}},
    {"TinyBandwidth", link(", \"bandwidth\": 1e-300"), {"$.links[0].bandwidth", "found 1e-300"}},
    {"BandwidthWithoutTime", link(", \"bandwidth\": \"25GB\""), {"$.links[0].bandwidth", "25GB/s"}},
    {"BandwidthInBits", link(", \"bandwidth\": \"25Gb/s\""), {"$.links[0].bandwidth", "25GB/s"}},
    {"NegativeLatency", link(", \"latency\": \"-5us\""), {"$.links[0].latency", "5us"}},
    {"NoLatency", link(", \"latency\": \"nan us\""), {"$.links[0].latency"}},
    {"EndlessLatency", link(", \"latency\": \"inf s\""), {"$.links[0].latency", "hour"}},
    {"Version", "{\"version\": 2}", {"$.version", "found 2"}},
};

const BadFile kTypes[] = {
    {"RootArray", "[]", {"line 1", "$", "object", "simulated_devices"}},
    {"RootNull", "null", {"$", "found null"}},
    {"LinksObject", "{\"version\": 1, \"links\": {}}", {"$.links", "an array", "found an object"}},
    {"LinkText", "{\"version\": 1, \"links\": [\"a\"]}", {"$.links[0]", "object", "\"a\""}},
    {"StrictNumber", "{\"version\": 1, \"strict\": 1}", {"$.strict", "true or false", "found 1"}},
    {"EmptyName", simulated("\"capacity\": \"4MiB\", \"name\": \"\""), {"[1].name", "not empty"}},
    {"NulInAName", simulated("\"capacity\": \"4MiB\", \"model\": \"a\\u0000b\""), {"[1].model"}},
    {"SpaceInAName", simulated("\"capacity\": \"4MiB\", \"name\": \"a b\""), {"[1].name", "characters"}},
    {"Pci", simulated("\"capacity\": \"4MiB\", \"pci\": \"41:00\""), {"[1].pci", "0000:41:00.0", "\"41:00\""}},
    {"Capability",
     simulated("\"capacity\": \"4MiB\", \"capabilities\": [\"kernels\", \"fly\"]"),
     {"[1].capabilities[1]", "peer_copy", "\"fly\""}},
    {"FaultKind",
     simulated("\"capacity\": \"4MiB\", \"faults\": [{\"kind\": \"boil\"}]"),
     {"[1].faults[0].kind", "vanish"}},
    {"UnknownKey", "{\"version\": 1,\n\"lnks\": []}", {"line 2", "\"lnks\"", "links", "routes"}},
    {"UnknownKeyOfALink", link(", \"bandwith\": 1"), {"$.links[0]", "\"bandwith\"", "bandwidth", "peer_access"}},
    {"ShortRoute", "{\"version\": 1, \"routes\": [{\"devices\": [\"a\"]}]}", {"$.routes[0].devices", "two to four"}},
    {"RouteOfNumbers", "{\"version\": 1, \"routes\": [{\"devices\": [\"a\", 1]}]}", {"$.routes[0].devices[1]"}},
    {"EmptySplit", "{\"version\": 1, \"devices\": [{\"device\": \"a\", \"split\": []}]}", {"$.devices[0].split"}},
};

const BadFile kSyntax[] = {
    {"Empty", "", {"line 1"}},
    {"Comment", "{\"version\": 1,\n// no\n\"strict\": true}", {"line 2", "comment"}},
    {"BlockComment", "{\"version\": 1\n\n/* no */}", {"line 3", "comment"}},
    {"TrailingCommaOfAnObject", "{\"version\": 1,\n}", {"line 2", "trailing comma"}},
    {"TrailingCommaOfAnArray", "{\"version\": 1, \"links\": [\n{\"from\": \"a\"},\n]}", {"line 3", "trailing comma"}},
    {"DuplicateKey", "{\"version\": 1,\n\"strict\": true,\n\"strict\": false}", {"line 3", "duplicate key \"strict\""}},
    {"DuplicateKeyInside", simulated("\"capacity\": 1,\n\"capacity\": 1"), {"line 5", "duplicate key \"capacity\""}},
    {"TwoValues", "{\"version\": 1}\n{}", {"line 2"}},
    {"CutOff", "{\"version\": 1,\n\"links\": [", {"line 2"}},
    {"NotANumber", "{\"version\": NaN}", {"line 1"}},
    {"BrokenUtf8", "{\"version\": 1, \"\xC3\": 1}", {"line 1"}},
};

const BadFile kTwice[] = {
    {"Link",
     link(", \"latency\": 1},\n{\"from\": \"b\", \"to\": \"a\", \"latency\": 1},\n{\"from\": \"a\", \"to\": \"b\", "
          "\"latency\": 1"),
     {"line 5", "$.links[2]", "line 3"}},
    {"SelfLink",
     "{\"version\": 1,\n\"links\": [{\"from\": \"a\", \"to\": \"a\", \"latency\": 1}]}",
     {"line 2", "$.links[0]", "itself"}},
    {"SimulatedName", simulated("\"capacity\": \"4MiB\", \"name\": \"sim:0\""), {"line 4", "[1].name", "\"sim:0\""}},
    {"Device",
     "{\"version\": 1, \"devices\": [{\"device\": \"a\"},\n{\"device\": \"a\"}]}",
     {"line 2", "$.devices[1]", "line 1"}},
    {"Route",
     "{\"version\": 1, \"routes\": [{\"devices\": [\"a\", \"b\"]},\n{\"devices\": [\"a\", \"c\", \"b\"]}]}",
     {"line 2", "$.routes[1]", "line 1"}},
    {"DeviceOfARoute", "{\"version\": 1, \"routes\": [{\"devices\": [\"a\", \"b\", \"a\"]}]}", {"devices[2]", "twice"}},
    {"Part",
     "{\"version\": 1, \"devices\": [{\"device\": \"a\", \"split\": [{\"name\": \"x\", \"capacity\": 1},\n{\"name\": "
     "\"x\", \"capacity\": 1}]}]}",
     {"line 2", "split[1].name", "\"x\""}},
    {"LimitAndSplit",
     "{\"version\": 1, \"devices\": [{\"device\": \"a\", \"limit\": 1, \"split\": [{\"capacity\": 1}]}]}",
     {"$.devices[0].limit"}},
};

std::string case_name(const testing::TestParamInfo<BadFile>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Missing, TopologyFileErrors, testing::ValuesIn(kMissing), case_name);
INSTANTIATE_TEST_SUITE_P(Numbers, TopologyFileErrors, testing::ValuesIn(kNumbers), case_name);
INSTANTIATE_TEST_SUITE_P(Types, TopologyFileErrors, testing::ValuesIn(kTypes), case_name);
INSTANTIATE_TEST_SUITE_P(Syntax, TopologyFileErrors, testing::ValuesIn(kSyntax), case_name);
INSTANTIATE_TEST_SUITE_P(Twice, TopologyFileErrors, testing::ValuesIn(kTwice), case_name);

struct DeepInput {
  std::string text;
  std::string message;
};

void* parse_deep(void* argument) {
  auto* input = static_cast<DeepInput*>(argument);
  const auto file = parse_topology_file(input->text, "deep.json");
  if (!file) input->message = file.error().message();
  return nullptr;
}

class TopologyFileDepth : public testing::TestWithParam<std::string> {};

TEST_P(TopologyFileDepth, IsBoundedEvenOnASmallStack) {
  DeepInput input;
  for (int i = 0; i < 100'000; ++i) input.text += GetParam();
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 256 * 1024), 0);
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, parse_deep, &input), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
  EXPECT_NE(input.message.find("nested deeper than 32"), std::string::npos) << input.message;
}

INSTANTIATE_TEST_SUITE_P(Kinds, TopologyFileDepth, testing::Values("[", "{\"a\":", "[{\"a\":"));

}  // namespace
}  // namespace vmem
