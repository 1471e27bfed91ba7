#include "runtime/pool/prefetcher.hpp"

#include <utility>
#include <vector>

#include "runtime/pool/without_exceptions.hpp"

namespace vmem {

void Prefetch::State::finish(Status status) {
  MutexLock lock(mutex);
  outcome = std::move(status);
  done = true;
  finished.notify_all();
}

bool Prefetch::is_done() const noexcept {
  if (!state_) return true;
  MutexLock lock(state_->mutex);
  return state_->done;
}

Status Prefetch::wait() const {
  if (!state_) return {};
  MutexLock lock(state_->mutex);
  while (!state_->done) state_->finished.wait(state_->mutex);
  return state_->outcome;
}

void Prefetch::cancel() const noexcept {
  if (state_) state_->cancelled.store(true);
}

Prefetcher::Prefetcher() = default;

Prefetcher::~Prefetcher() {
  {
    MutexLock lock(mutex_);
    ending_ = true;
    for (const auto& state : queue_) state->cancelled.store(true);
    if (running_) running_->cancelled.store(true);
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Prefetcher::submit(std::shared_ptr<Prefetch::State> state) {
  MutexLock lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  queue_.push_back(std::move(state));
  changed_.notify_all();
}

void Prefetcher::cancel(PoolAddress address, std::size_t bytes) {
  std::vector<std::shared_ptr<Prefetch::State>> touched;
  {
    MutexLock lock(mutex_);
    const auto touch = [&](const std::shared_ptr<Prefetch::State>& state) {
      if (!state || state->address >= address + bytes || address >= state->address + state->bytes) return;
      state->cancelled.store(true);
      touched.push_back(state);
    };
    touch(running_);
    for (const auto& state : queue_) touch(state);
  }
  for (auto& state : touched) static_cast<void>(Prefetch(std::move(state)).wait());
}

void Prefetcher::run() {
  MutexLock lock(mutex_);
  for (;;) {
    while (queue_.empty() && !ending_) changed_.wait(mutex_);
    if (queue_.empty()) return;
    running_ = std::move(queue_.front());
    queue_.pop_front();
    const std::shared_ptr<Prefetch::State> state = running_;
    lock.unlock();
    state->finish(without_exceptions([&] {
      return state->cancelled.load() ? Status(StatusCode::kCancelled, "cancelled before it began")
                                     : state->work(state->cancelled);
    }));
    lock.lock();
    running_.reset();
  }
}

}  // namespace vmem
