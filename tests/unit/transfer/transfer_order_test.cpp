// Who waits for whom: dependencies, events, streams of devices, the end of the engine.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/transfer/transfer_completion.hpp"
#include "runtime/transfer/transfer_engine.hpp"
#include "tests/unit/transfer/transfer_machine.hpp"

namespace vmem {
namespace {

// Keeps threads that come to it until it is opened.
class Barrier {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++num_waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait_for_somebody() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return num_waiting_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int num_waiting_ = 0;
};

TEST(TransferOrderTest, WaitsForTheSecondHop) {
  TransferMachine machine;
  auto& engine = machine.make_engine();
  const auto bytes = pattern_bytes(3_MiB, 1);
  auto& source = machine.buffer(machine.gpu(0), bytes.size());
  auto& target = machine.buffer(machine.gpu(1), bytes.size());
  source.write(bytes);
  Barrier barrier;
  machine.faults(machine.gpu(1)).set_hook([&](std::string_view call) {
    if (call == "copy_from_host") barrier.pass();
  });
  const auto event =
      engine.start({{machine.gpu(0), source.address()}, {machine.gpu(1), target.address()}, {{0, bytes.size()}}, {}});
  ASSERT_TRUE(event);
  barrier.wait_for_somebody();
  EXPECT_FALSE(event->is_done());
  EXPECT_EQ(event->wait(std::chrono::steady_clock::now()).code(), StatusCode::kTimeout);
  barrier.open();
  EXPECT_TRUE(event->wait());
  machine.faults(machine.gpu(1)).set_hook({});
  EXPECT_TRUE(target.read() == bytes);
}

TEST(TransferOrderTest, StartsAfterItsDependencies) {
  TransferMachine machine;
  auto& engine = machine.make_engine();
  const auto bytes = pattern_bytes(1_MiB, 1);
  for (const DeviceIndex to : {machine.gpu(1), machine.host(), machine.gpu(0)}) {
    auto& source = machine.buffer(machine.gpu(0), bytes.size());
    auto& target = machine.buffer(to, bytes.size());
    target.write(bytes);
    auto first = std::make_shared<TransferCompletion>();
    auto second = std::make_shared<TransferCompletion>();
    const auto event = engine.start({{machine.gpu(0), source.address()},
                                     {to, target.address()},
                                     {{0, bytes.size()}},
                                     {Event(first), Event(), Event(second)}});
    ASSERT_TRUE(event);
    first->complete(Status());
    EXPECT_FALSE(event->is_done());
    const auto late = pattern_bytes(bytes.size(), 2);
    source.write(late);
    EXPECT_TRUE(target.read() == bytes);
    second->complete(Status());
    EXPECT_TRUE(event->wait());
    EXPECT_TRUE(target.read() == late);
  }
}

TEST(TransferOrderTest, WritesNothingAfterAFailedDependency) {
  TransferMachine machine;
  auto& engine = machine.make_engine();
  const auto bytes = pattern_bytes(100, 1);
  auto& source = machine.buffer(machine.gpu(0), bytes.size());
  auto& target = machine.buffer(machine.gpu(1), bytes.size());
  target.write(bytes);
  const Status error(StatusCode::kDataLost, "made up");
  auto failed = std::make_shared<TransferCompletion>();
  failed->complete(error);
  auto fails = std::make_shared<TransferCompletion>();
  auto never = std::make_shared<TransferCompletion>();
  TransferRequest request{{machine.gpu(0), source.address()}, {machine.gpu(1), target.address()}, {{0, 100}}, {}};
  request.after = {Event(failed)};
  EXPECT_EQ(engine.copy(request).code(), StatusCode::kDataLost);
  request.after = {Event(never), Event(fails)};
  const auto event = engine.start(request);
  ASSERT_TRUE(event);
  EXPECT_FALSE(event->is_done());
  fails->complete(error);
  EXPECT_EQ(event->wait().code(), StatusCode::kDataLost);
  EXPECT_TRUE(target.read() == bytes);
}

TEST(TransferOrderTest, LetsAStreamWaitOnACopyOfOneHop) {
  MachineSpec spec;
  spec.enforced_rate = 200e6;
  TransferMachine machine(spec);
  auto& engine = machine.make_engine();
  const auto bytes = pattern_bytes(4_MiB, 1);
  auto& source = machine.buffer(machine.host(), bytes.size());
  auto& target = machine.buffer(machine.gpu(0), bytes.size());
  auto& copied = machine.buffer(machine.gpu(0), bytes.size());
  source.write(bytes);
  Device& gpu = machine.device(machine.gpu(0));
  const Stream stream = gpu.create_stream().value();
  const auto event =
      engine.start({{machine.host(), source.address()}, {machine.gpu(0), target.address()}, {{0, bytes.size()}}, {}});
  ASSERT_TRUE(event);
  const Status status = gpu.wait_event(stream, *event);
  EXPECT_TRUE(status) << status.to_string();
  const auto after = gpu.copy_within(copied.address(), target.address(), bytes.size(), stream);
  ASSERT_TRUE(after);
  EXPECT_TRUE(after->wait());
  EXPECT_TRUE(copied.read() == bytes);
  EXPECT_TRUE(gpu.destroy_stream(stream));
}

TEST(TransferOrderTest, TellsAStreamThatItCannotWaitOnTheHost) {
  MachineSpec spec;
  TransferMachine machine(spec);
  auto& engine = machine.make_engine();
  auto& source = machine.buffer(machine.gpu(0), 64);
  auto& target = machine.buffer(machine.gpu(1), 64);
  auto before = std::make_shared<TransferCompletion>();
  const auto event = engine.start(
      {{machine.gpu(0), source.address()}, {machine.gpu(1), target.address()}, {{0, 64}}, {Event(before)}});
  ASSERT_TRUE(event);
  Device& gpu = machine.device(machine.gpu(1));
  const Stream stream = gpu.create_stream().value();
  EXPECT_EQ(gpu.wait_event(stream, *event).code(), StatusCode::kUnsupported);
  before->complete(Status());
  EXPECT_TRUE(event->wait());
  EXPECT_TRUE(gpu.destroy_stream(stream));
}

TEST(TransferOrderTest, CancelsWhatNeverStartedAtTheEnd) {
  TransferMachine machine;
  TransferOptions options;
  options.timeout = std::chrono::milliseconds(50);
  auto& engine = machine.make_engine(options);
  auto& source = machine.buffer(machine.gpu(0), 64);
  auto& target = machine.buffer(machine.gpu(1), 64);
  auto never = std::make_shared<TransferCompletion>();
  const auto event =
      engine.start({{machine.gpu(0), source.address()}, {machine.gpu(1), target.address()}, {{0, 64}}, {Event(never)}});
  ASSERT_TRUE(event);
  machine.destroy_engine();
  EXPECT_EQ(event->wait().code(), StatusCode::kCancelled);
  never->complete(Status());  // nobody is there to hear it
}

TEST(TransferOrderTest, DrainsWhatIsUnderWayAtTheEnd) {
  MachineSpec spec;
  spec.enforced_rate = 500e6;
  TransferMachine machine(spec);
  auto& engine = machine.make_engine();
  const auto bytes = pattern_bytes(16_MiB, 1);
  auto& source = machine.buffer(machine.gpu(0), bytes.size());
  auto& target = machine.buffer(machine.gpu(1), bytes.size());
  source.write(bytes);
  const auto event =
      engine.start({{machine.gpu(0), source.address()}, {machine.gpu(1), target.address()}, {{0, bytes.size()}}, {}});
  ASSERT_TRUE(event);
  machine.destroy_engine();
  EXPECT_TRUE(event->is_done());
  EXPECT_TRUE(event->wait());
  EXPECT_TRUE(target.read() == bytes);
}

TEST(TransferOrderTest, CallsBackOnceWithTheOutcome) {
  TransferMachine machine;
  auto& engine = machine.make_engine();
  auto& source = machine.buffer(machine.gpu(0), 5_MiB);
  auto& target = machine.buffer(machine.gpu(1), 5_MiB);
  std::atomic<int> calls{0};
  const auto event =
      engine.start({{machine.gpu(0), source.address()}, {machine.gpu(1), target.address()}, {{0, 5_MiB}}, {}});
  ASSERT_TRUE(event);
  event->then([&](const Status& status) { calls += status.is_ok() ? 1 : 100; });
  EXPECT_TRUE(event->wait());
  event->then([&](const Status& status) { calls += status.is_ok() ? 1 : 100; });
  machine.destroy_engine();
  EXPECT_EQ(calls.load(), 2);
}

}  // namespace
}  // namespace vmem
