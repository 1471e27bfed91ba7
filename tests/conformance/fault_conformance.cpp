// Faults on demand, at every call. Devices without kFaultInjection run these inside the test wrapper (FaultyDevice).
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>

#include "tests/conformance/conformance.hpp"

namespace vmem {
namespace {

using Kind = Fault::Kind;

Fault make_fault(Kind kind, std::string call, std::uint64_t after = 0, std::uint64_t count = 1,
                 StatusCode code = StatusCode::kIoError) {
  Fault fault;
  fault.kind = kind;
  fault.call = std::move(call);
  fault.after = after;
  fault.count = count;
  fault.code = code;
  return fault;
}

// Every call that a fault can name, with arguments that are right; what it makes is given back.
struct NamedCall {
  std::string name;
  bool is_work;
  std::function<Status()> call;
};

class Calls {
 public:
  explicit Calls(Device& device) : device_(device), bytes_(device.info().granularity), host_(bytes_, 0x42) {
    slab_ = device_.allocate(bytes_ * 2).value();
    stream_ = device_.create_stream().value();
    if (has(DeviceCap::kVirtualMemory)) window_ = device_.reserve_window(bytes_).value();
  }

  void close() {
    EXPECT_TRUE(succeeded(device_.deallocate(slab_)));
    EXPECT_TRUE(succeeded(device_.destroy_stream(stream_)));
    if (window_ != nullptr) {
      EXPECT_TRUE(succeeded(device_.release_window(window_, bytes_)));
    }
  }

  std::vector<NamedCall> all() {
    std::vector<NamedCall> calls = basic();
    if (has(DeviceCap::kVirtualMemory)) append(calls, virtual_memory());
    if (has(DeviceCap::kHostRegistration)) append(calls, host_registration());
    if (has(DeviceCap::kKernels)) append(calls, kernels());
    return calls;
  }

 private:
  bool has(DeviceCap cap) const { return device_.info().caps.has(cap); }
  static void append(std::vector<NamedCall>& to, std::vector<NamedCall> from) {
    for (auto& call : from) to.push_back(std::move(call));
  }

  std::vector<NamedCall> basic() {
    return {
        {"memory_info", false, [this] { return device_.memory_info().error(); }},
        {"health", false, [this] { return device_.health(); }},
        {"allocate", false,
         [this] {
           auto address = device_.allocate(bytes_);
           return address ? device_.deallocate(*address) : address.error();
         }},
        {"deallocate", false,
         [this] {
           void* const address = device_.allocate(bytes_).value();
           const Status status = device_.deallocate(address);
           if (!status) {
             EXPECT_TRUE(succeeded(device_.deallocate(address))) << "a fault that failed must change nothing";
           }
           return status;
         }},
        {"copy_from_host", true,
         [this] { return outcome(device_.copy_from_host(slab_, host_.data(), bytes_, stream_)); }},
        {"copy_to_host", true, [this] { return outcome(device_.copy_to_host(host_.data(), slab_, bytes_, stream_)); }},
        {"copy_within", true,
         [this] { return outcome(device_.copy_within(offset(slab_, bytes_), slab_, bytes_, stream_)); }},
        {"fill", true, [this] { return outcome(device_.fill(slab_, 1, bytes_, stream_)); }},
        {"record", true, [this] { return outcome(device_.record(stream_)); }},
        {"create_stream", false,
         [this] {
           auto stream = device_.create_stream();
           return stream ? device_.destroy_stream(*stream) : stream.error();
         }},
        {"destroy_stream", false,
         [this] {
           const Stream stream = device_.create_stream().value();
           const Status status = device_.destroy_stream(stream);
           if (!status) {
             EXPECT_TRUE(succeeded(device_.destroy_stream(stream)));
           }
           return status;
         }},
        {"check_stream", false, [this] { return device_.check_stream(stream_); }},
        {"wait_event", false, [this] { return device_.wait_event(stream_, Event()); }},
        {"is_capturing", false, [this] { return device_.is_capturing(stream_).error(); }},
    };
  }

  std::vector<NamedCall> virtual_memory() {
    return {
        {"create_chunk", false,
         [this] {
           auto chunk = device_.create_chunk(bytes_);
           return chunk ? device_.destroy_chunk(*chunk) : chunk.error();
         }},
        {"destroy_chunk", false,
         [this] {
           const Chunk chunk = device_.create_chunk(bytes_).value();
           const Status status = device_.destroy_chunk(chunk);
           if (!status) {
             EXPECT_TRUE(succeeded(device_.destroy_chunk(chunk)));
           }
           return status;
         }},
        {"reserve_window", false,
         [this] {
           auto window = device_.reserve_window(bytes_);
           return window ? device_.release_window(*window, bytes_) : window.error();
         }},
        {"release_window", false,
         [this] {
           void* const window = device_.reserve_window(bytes_).value();
           const Status status = device_.release_window(window, bytes_);
           if (!status) {
             EXPECT_TRUE(succeeded(device_.release_window(window, bytes_)));
           }
           return status;
         }},
        {"map", false,
         [this] {
           const Chunk chunk = device_.create_chunk(bytes_).value();
           const Status status = device_.map(window_, chunk);
           if (status) {
             EXPECT_TRUE(succeeded(device_.unmap(window_, bytes_)));
           }
           EXPECT_TRUE(succeeded(device_.destroy_chunk(chunk)));
           return status;
         }},
        {"unmap", false,
         [this] {
           const Chunk chunk = device_.create_chunk(bytes_).value();
           EXPECT_TRUE(succeeded(device_.map(window_, chunk)));
           const Status status = device_.unmap(window_, bytes_);
           if (!status) {
             EXPECT_TRUE(succeeded(device_.unmap(window_, bytes_)));
           }
           EXPECT_TRUE(succeeded(device_.destroy_chunk(chunk)));
           return status;
         }},
    };
  }

  std::vector<NamedCall> host_registration() {
    return {
        // The device's own error may come where the memory has no second address; a fault comes first.
        {"register_host", false,
         [this] {
           auto address = device_.register_host(host_.data(), kPageBytes);
           if (address) return device_.unregister_host(host_.data());
           return address.error().code() == StatusCode::kUnsupported ? Status() : address.error();
         }},
    };
  }

  std::vector<NamedCall> kernels() {
    return {
        {"add_kernel", false,
         [this] {
           return device_.add_kernel(KernelImage{"conformance_nothing", [](const KernelContext&) {},
                                                 "extern \"C\" __global__ void conformance_nothing() {}"});
         }},
        {"launch", true,
         [this] {
           const std::uint64_t bytes = bytes_;
           const std::uint32_t value = 3;
           KernelLaunch launch;
           launch.name = "vmem_fill_bytes";
           launch.block = {32, 1, 1};
           launch.arguments = {{&slab_, sizeof slab_}, {&bytes, sizeof bytes}, {&value, sizeof value}};
           return outcome(device_.launch(launch, stream_));
         }},
    };
  }

  Device& device_;
  const std::size_t bytes_;
  std::vector<std::uint8_t> host_;
  void* slab_ = nullptr;
  void* window_ = nullptr;
  Stream stream_;
};

Status wait_a_moment(const Event& event) {
  return event.wait(std::chrono::steady_clock::now() + std::chrono::milliseconds(20));
}

TEST_P(DeviceConformance, FailsEachCallOnceAndGoesOn) {
  if (!has(DeviceCap::kFaultInjection)) return;
  Calls calls(device());
  for (const NamedCall& named : calls.all()) {
    SCOPED_TRACE(named.name);
    EXPECT_TRUE(succeeded(named.call()));
    ASSERT_TRUE(succeeded(device().inject(make_fault(Kind::kFail, named.name))));
    const Status status = named.call();
    EXPECT_EQ(status.code(), StatusCode::kIoError) << status.to_string();
    EXPECT_EQ(status.device(), device().info().name);
    EXPECT_TRUE(succeeded(named.call()));
  }
  calls.close();
}

TEST_P(DeviceConformance, FailsTheCallsThatAreCountedOut) {
  if (!has(DeviceCap::kFaultInjection)) return;
  ASSERT_TRUE(succeeded(device().inject(make_fault(Kind::kFail, "check_stream", 2, 3))));
  std::string results;
  for (int i = 0; i < 8; ++i) results += device().check_stream(Stream(nullptr)) ? '+' : '-';
  EXPECT_EQ(results, "++---+++");
  ASSERT_TRUE(succeeded(device().inject(make_fault(Kind::kFail, ""))));
  EXPECT_EQ(device().health().code(), StatusCode::kIoError) << "an empty name is any call";
  EXPECT_TRUE(succeeded(device().health()));
  ASSERT_TRUE(succeeded(device().inject(make_fault(Kind::kFail, "health", 5))));
  ASSERT_TRUE(succeeded(device().clear_faults()));
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(succeeded(device().health()));
}

TEST_P(DeviceConformance, MovesNoBytesWithACopyThatFails) {
  if (!has(DeviceCap::kFaultInjection)) return;
  void* const address = allocate(granularity());
  upload(address, std::vector<std::uint8_t>(granularity(), 0x10));
  const std::vector<std::uint8_t> bytes(granularity(), 0x20);
  const Stream stream = create_stream();
  ASSERT_TRUE(succeeded(device().inject(make_fault(Kind::kFail, "copy_from_host", 0, 2))));
  EXPECT_EQ(outcome(device().copy_from_host(address, bytes.data(), bytes.size(), stream)).code(), StatusCode::kIoError);
  EXPECT_EQ(outcome(device().copy_from_host(address, bytes.data(), bytes.size(), Stream())).code(),
            StatusCode::kIoError);
  EXPECT_EQ(download(address, granularity()), std::vector<std::uint8_t>(granularity(), 0x10));
  EXPECT_TRUE(succeeded(device().destroy_stream(stream)));
  deallocate(address);
}

TEST_P(DeviceConformance, ChangesOneByteOfWhatIsCopiedOrFilled) {
  if (!has(DeviceCap::kFaultInjection)) return;
  const std::size_t bytes = 1000;
  void* const address = allocate(granularity() * 2);
  const auto content = pattern(bytes, 4);
  const auto num_different = [&](const std::vector<std::uint8_t>& actual, const std::vector<std::uint8_t>& expected) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < bytes; ++i) count += actual[i] != expected[i] ? 1 : 0;
    return count;
  };
  for (const Stream stream : {Stream(), Stream(nullptr)}) {
    ASSERT_TRUE(succeeded(device().inject(make_fault(Kind::kCorrupt, "copy_from_host"))));
    EXPECT_TRUE(finished(device().copy_from_host(address, content.data(), bytes, stream)));
    EXPECT_EQ(num_different(download(address, bytes), content), 1U);

    upload(address, content);
    std::vector<std::uint8_t> result(bytes);
    ASSERT_TRUE(succeeded(device().inject(make_fault(Kind::kCorrupt, "copy_to_host"))));
    EXPECT_TRUE(finished(device().copy_to_host(result.data(), address, bytes, stream)));
    EXPECT_EQ(num_different(result, content), 1U);
    EXPECT_EQ(download(address, bytes), content);

    ASSERT_TRUE(succeeded(device().inject(make_fault(Kind::kCorrupt, "copy_within"))));
    void* const second = offset(address, granularity());
    EXPECT_TRUE(finished(device().copy_within(second, address, bytes, stream)));
    EXPECT_EQ(num_different(download(second, bytes), content), 1U);

    ASSERT_TRUE(succeeded(device().inject(make_fault(Kind::kCorrupt, "fill"))));
    EXPECT_TRUE(finished(device().fill(address, 0x70, bytes, stream)));
    EXPECT_EQ(num_different(download(address, bytes), std::vector<std::uint8_t>(bytes, 0x70)), 1U);
  }
  deallocate(address);
}

TEST_P(DeviceConformance, HangsUntilFaultsAreCleared) {
  if (!has(DeviceCap::kFaultInjection)) return;
  void* const address = allocate(granularity());
  const Stream stream = create_stream();
  std::vector<std::uint8_t> host(granularity());
  for (const Stream used : {stream, Stream()}) {
    ASSERT_TRUE(succeeded(device().inject(make_fault(Kind::kHang, "copy_to_host"))));
    auto event = device().copy_to_host(host.data(), address, host.size(), used);
    ASSERT_TRUE(succeeded(event));
    EXPECT_EQ(wait_a_moment(*event).code(), StatusCode::kTimeout);
    EXPECT_FALSE(event->is_done());
    ASSERT_TRUE(succeeded(device().clear_faults()));
    EXPECT_EQ(outcome(event).code(), StatusCode::kTimeout);
    EXPECT_TRUE(event->is_done());
    EXPECT_TRUE(finished(device().fill(address, 1, 64, used))) << "the stream goes on";
  }
  EXPECT_TRUE(succeeded(device().destroy_stream(stream)));
  deallocate(address);
}

TEST_P(DeviceConformance, HoldsUpWhatFollowsHangingWork) {
  if (!has(DeviceCap::kFaultInjection)) return;
  void* const address = allocate(granularity());
  const Stream stream = create_stream();
  const Stream waiting = create_stream();
  std::vector<std::uint8_t> host(granularity());
  ASSERT_TRUE(succeeded(device().inject(make_fault(Kind::kHang, "fill"))));
  auto hanging = device().fill(address, 1, granularity(), stream);
  auto after = device().copy_to_host(host.data(), address, host.size(), stream);
  ASSERT_TRUE(succeeded(hanging) && succeeded(after));
  ASSERT_TRUE(succeeded(device().wait_event(waiting, *hanging)));
  auto elsewhere = device().record(waiting);
  ASSERT_TRUE(succeeded(elsewhere));
  for (const Event& event : {*hanging, *after, *elsewhere}) {
    EXPECT_EQ(wait_a_moment(event).code(), StatusCode::kTimeout);
    EXPECT_FALSE(event.is_done());
  }
  EXPECT_TRUE(finished(device().fill(address, 1, 64, Stream(nullptr)))) << "other streams work";
  ASSERT_TRUE(succeeded(device().clear_faults()));
  EXPECT_EQ(outcome(hanging).code(), StatusCode::kTimeout);
  static_cast<void>(outcome(after));
  EXPECT_TRUE(after->is_done());
  static_cast<void>(outcome(elsewhere));
  EXPECT_TRUE(elsewhere->is_done());
  EXPECT_TRUE(succeeded(device().destroy_stream(stream)));
  EXPECT_TRUE(succeeded(device().destroy_stream(waiting)));
  deallocate(address);
}

TEST_P(DeviceConformance, EndsHangingWorkWithItsStream) {
  if (!has(DeviceCap::kFaultInjection)) return;
  void* const address = allocate(granularity());
  const Stream stream = create_stream();
  const Stream waiting = create_stream();
  ASSERT_TRUE(succeeded(device().inject(make_fault(Kind::kHang, "fill"))));
  auto hanging = device().fill(address, 1, granularity(), stream);
  ASSERT_TRUE(succeeded(hanging));
  ASSERT_TRUE(succeeded(device().wait_event(waiting, *hanging)));
  EXPECT_TRUE(succeeded(device().destroy_stream(waiting)));  // although what it waits for goes on hanging
  EXPECT_TRUE(succeeded(device().destroy_stream(stream)));
  EXPECT_EQ(outcome(hanging).code(), StatusCode::kTimeout);
  deallocate(address);
}

TEST_P(DeviceConformance, EndsHangingWorkWithItself) {
  if (!has(DeviceCap::kFaultInjection)) return;
  void* const address = allocate(granularity());
  const Stream stream = create_stream();
  ASSERT_TRUE(succeeded(device().inject(make_fault(Kind::kHang, "fill", 0, 2))));
  auto hanging = device().fill(address, 1, granularity(), stream);
  auto without_stream = device().fill(address, 1, granularity(), Stream());
  ASSERT_TRUE(succeeded(hanging) && succeeded(without_stream));
  destroy_device();
  EXPECT_EQ(outcome(hanging).code(), StatusCode::kTimeout);
  EXPECT_EQ(outcome(without_stream).code(), StatusCode::kTimeout);
}

TEST_P(DeviceConformance, IsLostForGoodOnceItVanishes) {
  if (!has(DeviceCap::kFaultInjection)) return;
  expect_no_accounting();
  Calls calls(device());
  const auto all = calls.all();
  void* const address = allocate(granularity());
  const Stream stream = create_stream();
  ASSERT_TRUE(succeeded(device().inject(make_fault(Kind::kHang, "fill"))));
  auto hanging = device().fill(address, 1, granularity(), stream);
  auto queued = device().fill(address, 1, granularity(), stream);
  ASSERT_TRUE(succeeded(hanging) && succeeded(queued));
  ASSERT_TRUE(succeeded(device().inject(make_fault(Kind::kVanish, "memory_info"))));
  EXPECT_EQ(device().memory_info().error().code(), StatusCode::kDeviceFailed);
  EXPECT_EQ(outcome(hanging).code(), StatusCode::kDeviceFailed);
  EXPECT_EQ(outcome(queued).code(), StatusCode::kDeviceFailed);
  EXPECT_EQ(device().health().code(), StatusCode::kDeviceFailed);
  ASSERT_TRUE(succeeded(device().clear_faults()));
  EXPECT_EQ(device().health().code(), StatusCode::kDeviceFailed) << "lost stays lost";
  EXPECT_EQ(device().allocate(granularity()).error().code(), StatusCode::kDeviceFailed);
  EXPECT_EQ(device().deallocate(address).code(), StatusCode::kDeviceFailed);
  EXPECT_EQ(device().record(stream).error().code(), StatusCode::kDeviceFailed);
  EXPECT_EQ(device().destroy_stream(stream).code(), StatusCode::kDeviceFailed);
  EXPECT_EQ(device().info().name.empty(), false);
}

TEST_P(DeviceConformance, FailsAndCorruptsPeerCopies) {
  Device* const neighbour = peer();
  if (!has(DeviceCap::kFaultInjection) || neighbour == nullptr) return;
  const auto content = pattern(1000, 6);
  void* const here = allocate(content.size());
  auto there = neighbour->allocate(content.size());
  ASSERT_TRUE(succeeded(there));
  upload(here, content);
  const Stream stream = create_stream();
  ASSERT_TRUE(succeeded(device().inject(make_fault(Kind::kFail, "copy_to_peer"))));
  EXPECT_EQ(outcome(device().copy_to_peer(*neighbour, *there, here, content.size(), stream)).code(),
            StatusCode::kIoError);
  ASSERT_TRUE(succeeded(device().inject(make_fault(Kind::kCorrupt, "copy_to_peer"))));
  EXPECT_TRUE(finished(device().copy_to_peer(*neighbour, *there, here, content.size(), stream)));
  const auto result = download_from(*neighbour, *there, content.size());
  std::size_t num_different = 0;
  for (std::size_t i = 0; i < content.size(); ++i) num_different += result[i] != content[i] ? 1 : 0;
  EXPECT_EQ(num_different, 1U);
  EXPECT_TRUE(succeeded(device().destroy_stream(stream)));
  EXPECT_TRUE(succeeded(neighbour->deallocate(*there)));
  deallocate(here);
}

}  // namespace
}  // namespace vmem
