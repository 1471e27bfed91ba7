// Streams, events and their order.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "tests/conformance/conformance.hpp"

namespace vmem {
namespace {

// An event of no backend, done when the test says so.
class TestEvent final : public Event::State {
 public:
  bool is_done() noexcept override { return done.load(); }
  Status wait(Event::Deadline) override { return {}; }
  void then(Event::Callback callback) override { callback(Status()); }

  std::atomic<bool> done{false};
};

TEST_P(DeviceConformance, MakesStreamsThatAreItsOwn) {
  const Stream first = create_stream();
  const Stream second = create_stream();
  EXPECT_NE(first, second);
  EXPECT_TRUE(succeeded(device().check_stream(first)));
  EXPECT_TRUE(succeeded(device().check_stream(Stream(nullptr)))) << "the default stream";
  // A driver can't tell another driver's stream from any other pointer.
  Device* const stranger = other();
  if (stranger != nullptr && stranger->info().backend == device().info().backend) {
    auto foreign = stranger->create_stream();
    ASSERT_TRUE(succeeded(foreign));
    void* const address = allocate(granularity());
    EXPECT_EQ(device().check_stream(*foreign).code(), StatusCode::kInvalidValue);
    EXPECT_EQ(device().destroy_stream(*foreign).code(), StatusCode::kInvalidValue);
    EXPECT_EQ(device().fill(address, 1, 1, *foreign).error().code(), StatusCode::kInvalidValue);
    EXPECT_EQ(device().record(*foreign).error().code(), StatusCode::kInvalidValue);
    EXPECT_EQ(device().wait_event(*foreign, Event()).code(), StatusCode::kInvalidValue);
    EXPECT_EQ(device().is_capturing(*foreign).error().code(), StatusCode::kInvalidValue);
    EXPECT_TRUE(succeeded(stranger->destroy_stream(*foreign)));
    deallocate(address);
  }
  EXPECT_TRUE(succeeded(device().destroy_stream(first)));
  EXPECT_EQ(device().destroy_stream(first).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(device().check_stream(first).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(device().destroy_stream(Stream()).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(device().destroy_stream(Stream(nullptr)).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(device().check_stream(Stream()).code(), StatusCode::kInvalidValue);
  EXPECT_TRUE(succeeded(device().destroy_stream(second)));
}

TEST_P(DeviceConformance, IsNotCapturingUnasked) {
  const Stream stream = create_stream();
  for (const Stream asked : {stream, Stream(nullptr)}) {
    const auto capturing = device().is_capturing(asked);
    ASSERT_TRUE(succeeded(capturing));
    EXPECT_FALSE(*capturing);
  }
  EXPECT_TRUE(succeeded(device().destroy_stream(stream)));
}

TEST_P(DeviceConformance, RunsTheWorkOfAStreamInOrder) {
  const std::size_t bytes = granularity();
  void* const address = allocate(bytes * 2);
  const auto content = pattern(bytes, 1);
  std::vector<std::uint8_t> result(bytes);
  for (const Stream stream : {create_stream(), Stream(nullptr)}) {
    // Each step needs the one before; only the last is waited for.
    ASSERT_TRUE(succeeded(device().fill(address, 0x33, bytes * 2, stream)));
    ASSERT_TRUE(succeeded(device().copy_from_host(address, content.data(), bytes, stream)));
    ASSERT_TRUE(succeeded(device().copy_within(offset(address, bytes), address, bytes, stream)));
    ASSERT_TRUE(succeeded(device().fill(address, 0x44, bytes, stream)));
    ASSERT_TRUE(finished(device().copy_to_host(result.data(), offset(address, bytes), bytes, stream)));
    EXPECT_EQ(result, content);
    if (stream.native() != nullptr) {
      EXPECT_TRUE(succeeded(device().destroy_stream(stream)));
    }
  }
  deallocate(address);
}

TEST_P(DeviceConformance, RecordsAnEventOfAllWorkSoFar) {
  const std::size_t bytes = granularity() * 4;
  void* const address = allocate(bytes);
  const Stream stream = create_stream();
  std::vector<std::uint8_t> result(bytes);
  ASSERT_TRUE(succeeded(device().fill(address, 0x55, bytes, stream)));
  ASSERT_TRUE(succeeded(device().copy_to_host(result.data(), address, bytes, stream)));
  auto event = device().record(stream);
  ASSERT_TRUE(finished(event));
  EXPECT_TRUE(event->is_done());
  EXPECT_EQ(result, std::vector<std::uint8_t>(bytes, 0x55));
  EXPECT_TRUE(finished(device().record(stream))) << "of an idle stream";
  EXPECT_TRUE(finished(device().record(Stream())));
  EXPECT_TRUE(succeeded(device().destroy_stream(stream)));
  deallocate(address);
}

TEST_P(DeviceConformance, OrdersStreamsByEvents) {
  const std::size_t bytes = granularity() * 2;
  void* const address = allocate(bytes);
  const Stream producer = create_stream();
  const Stream consumer = create_stream();
  std::vector<std::uint8_t> result(bytes);
  for (int round = 0; round < 20; ++round) {
    const auto content = pattern(bytes, static_cast<std::uint64_t>(round));
    auto written = device().copy_from_host(address, content.data(), bytes, producer);
    ASSERT_TRUE(succeeded(written));
    ASSERT_TRUE(succeeded(device().wait_event(consumer, *written)));
    ASSERT_TRUE(finished(device().copy_to_host(result.data(), address, bytes, consumer)));
    ASSERT_EQ(result, content) << round;
  }
  EXPECT_TRUE(succeeded(device().destroy_stream(producer)));
  EXPECT_TRUE(succeeded(device().destroy_stream(consumer)));
  deallocate(address);
}

TEST_P(DeviceConformance, OrdersStreamsOfTwoDevicesOfTheBackend) {
  Device* const neighbour = other();
  if (neighbour == nullptr) return;
  const std::size_t bytes = granularity();
  void* const here = allocate(bytes);
  auto there = neighbour->allocate(bytes);
  auto far = neighbour->create_stream();
  ASSERT_TRUE(succeeded(there) && succeeded(far));
  const Stream near = create_stream();
  std::vector<std::uint8_t> staging(bytes), result(bytes);
  for (int round = 0; round < 20; ++round) {
    // Out of one device, into the other, back: two hops chained by an event.
    const auto content = pattern(bytes, static_cast<std::uint64_t>(round));
    ASSERT_TRUE(succeeded(device().copy_from_host(here, content.data(), bytes, near)));
    auto staged = device().copy_to_host(staging.data(), here, bytes, near);
    ASSERT_TRUE(succeeded(staged));
    const Status status = neighbour->wait_event(*far, *staged);
    if (status.code() == StatusCode::kUnsupported) {
      ASSERT_TRUE(succeeded(staged->wait()));
    } else {
      ASSERT_TRUE(succeeded(status));
    }
    ASSERT_TRUE(succeeded(neighbour->copy_from_host(*there, staging.data(), bytes, *far)));
    ASSERT_TRUE(finished(neighbour->copy_to_host(result.data(), *there, bytes, *far)));
    ASSERT_EQ(result, content) << round;
  }
  EXPECT_TRUE(succeeded(device().destroy_stream(near)));
  EXPECT_TRUE(succeeded(neighbour->destroy_stream(*far)));
  EXPECT_TRUE(succeeded(neighbour->deallocate(*there)));
  deallocate(here);
}

TEST_P(DeviceConformance, DoesNotWaitForEventsOfOtherBackends) {
  const Stream stream = create_stream();
  EXPECT_EQ(device().wait_event(stream, Event(std::make_shared<TestEvent>())).code(), StatusCode::kUnsupported);
  EXPECT_TRUE(succeeded(device().wait_event(stream, Event()))) << "of work that was complete from the start";
  EXPECT_EQ(device().wait_event(Stream(), Event()).code(), StatusCode::kInvalidValue);
  EXPECT_TRUE(finished(device().record(stream)));
  EXPECT_TRUE(succeeded(device().destroy_stream(stream)));
}

TEST_P(DeviceConformance, CallsBackOnceWhenWorkIsOver) {
  void* const address = allocate(granularity());
  const Stream stream = create_stream();
  std::mutex mutex;
  std::condition_variable changed;
  int num_called = 0;
  const auto callback = [&](const Status& status) {
    EXPECT_TRUE(succeeded(status));
    const std::lock_guard<std::mutex> lock(mutex);
    ++num_called;
    changed.notify_all();
  };
  auto event = device().fill(address, 1, granularity(), stream);
  ASSERT_TRUE(succeeded(event));
  event->then(callback);
  event->then(callback);
  {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return num_called == 2; });
  }
  ASSERT_TRUE(finished(event));
  event->then(callback);  // at once
  EXPECT_EQ(num_called, 3);
  EXPECT_TRUE(succeeded(device().destroy_stream(stream)));
  deallocate(address);
}

TEST_P(DeviceConformance, WaitsForTheWorkOfAStreamThatIsDestroyed) {
  const std::size_t bytes = granularity() * 4;
  void* const address = allocate(bytes);
  const Stream stream = create_stream();
  std::vector<std::uint8_t> result(bytes);
  ASSERT_TRUE(succeeded(device().fill(address, 0x66, bytes, stream)));
  auto event = device().copy_to_host(result.data(), address, bytes, stream);
  ASSERT_TRUE(succeeded(event));
  ASSERT_TRUE(succeeded(device().destroy_stream(stream)));
  EXPECT_TRUE(finished(event));
  EXPECT_EQ(result, std::vector<std::uint8_t>(bytes, 0x66));
  deallocate(address);
}

TEST_P(DeviceConformance, LeavesEventsUsableAfterItsEnd) {
  const Stream stream = create_stream();
  void* const address = allocate(granularity());
  std::vector<Event> events;
  std::vector<std::uint8_t> result(granularity());
  for (int i = 0; i < 8; ++i) {
    auto event = device().copy_to_host(result.data(), address, granularity(), stream);
    ASSERT_TRUE(succeeded(event));
    events.push_back(*event);
  }
  destroy_device();  // with work in flight
  for (const Event& event : events) {
    const Status status = event.wait(std::chrono::steady_clock::now() + std::chrono::seconds(30));
    EXPECT_TRUE(event.is_done()) << status.to_string();
  }
}

TEST_P(DeviceConformance, WritesAndAwaitsWordsInStreamOrder) {
  if (!has(DeviceCap::kStreamSignals)) return;
  void* const address = allocate(granularity());
  auto* const word = static_cast<std::uint32_t*>(address);
  ASSERT_TRUE(finished(device().fill(address, 0, granularity(), Stream())));
  const Stream producer = create_stream();
  const Stream consumer = create_stream();
  constexpr std::uint32_t kRounds = 20;
  constexpr std::size_t kContent = 64;
  const auto contents = pattern(kRounds * kContent, 1);
  void* const prepared = offset(address, kPageBytes / 4);
  void* const data = offset(address, kPageBytes * 3 / 4);
  void* const result = offset(data, kContent);
  static_assert(kRounds * kContent <= kPageBytes / 2);
  upload(prepared, contents);
  for (std::uint32_t round = 1; round <= kRounds; ++round) {
    const std::size_t at = (round - 1) * kContent;
    const std::vector<std::uint8_t> content(contents.begin() + static_cast<std::ptrdiff_t>(at),
                                            contents.begin() + static_cast<std::ptrdiff_t>(at + kContent));
    ASSERT_TRUE(succeeded(device().wait_signal(consumer, word, round)));
    // Within the device alone while a stream waits: a copy of pageable memory may wait for all of the device's work.
    auto read = device().copy_within(result, data, content.size(), consumer);
    ASSERT_TRUE(succeeded(read));
    EXPECT_FALSE(read->is_done());
    ASSERT_TRUE(succeeded(device().copy_within(data, offset(prepared, at), content.size(), producer)));
    ASSERT_TRUE(succeeded(device().write_signal(producer, word, round)));
    ASSERT_TRUE(finished(read));
    ASSERT_EQ(download(result, content.size()), content);
  }
  std::uint32_t unknown = 0;
  EXPECT_EQ(device().write_signal(producer, &unknown, 1).code(), StatusCode::kInvalidValue);
  EXPECT_EQ(device().wait_signal(producer, &unknown, 1).code(), StatusCode::kInvalidValue);
  EXPECT_TRUE(succeeded(device().destroy_stream(producer)));
  EXPECT_TRUE(succeeded(device().destroy_stream(consumer)));
  deallocate(address);
}

}  // namespace
}  // namespace vmem
