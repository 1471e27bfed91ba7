#include "backends/host/machine_memory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace vmem {
namespace {

// A machine made of files.
class MachineMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "vmem-machine-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void write_node(unsigned id, std::uint64_t total_kib, std::uint64_t free_kib, const std::string& cpus) {
    const std::string node = "Node " + std::to_string(id) + " ";
    const std::string folder = "/sys/devices/system/node/node" + std::to_string(id);
    write(folder + "/meminfo", node + "MemTotal:   " + std::to_string(total_kib) + " kB\n" + node +
                                   "MemFree:    " + std::to_string(free_kib) + " kB\n" + node + "FilePages:  0 kB\n");
    write(folder + "/cpulist", cpus + "\n");
  }

  std::string root_;
};

TEST_F(MachineMemoryTest, ReadsListsOfIds) {
  using Ids = std::vector<unsigned>;
  EXPECT_EQ(parse_id_list("0\n"), Ids{0});
  EXPECT_EQ(parse_id_list("0-2,5"), (Ids{0, 1, 2, 5}));
  EXPECT_EQ(parse_id_list("5,0-1,1"), (Ids{0, 1, 5}));
  EXPECT_EQ(parse_id_list(""), Ids{});
  // An unsigned reading of -1 would count to four thousand million.
  for (const char* junk :
       {"-1", "0-4294967295", "4096", "3-1", "a", "0-", ",", "0,,1", "99999999999999999999", "0x1"}) {
    EXPECT_EQ(parse_id_list(junk), std::nullopt) << junk;
  }
}

TEST_F(MachineMemoryTest, FindsNodesWithAndWithoutCpus) {
  write("/proc/meminfo", "MemTotal: 3072 kB\nMemFree: 100 kB\nMemAvailable:    3000 kB\n");
  write("/sys/devices/system/node/online", "0,2-3\n");
  write_node(0, 2048, 2000, "0-3");
  write_node(2, 1024, 1000, "");  // memory without CPUs, such as CXL's
  write_node(3, 0, 0, "4-7");     // CPUs without memory
  const auto nodes = discover_numa_nodes(root_);
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].id, 0U);
  EXPECT_TRUE(nodes[0].has_cpus);
  EXPECT_EQ(nodes[0].available_bytes, 2000U * 1024);
  EXPECT_EQ(nodes[1].id, 2U);
  EXPECT_FALSE(nodes[1].has_cpus);
  EXPECT_EQ(nodes[1].total_bytes, 1024U * 1024);
}

TEST_F(MachineMemoryTest, SharesWhatIsAvailableAmongNodes) {
  write("/proc/meminfo", "MemAvailable: 1000 kB\n");
  write("/sys/devices/system/node/online", "0-1");
  write_node(0, 3000, 3000, "0");
  write_node(1, 1000, 1000, "1");
  const auto nodes = discover_numa_nodes(root_);
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].available_bytes, 750U * 1024);
  EXPECT_EQ(nodes[1].available_bytes, 250U * 1024);
}

TEST_F(MachineMemoryTest, IsOneNodeOfUnknownNumberWithoutUsableFiles) {
  const auto expect_whole = [&] {
    const auto nodes = discover_numa_nodes(root_);
    ASSERT_EQ(nodes.size(), 1U);
    EXPECT_EQ(nodes[0].id, std::nullopt);
    EXPECT_EQ(nodes[0].available_bytes, 500U * 1024);
  };
  write("/proc/meminfo", "MemTotal: 900 kB\nMemAvailable: 500 kB\n");
  expect_whole();
  for (const char* junk : {"-1\n", "", "junk", "0-4294967295", "7"}) {
    SCOPED_TRACE(junk);
    write("/sys/devices/system/node/online", junk);
    expect_whole();
  }
  write("/sys/devices/system/node/online", "0");
  write("/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: -1 kB\n");
  expect_whole();
}

TEST_F(MachineMemoryTest, KnowsNothingOfAnEmptyMachine) {
  EXPECT_EQ(available_memory(root_), 0U);
  const auto nodes = discover_numa_nodes(root_);
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_EQ(nodes[0].available_bytes, 0U);
}

TEST_F(MachineMemoryTest, ObeysTheCgroupOfVersion2AndThoseAboveIt) {
  write("/proc/meminfo", "MemAvailable: 1000 kB\n");
  write("/proc/self/cgroup", "0::/a/b\n");
  EXPECT_EQ(available_memory(root_), 1000U * 1024);
  write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  write("/sys/fs/cgroup/a/b/memory.current", "100\n");
  EXPECT_EQ(available_memory(root_), 1000U * 1024);
  write("/sys/fs/cgroup/a/memory.max", "500000\n");
  write("/sys/fs/cgroup/a/memory.current", "200000\n");
  EXPECT_EQ(available_memory(root_), 300000U);
  write("/sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 50000\nactive_file 7\n");
  EXPECT_EQ(available_memory(root_), 350000U) << "page cache can be dropped";
  write("/sys/fs/cgroup/a/memory.current", "900000\n");
  EXPECT_EQ(available_memory(root_), 0U);
}

TEST_F(MachineMemoryTest, ObeysTheCgroupOfVersion1AlsoWhereOnlyTheContainersRootIsMounted) {
  write("/proc/meminfo", "MemAvailable: 1000 kB\n");
  write("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/1234\n0::/\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "400000\n");
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "100000\n");
  EXPECT_EQ(available_memory(root_), 300000U);
  // Unlimited, as version 1 writes it.
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(available_memory(root_), 1000U * 1024);
}

}  // namespace
}  // namespace vmem
