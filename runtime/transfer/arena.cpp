#include "runtime/transfer/arena.hpp"

#include <tbb/flow_graph.h>
#include <tbb/task_arena.h>

#include <optional>
#include <utility>

namespace vmem {

struct TransferArena::State {
  // One slot more than threads: for whoever builds a graph or drains one.
  explicit State(unsigned num_threads) : arena(static_cast<int>(num_threads) + 1, num_threads + 1) {}

  tbb::task_arena arena;
  std::optional<tbb::flow::graph> keeper;  // its wait ends only with the arena, so the threads serve whatever comes
};

TransferArena::TransferArena(unsigned num_threads) : state_(std::make_unique<State>(num_threads)) {
  state_->arena.execute([this] { state_->keeper.emplace(); });
  state_->keeper->reserve_wait();
  for (unsigned i = 0; i < num_threads; ++i) {
    threads_.emplace_back([this] { state_->arena.execute([this] { state_->keeper->wait_for_all(); }); });
  }
}

TransferArena::~TransferArena() {
  state_->keeper->release_wait();
  for (auto& thread : threads_) thread.join();
  state_->arena.execute([this] { state_->keeper.reset(); });
}

void TransferArena::enqueue(std::function<void()> task) { state_->arena.enqueue(std::move(task)); }

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
