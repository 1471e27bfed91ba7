// The conformance suite: what every Device must do, whatever its backend. Written once; a backend instantiates it with
//
//   INSTANTIATE_TEST_SUITE_P(Cuda, DeviceConformance, ::testing::Values(factory...), conformance_name);
//
// and links vmem_conformance. Contents are verified through copies, never by following a device's pointer. Groups that
// a device lacks are tested to be absent, so every group should be instantiated both ways.
#pragma once

#include <gtest/gtest.h>
#include <vmem/backend.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace vmem {

// A backend with its devices; the one under test is `devices[index]`.
struct Subject {
  std::unique_ptr<Backend> backend;
  std::vector<std::unique_ptr<Device>> devices;
  std::size_t index = 0;
};

struct SubjectFactory {
  std::string name;  // letters and digits: part of the tests' names
  std::function<Result<Subject>()> make;
  // Its memory is the test's alone and small enough to be filled, and its accounting is exact.
  bool exact_memory = true;
};

inline void PrintTo(const SubjectFactory& factory, std::ostream* out) { *out << factory.name; }

std::string conformance_name(const ::testing::TestParamInfo<SubjectFactory>& info);

class DeviceConformance : public ::testing::TestWithParam<SubjectFactory> {
 protected:
  void SetUp() override;
  void TearDown() override;

  Device& device() { return *subject_.devices[subject_.index]; }
  bool has(DeviceCap cap) { return device().info().caps.has(cap); }
  std::size_t granularity() { return device().info().granularity; }
  // Another device of the backend; null where there is none.
  Device* other();
  // One that `device()` can copy to straight; null where there is none.
  Device* peer();
  std::uint64_t free_bytes();
  // Ends the test's accounting: after a device is lost, or is destroyed by the test.
  void expect_no_accounting() { accounted_ = false; }
  void destroy_device() { subject_.devices[subject_.index].reset(), accounted_ = false; }

  void* allocate(std::size_t bytes);
  void deallocate(void* address);
  Stream create_stream();
  void upload(void* destination, const std::vector<std::uint8_t>& bytes) { upload_to(device(), destination, bytes); }
  std::vector<std::uint8_t> download(const void* source, std::size_t bytes) {
    return download_from(device(), source, bytes);
  }
  static void upload_to(Device& device, void* destination, const std::vector<std::uint8_t>& bytes);
  static std::vector<std::uint8_t> download_from(Device& device, const void* source, std::size_t bytes);

 private:
  Subject subject_;
  std::uint64_t free_at_start_ = 0;
  bool accounted_ = false;
};

// Bytes that differ from place to place and from seed to seed.
std::vector<std::uint8_t> pattern(std::size_t bytes, std::uint64_t seed);

// `address` + `bytes`, of a device.
inline void* offset(void* address, std::size_t bytes) { return static_cast<std::uint8_t*>(address) + bytes; }

// Success of a Status, a Result or an Event's outcome, with its text where it fails.
::testing::AssertionResult succeeded(const Status& status);
template <typename T>
::testing::AssertionResult succeeded(const Result<T>& result) {
  return succeeded(result.error());
}
// The work was enqueued and its outcome is success; `deadline_s` seconds guard against a hang.
::testing::AssertionResult finished(const Result<Event>& event);

// The error of the call, or else of the work.
Status outcome(const Result<Event>& event);

}  // namespace vmem
