#include <vmem/runtime.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tests/unit/pool/scoped_environment.hpp"

namespace vmem {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class RuntimeTest : public ::testing::Test {
 protected:
  RuntimeTest() {
    folder_ = std::filesystem::temp_directory_path() / ("vmem_runtime_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    environment_.set("XDG_CACHE_HOME", folder_);
    for (const char* name : {"VMEM_TOPOLOGY", "VMEM_SIMULATED_GPUS", "VMEM_HOST_LIMIT", "VMEM_STAGING_LIMIT",
                             "VMEM_COPY_TIMEOUT_MS", "VMEM_LOG"}) {
      environment_.unset(name);
    }
    environment_.set("VMEM_BACKEND_DIR", VMEM_TEST_BACKENDS);
    options_.log = [this](LogLevel, std::string_view message) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(message);
    };
  }
  ~RuntimeTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Runtime> open() {
    auto runtime = Runtime::create(options_);
    EXPECT_TRUE(runtime) << runtime.error().to_string();
    return runtime ? std::move(*runtime) : nullptr;
  }

  void use_topology(const std::string& text) {
    options_.topology_file = folder_ / "topology.json";
    std::ofstream(options_.topology_file) << text;
  }

  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

  std::filesystem::path folder_;
  ScopedEnvironment environment_;
  RuntimeOptions options_;
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

std::vector<std::string> names_of(const Topology& topology) {
  std::vector<std::string> names;
  for (const TopologyDevice& device : topology.devices()) names.push_back(device.info.name);
  return names;
}

std::string reason_of(const Topology& topology, std::string_view name) {
  for (const AbsentBackend& backend : topology.absent_backends()) {
    if (backend.name == name) return backend.reason;
  }
  return {};
}

// Memory of a device, given back at the end of a scope.
class Block {
 public:
  Block(Device& device, std::size_t bytes) : device_(device), address_(device.allocate(bytes).value()) {}
  ~Block() { EXPECT_TRUE(device_.deallocate(address_)); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  void* get() const { return address_; }

 private:
  Device& device_;
  void* address_;
};

// Runs `check` in a fork; a child that does not end kills itself.
template <typename Check>
bool in_fork(Check check) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ::_exit(check() ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(RuntimeTest, AMachineWithoutGpusGetsTwoSimulatedOnes) {
  const auto runtime = open();
  ASSERT_TRUE(runtime);
  const auto& devices = runtime->topology().devices();
  ASSERT_GE(devices.size(), 3U);
  EXPECT_EQ(devices[0].info.name, "sim:0");
  EXPECT_EQ(devices[1].info.name, "sim:1");
  EXPECT_EQ(devices[2].info.name, "host:0");
  EXPECT_TRUE(devices[0].info.simulated);
  EXPECT_NE(devices[0].info.vendor, devices[1].info.vendor);
  for (DeviceIndex i = 0; i < devices.size(); ++i) {
    EXPECT_EQ(runtime->device(i).info().name, devices[i].info.name);
    EXPECT_EQ(*runtime->find(devices[i].info.name), i);
  }
  EXPECT_EQ(runtime->find("no:such").error().code(), StatusCode::kNotFound);
}

TEST_F(RuntimeTest, NamesTheDriversOfTheBackendsThatAreThere) {
  const auto runtime = open();
  ASSERT_NE(runtime, nullptr);
  const auto drivers = runtime->drivers();
  ASSERT_EQ(drivers.count("host"), 1U);
  EXPECT_FALSE(drivers.at("host").empty());
  for (const AbsentBackend& absent : runtime->topology().absent_backends()) EXPECT_EQ(drivers.count(absent.name), 0U);
}

TEST_F(RuntimeTest, NoSimulatedGpusLeaveHostMemory) {
  options_.simulated_gpus = 0;
  const auto runtime = open();
  ASSERT_TRUE(runtime);
  for (const TopologyDevice& device : runtime->topology().devices()) EXPECT_EQ(device.info.tier, Tier::kHost);
  EXPECT_FALSE(runtime->topology().devices().empty());
}

TEST_F(RuntimeTest, WithoutAnyBackendThereAreNoDevicesAndAReason) {
  environment_.set("VMEM_BACKEND_DIR", folder_);
  const auto runtime = open();
  ASSERT_TRUE(runtime);
  EXPECT_TRUE(runtime->topology().devices().empty());
  EXPECT_THAT(reason_of(runtime->topology(), "host"), HasSubstr(folder_.string()));
}

TEST_F(RuntimeTest, AnotherPartysBackendTakesPart) {
  environment_.set("VMEM_BACKEND_DIR", VMEM_TEST_MODULES);
  const auto runtime = open();
  ASSERT_TRUE(runtime);
  EXPECT_THAT(names_of(runtime->topology()), ElementsAre("right:0"));
  EXPECT_THAT(lines(), Contains("a line from backend right"));
  EXPECT_THAT(lines(), Contains(HasSubstr("device 'right:0' of backend 'right' is left out: its name is another")));
  EXPECT_THAT(reason_of(runtime->topology(), "discover_fails"), HasSubstr("the driver fell over"));
  EXPECT_THAT(reason_of(runtime->topology(), "discover_throws"), HasSubstr("no devices today"));
  EXPECT_THAT(reason_of(runtime->topology(), "create_fails"), HasSubstr("too old"));
  EXPECT_THAT(reason_of(runtime->topology(), "not_elf"), Not(HasSubstr("unknown error")));
}

TEST_F(RuntimeTest, ABackendsConfigErrorIsTheRuntimes) {
  options_.backend_dir = VMEM_TEST_WRONG_CONFIG;
  const auto runtime = Runtime::create(options_);
  ASSERT_FALSE(runtime);
  EXPECT_EQ(runtime.error().code(), StatusCode::kConfigError);
  EXPECT_THAT(std::string(runtime.error().message()), HasSubstr("VMEM_SOMETHING='x'"));
}

TEST_F(RuntimeTest, TheTopologyFileDefinesTheSimulatedGpus) {
  use_topology(R"({"version": 1, "simulated_devices": [
    {"name": "left:0", "capacity": "64MiB", "vendor": "l"}, {"name": "right:0", "capacity": "32MiB", "vendor": "r"}]})");
  const auto runtime = open();
  ASSERT_TRUE(runtime);
  EXPECT_THAT(names_of(runtime->topology()), Contains("left:0"));
  EXPECT_THAT(names_of(runtime->topology()), Contains("right:0"));
  EXPECT_THAT(names_of(runtime->topology()), Not(Contains("sim:0")));
  EXPECT_EQ(runtime->device(*runtime->find("right:0")).info().total_bytes, 32_MiB);
}

TEST_F(RuntimeTest, AWrongTopologyFileNamesWhoAskedForIt) {
  environment_.set("VMEM_TOPOLOGY", "/no/such/file.json");
  auto runtime = Runtime::create(options_);
  ASSERT_FALSE(runtime);
  EXPECT_EQ(runtime.error().code(), StatusCode::kConfigError);
  EXPECT_THAT(std::string(runtime.error().message()),
              HasSubstr("environment variable VMEM_TOPOLOGY='/no/such/file.json'"));
  use_topology("{");
  runtime = Runtime::create(options_);
  ASSERT_FALSE(runtime);
  EXPECT_EQ(runtime.error().code(), StatusCode::kConfigError);
  EXPECT_THAT(std::string(runtime.error().message()), HasSubstr("option topology_file="));
}

TEST_F(RuntimeTest, ASplitCardBecomesLogicalDevices) {
  use_topology(R"({"version": 1, "simulated_devices": [{"name": "card:0", "capacity": "64MiB"}],
    "devices": [{"device": "card:0", "split": [{"name": "a", "capacity": "16MiB"}, {"name": "b", "capacity": "48MiB"}]}]})");
  const auto runtime = open();
  ASSERT_TRUE(runtime);
  const auto a = runtime->find("card:0/a");
  const auto b = runtime->find("card:0/b");
  ASSERT_TRUE(a);
  ASSERT_TRUE(b);
  EXPECT_FALSE(runtime->find("card:0"));
  EXPECT_FALSE(runtime->device(*a).allocate(17_MiB));
  const Block block(runtime->device(*a), 16_MiB);
  EXPECT_FALSE(runtime->device(*a).allocate(1_MiB));
  const Block other(runtime->device(*b), 48_MiB);
  EXPECT_EQ(runtime->topology().devices()[*a].card, runtime->topology().devices()[*b].card);
}

TEST_F(RuntimeTest, BytesMoveBetweenAnyTwoDevices) {
  const auto runtime = open();
  ASSERT_TRUE(runtime);
  constexpr std::size_t kBytes = 3_MiB + 17;
  std::vector<unsigned char> out(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) out[i] = static_cast<unsigned char>(i * 31 + i / 4096);
  const std::size_t num_devices = runtime->topology().devices().size();
  const DeviceIndex host = *runtime->find("host:0");
  for (DeviceIndex from = 0; from < num_devices; ++from) {
    for (DeviceIndex to = 0; to < num_devices; ++to) {
      const Block source(runtime->device(from), 4_MiB);
      const Block destination(runtime->device(to), 4_MiB);
      std::vector<unsigned char> back(kBytes, 0);
      // Any host memory is the host device's.
      const DevicePointer steps[] = {
          {host, out.data(), {}}, {from, source.get(), {}}, {to, destination.get(), {}}, {host, back.data(), {}}};
      for (int i = 0; i < 3; ++i) {
        const auto event = runtime->copy(steps[i + 1], steps[i], kBytes);
        ASSERT_TRUE(event) << event.error().to_string();
        ASSERT_TRUE(event->wait());
      }
      EXPECT_EQ(out, back) << from << " to " << to;
    }
  }
}

TEST_F(RuntimeTest, ACopyIsOrderedWithItsStreams) {
  const auto runtime = open();
  ASSERT_TRUE(runtime);
  Device& a = runtime->device(0);
  Device& b = runtime->device(1);
  const Block source(a, 1_MiB);
  const Block destination(b, 1_MiB);
  const Stream on_a = a.create_stream().value();
  const Stream on_b = b.create_stream().value();
  ASSERT_TRUE(a.fill(source.get(), 0x77, 1_MiB, on_a));
  const auto event = runtime->copy({1, destination.get(), on_b}, {0, source.get(), on_a}, 1_MiB);
  ASSERT_TRUE(event) << event.error().to_string();
  std::vector<unsigned char> back(1_MiB, 0);
  const auto out = b.copy_to_host(back.data(), destination.get(), back.size(), on_b);
  ASSERT_TRUE(out);
  ASSERT_TRUE(out->wait());
  EXPECT_THAT(back, ::testing::Each(0x77));
  EXPECT_TRUE(a.destroy_stream(on_a));
  EXPECT_TRUE(b.destroy_stream(on_b));
}

TEST_F(RuntimeTest, WrongCopiesSayWhatIsWrong) {
  const auto runtime = open();
  ASSERT_TRUE(runtime);
  const Block source(runtime->device(0), 1_MiB);
  const Block destination(runtime->device(1), 1_MiB);
  const auto complaint = [&](const DevicePointer& to, const DevicePointer& from) {
    const auto event = runtime->copy(to, from, 1_MiB);
    return event ? std::string("no error") : event.error().to_string();
  };
  const DevicePointer good_from{0, source.get(), {}};
  const DevicePointer good_to{1, destination.get(), {}};
  EXPECT_THAT(complaint({99, destination.get(), {}}, good_from), HasSubstr("destination device 99"));
  EXPECT_THAT(complaint(good_to, {99, source.get(), {}}), HasSubstr("source device 99"));
  EXPECT_THAT(complaint({1, nullptr, {}}, good_from), HasSubstr("destination address is null"));
  const Stream foreign = runtime->device(0).create_stream().value();
  EXPECT_THAT(complaint({1, destination.get(), foreign}, good_from), HasSubstr("InvalidValue"));
  EXPECT_TRUE(runtime->device(0).destroy_stream(foreign));
  const auto nothing = runtime->copy(good_to, good_from, 0);
  ASSERT_TRUE(nothing);
  EXPECT_TRUE(nothing->is_done());
  EXPECT_TRUE(nothing->wait());
}

TEST_F(RuntimeTest, EventsOutliveTheRuntime) {
  auto runtime = open();
  ASSERT_TRUE(runtime);
  std::vector<Event> events;
  std::vector<unsigned char> host(8_MiB, 1);
  void* const address = runtime->device(0).allocate(8_MiB).value();
  const Stream stream = runtime->device(0).create_stream().value();
  events.push_back(runtime->device(0).copy_from_host(address, host.data(), host.size(), stream).value());
  events.push_back(runtime->device(0).record(stream).value());
  EXPECT_TRUE(events.back().wait());
  events.push_back(runtime->copy({*runtime->find("host:0"), host.data(), {}}, {0, address, {}}, host.size()).value());
  EXPECT_TRUE(runtime->device(0).destroy_stream(stream));
  EXPECT_TRUE(events.back().wait());
  EXPECT_TRUE(runtime->device(0).deallocate(address));
  runtime.reset();
  for (const Event& event : events) {
    EXPECT_TRUE(event.is_done());
    EXPECT_TRUE(event.wait());
    bool called = false;
    event.then([&](const Status& status) { called = status.is_ok(); });
    EXPECT_TRUE(called);
  }
}

TEST_F(RuntimeTest, ACopyUnderWayIsDrainedAtTheEnd) {
  auto runtime = open();
  ASSERT_TRUE(runtime);
  std::vector<unsigned char> out(16_MiB, 0x42);
  std::vector<unsigned char> back(16_MiB, 0);
  const DeviceIndex host = *runtime->find("host:0");
  const Event event = runtime->copy({host, back.data(), {}}, {host, out.data(), {}}, out.size()).value();
  runtime.reset();
  EXPECT_TRUE(event.wait());
  EXPECT_EQ(out, back);
}

TEST_F(RuntimeTest, TwoRuntimesLiveSideBySide) {
  auto first = open();
  auto second = open();
  ASSERT_TRUE(first);
  ASSERT_TRUE(second);
  EXPECT_NE(&first->device(0), &second->device(0));
  // Each has its own simulated memory.
  const Block all_of_first(first->device(0), 256_MiB);
  { const Block all_of_second(second->device(0), 256_MiB); }
  second.reset();
  EXPECT_TRUE(first->device(0).health());
}

TEST_F(RuntimeTest, ManyThreadsOpenRuntimesAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      for (int round = 0; round < 3; ++round) EXPECT_TRUE(Runtime::create(options_));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

#if !defined(__SANITIZE_THREAD__)
TEST_F(RuntimeTest, AForkedChildHasNoDevices) {
  std::unique_ptr<Runtime> runtime = open();
  ASSERT_TRUE(runtime);
  std::vector<unsigned char> host(1_MiB, 0);
  void* const address = runtime->device(0).allocate(1_MiB).value();
  const DevicePointer to{0, address, {}};
  const DevicePointer from{*runtime->find("host:0"), host.data(), {}};
  EXPECT_TRUE(in_fork([&] {
    const auto event = runtime->copy(to, from, host.size());
    return !event && event.error().code() == StatusCode::kDeviceFailed;
  }));
  EXPECT_TRUE(in_fork([&] {
    const auto pool = runtime->create_pool();
    return !pool && pool.error().code() == StatusCode::kDeviceFailed;
  }));
  EXPECT_TRUE(in_fork([&] {
    const auto topology = runtime->measure_links();
    return !topology && topology.error().code() == StatusCode::kDeviceFailed;
  }));
  // Taking it down there does nothing, and does not hang on threads that are not there.
  EXPECT_TRUE(in_fork([&] {
    runtime.reset();
    return true;
  }));
  const auto event = runtime->copy(to, from, host.size());
  ASSERT_TRUE(event);
  EXPECT_TRUE(event->wait());
  EXPECT_TRUE(runtime->device(0).deallocate(address));
}
#endif

TEST_F(RuntimeTest, LinksAreMeasuredAndKept) {
  use_topology(R"({"version": 1, "simulated_devices": [{"name": "card:0", "capacity": "8MiB"}]})");
  const auto runtime = open();
  ASSERT_TRUE(runtime);
  ASSERT_FALSE(runtime->topology().links().empty());
  const auto measured = runtime->measure_links();
  ASSERT_TRUE(measured) << measured.error().to_string();
  ASSERT_EQ(measured->links().size(), runtime->topology().links().size());
  for (const Link& link : measured->links()) {
    EXPECT_EQ(link.source, LinkSource::kMeasured);
    EXPECT_GT(link.bytes_per_second, 0);
  }
  // Its own routes stay.
  EXPECT_NE(runtime->topology().links()[0].source, LinkSource::kMeasured);
  // A second time the same figures come from the cache; another time they are taken anew.
  const auto again = runtime->measure_links();
  ASSERT_TRUE(again);
  for (std::size_t i = 0; i < again->links().size(); ++i) {
    EXPECT_NEAR(again->links()[i].bytes_per_second, measured->links()[i].bytes_per_second,
                measured->links()[i].bytes_per_second * 1e-6);
  }
  // The measuring gave all memory back.
  const Block all(runtime->device(*runtime->find("card:0")), 8_MiB);
}

TEST_F(RuntimeTest, SimulatedLinksAreNeverTakenFromTheCacheAtStart) {
  ASSERT_TRUE(open()->measure_links());
  const auto runtime = open();
  ASSERT_TRUE(runtime);
  const auto& devices = runtime->topology().devices();
  for (const Link& link : runtime->topology().links()) {
    if (devices[link.from].info.simulated || devices[link.to].info.simulated) {
      EXPECT_NE(link.source, LinkSource::kMeasured);
    }
  }
}

}  // namespace
}  // namespace vmem
