#include "runtime/transfer/arena.hpp"

#include <tbb/flow_graph.h>
#include <tbb/task_arena.h>

#include <deque>
#include <utility>

#include "runtime/support/thread_sanitizer.hpp"

namespace vmem {

struct TransferArena::State {
  // One slot more than threads: for whoever builds a graph or drains one.
  explicit State(unsigned num_threads) : arena(static_cast<int>(num_threads) + 1, num_threads + 1) {}

  void run_next() {
    std::function<void()> task;
    {
      MutexLock lock(mutex);
      task = std::move(tasks.front());
      tasks.pop_front();
    }
    task();
  }

  tbb::task_arena arena;
  // One for each thread: its wait ends only with the arena, so the thread serves whatever comes.
  std::deque<tbb::flow::graph> keepers;
  Mutex mutex;
  std::deque<std::function<void()>> tasks VMEM_GUARDED_BY(mutex);  // one for each run_next that was enqueued
};

TransferArena::TransferArena(unsigned num_threads) : state_(std::make_unique<State>(num_threads)) {
  try {
    for (unsigned i = 0; i < num_threads; ++i) {
      tbb::flow::graph* keeper = nullptr;
      state_->arena.execute([&] { keeper = &state_->keepers.emplace_back(); });
      keeper->reserve_wait();
      threads_.emplace_back([this, keeper] { state_->arena.execute([keeper] { keeper->wait_for_all(); }); });
    }
  } catch (...) {  // the system has no more threads
    end_threads();
    throw;
  }
}

TransferArena::~TransferArena() { end_threads(); }

void TransferArena::end_threads() {
  for (auto& keeper : state_->keepers) keeper.release_wait();
  for (auto& thread : threads_) thread.join();
  state_->arena.execute([this] { state_->keepers.clear(); });
}

void TransferArena::enqueue(std::function<void()> task) {
  {
    MutexLock lock(state_->mutex);
    state_->tasks.push_back(std::move(task));
  }
  // It reads what oneTBB copied, which ThreadSanitizer can't see the order of; the task is handed over by the mutex.
  state_->arena.enqueue([state = state_.get()]() VMEM_NO_THREAD_SANITIZER { state->run_next(); });
}

void TransferArena::execute(const std::function<void()>& body) { state_->arena.execute(body); }

bool ArenaDoor::enqueue(std::function<void()> task) {
  MutexLock lock(mutex_);
  if (arena_ == nullptr) return false;
  arena_->enqueue(std::move(task));
  return true;
}

void ArenaDoor::close() {
  MutexLock lock(mutex_);
  arena_ = nullptr;
}

}  // namespace vmem
