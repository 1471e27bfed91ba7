#include "tools/vmem/topo_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "tests/unit/topology/device_samples.hpp"

namespace vmem {
namespace {

using std::chrono::nanoseconds;
using testing::HasSubstr;
using testing::Not;

Link make_link(DeviceIndex from, DeviceIndex to, double rate, LinkSource source, bool peer = false) {
  return Link{from, to, peer, rate, nanoseconds(7000), source};
}

Topology machine(std::vector<Link> links) {
  std::vector<TopologyDevice> devices(3);
  devices[0].info = sample_gpu("cuda:0", "nvidia", {0, 0x41, 0, 0});
  devices[0].info.model = "Card\x1b[31m";
  devices[0].limit_bytes = 8_GiB;
  devices[0].link_width = 4;
  devices[0].link_width_max = 16;
  devices[0].link_gts = 32;
  devices[1].info = sample_simulated("sim:0", "simulated");
  devices[2].info = sample_host(0);
  return Topology(devices, std::move(links), {}, {{"cuda:0", "narrow slot"}, {"", "no peers"}},
                  {{"rocm", "no driver"}});
}

std::string print(const Topology& topology, const std::vector<MemoryInfo>& memory = {}) {
  std::ostringstream out;
  print_topology(topology, memory, out);
  return out.str();
}

TEST(TopoTableTest, ShowsDevicesWithTheirMemoryAndSlots) {
  const std::string text = print(machine({}), {{3_GiB, 16_GiB}});
  EXPECT_THAT(text,
              testing::ContainsRegex("cuda:0 +GPU +Card\\?\\[31m +16.0 GiB +3.0 GiB +8.0 GiB +unknown +x4 of x16, "
                                     "32.0 GT/s\n"));
  EXPECT_THAT(text, testing::ContainsRegex("sim:0 +simulated GPU +64.0 MiB +unknown"));
  EXPECT_THAT(text, testing::ContainsRegex("host:0 +host memory +32.0 GiB +unknown +0 B +0 +-\n"));
}

TEST(TopoTableTest, ShowsRoutesWithTheirRates) {
  const std::string text =
      print(machine({make_link(0, 2, 25e9, LinkSource::kMeasured), make_link(2, 1, 10e9, LinkSource::kMeasured),
                     make_link(2, 0, 26e9, LinkSource::kAssumed), make_link(1, 0, 400e9, LinkSource::kFile, true)}));
  EXPECT_THAT(text, testing::ContainsRegex("cuda:0 +- +10.0\\+ +25.0\n"));
  EXPECT_THAT(text, testing::ContainsRegex("sim:0 +400.0p +- +25.0\\+\n"));
  EXPECT_THAT(text, testing::ContainsRegex("host:0 +26.0~ +10.0 +-\n"));
  EXPECT_THAT(text, HasSubstr("cuda:0 -> host:0 -> sim:0  10.0 GB/s  14.0 us"));
  for (const char* mark : {"~ not measured", "p straight", "+ through"}) EXPECT_THAT(text, HasSubstr(mark));
  EXPECT_THAT(text, Not(HasSubstr("! forced")));
}

TEST(TopoTableTest, SaysWhereThereIsNoWay) {
  const std::string text = print(machine({make_link(0, 2, 25e9, LinkSource::kMeasured)}));
  EXPECT_THAT(text, testing::ContainsRegex("host:0 +none +none +-\n"));
  EXPECT_THAT(text, Not(HasSubstr("not measured")));
}

TEST(TopoTableTest, ShowsAbsentBackendsAndNotes) {
  const std::string text = print(machine({}));
  EXPECT_THAT(text, HasSubstr("rocm  no driver\n"));
  EXPECT_THAT(text, HasSubstr("cuda:0: narrow slot\n"));
  EXPECT_THAT(text, HasSubstr("  no peers\n"));
}

TEST(TopoTableTest, StandsAnEmptyMachine) { EXPECT_THAT(print(Topology()), HasSubstr("Devices")); }

}  // namespace
}  // namespace vmem
