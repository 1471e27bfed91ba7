// The threads that the graphs run on: a oneTBB arena whose every slot is kept for threads of the engine, so that
// progress needs no worker of the application's.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/support/thread_annotations.hpp"

namespace vmem {

// Thread contract: `enqueue` may be called from any thread, from completions too: it hands over and returns.
class TransferArena {
 public:
  explicit TransferArena(unsigned num_threads);
  // Ends the threads. REQUIRES: nothing that was enqueued is still to run.
  ~TransferArena();
  TransferArena(const TransferArena&) = delete;
  TransferArena& operator=(const TransferArena&) = delete;

  // A task for the engine's threads; it must not throw.
  void enqueue(std::function<void()> task);
  // Runs `body` in the arena on the calling thread: graphs built there belong to it.
  void execute(const std::function<void()>& body);

 private:
  struct State;

  void end_threads();

  const std::unique_ptr<State> state_;
  std::vector<std::thread> threads_;
};

// The way into an arena for completions, which may come when it is gone.
// Thread contract: every member may be called from any thread.
class ArenaDoor {
 public:
  explicit ArenaDoor(TransferArena& arena) : arena_(&arena) {}

  // False once the door is closed: the task is dropped.
  bool enqueue(std::function<void()> task);
  void close();

 private:
  Mutex mutex_;
  TransferArena* arena_ VMEM_GUARDED_BY(mutex_);
};

}  // namespace vmem
