#include "runtime/topology/link_cache.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/topology/device_samples.hpp"
#include "tests/unit/topology/scratch_folder.hpp"

namespace vmem {
namespace {

using std::chrono::nanoseconds;

Topology machine_with(double rate, LinkSource source, bool swapped_names = false) {
  std::vector<TopologyDevice> devices(3);
  devices[0].info = sample_gpu("cuda:0", "nvidia", {});
  devices[1].info = sample_gpu("cuda:1", "nvidia", {});
  devices[2].info = sample_host(0);
  if (swapped_names) {
    std::swap(devices[0].info.uuid, devices[1].info.uuid);
  }
  return Topology(
      devices,
      {Link{0, 2, false, rate, nanoseconds(700), source}, Link{2, 0, false, rate * 2, nanoseconds(800), source},
       Link{1, 2, true, rate * 3, nanoseconds(900), source}},
      {}, {}, {});
}

Machine pci_machine(unsigned device_id = 0x2684) {
  Machine machine;
  machine.numa_nodes.push_back({0, 1, true});
  PciDevice device;
  device.address = {0, 2, 0, 0};
  device.vendor_id = 0x10de;
  device.device_id = static_cast<std::uint16_t>(device_id);
  machine.pci_devices.push_back(device);
  return machine;
}

LinkCacheKey key_of(const Machine& machine = pci_machine(), const std::string& id = "id-1",
                    const std::string& version = "580.1") {
  return make_link_cache_key(machine, id, {{"rocm", "6.2"}, {"cuda", version}});
}

class LinkCacheTest : public testing::Test {
 protected:
  ScratchFolder folder;
  LinkCache cache{folder.path() + "/deep/vmem"};
  Topology measured = machine_with(25e9, LinkSource::kMeasured);
  Topology unmeasured = machine_with(1e9, LinkSource::kAssumed);
};

TEST_F(LinkCacheTest, GivesBackWhatWasStored) {
  ASSERT_TRUE(cache.store(key_of(), measured));
  const auto cached = cache.load(key_of(), unmeasured);
  EXPECT_EQ(cached.warning, "");
  EXPECT_TRUE(cached.complete);
  ASSERT_EQ(cached.links.size(), 3U);
  EXPECT_DOUBLE_EQ(cached.links[0].bytes_per_second, 25e9);
  EXPECT_DOUBLE_EQ(cached.links[1].bytes_per_second, 50e9);
  EXPECT_EQ(cached.links[2].latency, nanoseconds(900));
  EXPECT_TRUE(cached.links[2].peer);
  EXPECT_EQ(cached.links[0].source, LinkSource::kMeasured);
}

TEST_F(LinkCacheTest, HasNothingBeforeTheFirstStore) {
  const auto cached = cache.load(key_of(), unmeasured);
  EXPECT_TRUE(cached.links.empty());
  EXPECT_FALSE(cached.complete);
  EXPECT_EQ(cached.warning, "");
}

TEST_F(LinkCacheTest, KnowsDevicesByIdentityNotByName) {
  ASSERT_TRUE(cache.store(key_of(), measured));
  const auto cached = cache.load(key_of(), machine_with(1e9, LinkSource::kAssumed, true));
  ASSERT_EQ(cached.links.size(), 2U);
  EXPECT_EQ(cached.links[0].from, 0U);
  EXPECT_DOUBLE_EQ(cached.links[0].bytes_per_second, 75e9);
  EXPECT_EQ(cached.links[1].from, 1U);
  EXPECT_DOUBLE_EQ(cached.links[1].bytes_per_second, 25e9);
  EXPECT_FALSE(cached.complete);
}

TEST_F(LinkCacheTest, IsVoidAfterAnyChangeOfMachineOrDriver) {
  ASSERT_TRUE(cache.store(key_of(), measured));
  Machine moved = pci_machine();
  moved.pci_devices[0].address.bus = 3;
  Machine grown = pci_machine();
  grown.pci_devices.push_back(grown.pci_devices[0]);
  for (const LinkCacheKey& other :
       {key_of(pci_machine(), "id-2"), key_of(pci_machine(), "id-1", "580.2"), key_of(pci_machine(0x2685)),
        key_of(moved), key_of(grown), make_link_cache_key(pci_machine(), "id-1", {{"cuda", "580.1"}})}) {
    EXPECT_TRUE(cache.load(other, unmeasured).links.empty());
  }
  EXPECT_TRUE(cache.load(key_of(), unmeasured).complete);
}

TEST_F(LinkCacheTest, ComparesTheKeyAndNotOnlyTheFilesName) {
  ASSERT_TRUE(cache.store(key_of(), measured));
  const LinkCacheKey other = key_of(pci_machine(), "id-2");
  std::filesystem::copy_file(cache.path(key_of()), cache.path(other));
  EXPECT_TRUE(cache.load(other, unmeasured).links.empty());
}

TEST_F(LinkCacheTest, ANewLaneCountMakesMeasurementsVoid) {
  const ScratchFolder sysfs;
  Machine machine = pci_machine();
  machine.sysfs_root = sysfs.path();
  sysfs.write("bus/pci/devices/0000:02:00.0/current_link_width", "16\n");
  const LinkCacheKey wide = key_of(machine);
  sysfs.write("bus/pci/devices/0000:02:00.0/current_link_width", "4\n");
  EXPECT_NE(key_of(machine).machine, wide.machine);
}

TEST_F(LinkCacheTest, DoesNotDependOnTheOrderOfDrivers) {
  EXPECT_EQ(make_link_cache_key(pci_machine(), "i", {{"a", "1"}, {"b", "2"}}).drivers,
            make_link_cache_key(pci_machine(), "i", {{"b", "2"}, {"a", "1"}}).drivers);
}

TEST_F(LinkCacheTest, StoresOnlyWhatWasMeasured) {
  ASSERT_TRUE(cache.store(key_of(), unmeasured));
  const auto cached = cache.load(key_of(), unmeasured);
  EXPECT_TRUE(cached.links.empty());
  EXPECT_FALSE(cached.complete);
}

TEST_F(LinkCacheTest, LinksOfTheFileAreNeitherLoadedNorMissed) {
  ASSERT_TRUE(cache.store(key_of(), unmeasured));
  EXPECT_TRUE(cache.load(key_of(), machine_with(1e9, LinkSource::kFile)).complete);
}

TEST_F(LinkCacheTest, IgnoresEveryDamagedFileWithAWarning) {
  ASSERT_TRUE(cache.store(key_of(), measured));
  const std::string path = cache.path(key_of());
  std::ifstream stream(path);
  const std::string good{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  for (std::size_t length = 0; length + 2 < good.size(); length += 7) {
    std::ofstream(path) << good.substr(0, length);
    const auto cached = cache.load(key_of(), unmeasured);
    ASSERT_TRUE(cached.links.empty()) << length;
    ASSERT_FALSE(cached.warning.empty()) << length;
  }
  for (const char* text : {"null", "{}", "[[[[", "{\"version\": 2}", "\xff\xfe",
                           "{\"version\": 1, \"machine\": \"m\", \"drivers\": \"d\", \"links\": [{\"from\": \"a\", "
                           "\"to\": \"b\", \"bytes_per_second\": -1, \"latency_ns\": 0}]}"}) {
    std::ofstream(path) << text;
    EXPECT_FALSE(cache.load(key_of(), unmeasured).warning.empty()) << text;
  }
  ASSERT_TRUE(cache.store(key_of(), measured));
  EXPECT_TRUE(cache.load(key_of(), unmeasured).complete);
}

TEST_F(LinkCacheTest, SaysWhyItCanNotBeWritten) {
  folder.write("file", "x");
  const LinkCache blocked(folder.path() + "/file/vmem");
  const Status status = blocked.store(key_of(), measured);
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_NE(status.message().find("/file/vmem"), std::string::npos);
  EXPECT_TRUE(blocked.load(key_of(), unmeasured).links.empty());
}

TEST_F(LinkCacheTest, LeavesNoTemporaryFiles) {
  ASSERT_TRUE(cache.store(key_of(), measured));
  ASSERT_TRUE(cache.store(key_of(), measured));
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() + "/deep/vmem"))
    files += entry.is_regular_file();
  EXPECT_EQ(files, 1U);
}

TEST_F(LinkCacheTest, ReadersSeeWholeFilesWhileOthersWrite) {
  ASSERT_TRUE(cache.store(key_of(), measured));
  std::atomic<bool> stop = false;
  std::vector<std::thread> writers;
  for (int i = 1; i <= 3; ++i) {
    writers.emplace_back([&, i] {
      const Topology mine = machine_with(1e9 * i, LinkSource::kMeasured);
      while (!stop) EXPECT_TRUE(cache.store(key_of(), mine));
    });
  }
  for (int i = 0; i < 300; ++i) {
    const auto cached = cache.load(key_of(), unmeasured);
    EXPECT_EQ(cached.warning, "");
    if (cached.links.size() == 3) {
      EXPECT_DOUBLE_EQ(cached.links[1].bytes_per_second, 2 * cached.links[0].bytes_per_second);
    } else {
      ADD_FAILURE() << cached.links.size();
    }
  }
  stop = true;
  for (std::thread& writer : writers) writer.join();
}

TEST(LinkCacheDirectoryTest, FollowsTheBaseDirectorySpecification) {
  ASSERT_EQ(setenv("HOME", "/home/u", 1), 0);
  ASSERT_EQ(setenv("XDG_CACHE_HOME", "/c", 1), 0);
  EXPECT_EQ(LinkCache::default_directory(), "/c/vmem");
  ASSERT_EQ(setenv("XDG_CACHE_HOME", "relative", 1), 0);
  EXPECT_EQ(LinkCache::default_directory(), "/home/u/.cache/vmem");
  ASSERT_EQ(unsetenv("XDG_CACHE_HOME"), 0);
  EXPECT_EQ(LinkCache::default_directory(), "/home/u/.cache/vmem");
  ASSERT_EQ(unsetenv("HOME"), 0);
  EXPECT_EQ(LinkCache::default_directory(), std::nullopt);
}

}  // namespace
}  // namespace vmem
