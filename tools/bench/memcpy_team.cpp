#include "tools/bench/memcpy_team.hpp"

#include <vmem/types.hpp>

#include <algorithm>
#include <barrier>
#include <cstring>
#include <semaphore>
#include <thread>
#include <vector>

namespace vmem {
namespace {

constexpr std::size_t kStagingBytes = 256_KiB;

}  // namespace

// CONCURRENCY: the job's fields are written before the threads pass `start_` and read after it; `end_` gives them back.
class MemcpyTeam::Impl {
 public:
  explicit Impl(unsigned num_threads) : num_threads_(num_threads), start_(num_threads), end_(num_threads) {
    for (unsigned i = 1; i < num_threads; ++i) threads_.emplace_back([this, i] { serve(i); });
  }

  ~Impl() {
    stop_ = true;
    start_.arrive_and_wait();
    for (std::thread& thread : threads_) thread.join();
  }

  void copy(std::byte* destination, const std::byte* source, std::size_t bytes) {
    destination_ = destination;
    source_ = source;
    bytes_ = bytes;
    start_.arrive_and_wait();
    copy_share(0, first_staging_);
    end_.arrive_and_wait();
  }

 private:
  void serve(unsigned index) {
    std::vector<std::byte> staging(kStagingBytes);
    for (;;) {
      start_.arrive_and_wait();
      if (stop_) return;
      copy_share(index, staging);
      end_.arrive_and_wait();
    }
  }

  void copy_share(unsigned index, std::vector<std::byte>& staging) {
    const std::size_t end = bytes_ * (index + 1) / num_threads_;
    for (std::size_t offset = bytes_ * index / num_threads_; offset < end; offset += staging.size()) {
      const std::size_t piece = std::min(staging.size(), end - offset);
      std::memcpy(staging.data(), source_ + offset, piece);
      std::memcpy(destination_ + offset, staging.data(), piece);
    }
  }

  const unsigned num_threads_;
  std::byte* destination_ = nullptr;
  const std::byte* source_ = nullptr;
  std::size_t bytes_ = 0;
  bool stop_ = false;
  std::vector<std::byte> first_staging_ = std::vector<std::byte>(kStagingBytes);
  std::barrier<> start_;
  std::barrier<> end_;
  std::vector<std::thread> threads_;
};

MemcpyTeam::MemcpyTeam(unsigned num_threads) : impl_(std::make_unique<Impl>(std::max(num_threads, 1U))) {}
MemcpyTeam::~MemcpyTeam() = default;

void MemcpyTeam::copy_twice(std::byte* destination, const std::byte* source, std::size_t bytes) {
  impl_->copy(destination, source, bytes);
}

void copy_by_pipeline(std::byte* destination, const std::byte* source, std::size_t bytes, std::size_t buffer_bytes,
                      std::size_t num_buffers) {
  static std::vector<std::byte> ring;  // touched once, as staging memory is
  ring.resize(buffer_bytes * num_buffers);
  const std::size_t num_chunks = (bytes + buffer_bytes - 1) / buffer_bytes;
  std::counting_semaphore<> free_buffers(static_cast<std::ptrdiff_t>(num_buffers));
  std::counting_semaphore<> full_buffers(0);
  const auto size_of = [&](std::size_t chunk) { return std::min(buffer_bytes, bytes - chunk * buffer_bytes); };
  std::thread out([&] {
    for (std::size_t chunk = 0; chunk < num_chunks; ++chunk) {
      full_buffers.acquire();
      std::memcpy(destination + chunk * buffer_bytes, ring.data() + chunk % num_buffers * buffer_bytes, size_of(chunk));
      free_buffers.release();
    }
  });
  for (std::size_t chunk = 0; chunk < num_chunks; ++chunk) {
    free_buffers.acquire();
    std::memcpy(ring.data() + chunk % num_buffers * buffer_bytes, source + chunk * buffer_bytes, size_of(chunk));
    full_buffers.release();
  }
  out.join();
}

}  // namespace vmem
