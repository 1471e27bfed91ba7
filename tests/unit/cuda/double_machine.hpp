// The backend on the driver's double, beside an application that uses the same driver.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backends/cuda/cuda_backend.hpp"
#include "backends/kernels/kernels.hpp"
#include "tests/doubles/tests/cuda_library.hpp"

namespace vmem {

class DoubleMachine : public ::testing::Test {
 protected:
  // Settings of the double, by their keys.
  using Settings = std::map<std::string, std::string>;

  void TearDown() override { close(); }

  // The double starts anew. Its settings are seen by processes that the backend starts, too.
  void open(const Settings& settings = {}) {
    close();
    settings_ = settings;
    settings_.try_emplace("CAPACITY", "64MiB");
    for (const auto& [key, value] : settings_) ::setenv(("VMEM_DOUBLE_" + key).c_str(), value.c_str(), 1);
    cuda.reset();
    for (const KernelImage& kernel : builtin_kernels()) add_body(kernel);
    BackendConfig config;
    config.log = [this](LogLevel level, std::string_view message) {
      if (level != LogLevel::kWarn && level != LogLevel::kError) return;
      const std::lock_guard<std::mutex> lock(log_mutex_);
      log_ += std::string(message) + "\n";
    };
    auto backend = create_cuda_backend(config, options);
    ASSERT_TRUE(backend) << backend.error().to_string();
    backend_ = std::move(*backend);
    auto found = backend_->discover();
    ASSERT_TRUE(found) << found.error().to_string();
    devices_ = std::move(*found);
  }
  void close() {
    devices_.clear();
    backend_.reset();
    for (const auto& [key, value] : settings_) ::unsetenv(("VMEM_DOUBLE_" + key).c_str());
    settings_.clear();
  }

  Device& device(std::size_t index = 0) { return *devices_.at(index); }
  std::string log() {
    const std::lock_guard<std::mutex> lock(log_mutex_);
    return log_;
  }
  void add_body(const KernelImage& kernel) {
    cuda.add_kernel(kernel.name, kernel.source, reinterpret_cast<void (*)()>(kernel.reference));
  }

  void* allocate(std::size_t bytes, std::size_t index = 0) {
    auto address = device(index).allocate(bytes);
    EXPECT_TRUE(address) << address.error().to_string();
    return address ? *address : nullptr;
  }
  Stream stream(std::size_t index = 0) {
    auto made = device(index).create_stream();
    EXPECT_TRUE(made) << made.error().to_string();
    return made ? *made : Stream();
  }
  static Status outcome(const Result<Event>& event) {
    return event ? event->wait(std::chrono::steady_clock::now() + std::chrono::seconds(30)) : event.error();
  }
  // Lets what hangs end, once it does hang.
  void release_hung() {
    while (cuda.num_hung() == 0) std::this_thread::yield();
    cuda.release_hung();
  }
  static Status wait_a_moment(const Event& event) {
    return event.wait(std::chrono::steady_clock::now() + std::chrono::milliseconds(20));
  }

  CudaLibrary cuda;
  CudaOptions options = [this] {
    CudaOptions chosen;
    chosen.driver_library = VMEM_CUDA_DOUBLE;
    chosen.probe_program = VMEM_CUDA_PROBE;
    chosen.use_embedded_kernels = false;
    // The double takes a kernel's source for its image.
    chosen.compiler = [this](const KernelImage& kernel, int, int) -> Result<std::string> {
      if (kernel.reference != nullptr) add_body(kernel);
      return std::string(kernel.source);
    };
    return chosen;
  }();
  std::unique_ptr<Backend> backend_;
  std::vector<std::unique_ptr<Device>> devices_;

 private:
  Settings settings_;
  std::mutex log_mutex_;
  std::string log_;
};

inline ::testing::AssertionResult ok(const Status& status) {
  if (status) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << status.to_string();
}

template <typename T>
::testing::AssertionResult ok(const Result<T>& result) {
  return ok(result.error());
}

}  // namespace vmem
