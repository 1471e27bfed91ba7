// One request under way: what is still to be cut into chunks, what has failed, whom to tell at the end.
#pragma once

#include <vmem/status.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/support/thread_annotations.hpp"
#include "runtime/transfer/chunking.hpp"
#include "runtime/transfer/transfer_completion.hpp"
#include "runtime/transfer/transfer_engine.hpp"

namespace vmem {

// Counts transfers, so that the engine can wait for the last. Shared with completions, which may come late.
// Thread contract: every member may be called from any thread.
class TransferLedger {
 public:
  void begin();
  void end(const Status& status, std::uint64_t bytes);
  // False when the deadline came first.
  bool wait_until_idle(std::chrono::steady_clock::time_point deadline);
  void wait_until_idle();
  // Fills in what the ledger knows.
  void read(TransferStats& stats) const;

 private:
  mutable Mutex mutex_;
  CondVar idle_;
  std::uint64_t started_ VMEM_GUARDED_BY(mutex_) = 0;
  std::uint64_t completed_ VMEM_GUARDED_BY(mutex_) = 0;
  std::uint64_t failed_ VMEM_GUARDED_BY(mutex_) = 0;
  std::uint64_t bytes_ VMEM_GUARDED_BY(mutex_) = 0;
};

class Transfer {
 public:
  // Counts itself in the ledger.
  Transfer(const TransferRequest& request, std::vector<ByteRange> ranges, std::shared_ptr<TransferLedger> ledger,
           std::shared_ptr<TransferCompletion> completion);
  // Ends as failed what did not come as far as its end: memory for its chunks ran out.
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  const Endpoint source;
  const Endpoint destination;
  const std::uint64_t total_bytes;
  ChunkPlan plan;
  std::size_t most_pieces = 0;  // a chunk's

  // The rest is the route's, under its mutex.
  ChunkCursor cursor;
  std::size_t chunks_out = 0;

  // The first error counts. Chunks of a failed transfer move no more bytes.
  void fail(const Status& status);
  bool has_failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  // Tells everybody. REQUIRES: called once; no copy of the transfer is under way, but for those that never end.
  void end();
  // The same with the last one's outcome.
  void end(const Status& outcome) {
    if (!outcome) fail(outcome);
    end();
  }

  const std::shared_ptr<TransferCompletion>& completion() const noexcept { return completion_; }

 private:
  const std::shared_ptr<TransferLedger> ledger_;          // shared by the transfers and the engine
  const std::shared_ptr<TransferCompletion> completion_;  // shared with the events handed out
  std::atomic<bool> failed_{false};
  Mutex mutex_;
  Status error_ VMEM_GUARDED_BY(mutex_);
  bool ended_ VMEM_GUARDED_BY(mutex_) = false;
};
using TransferPtr = std::shared_ptr<Transfer>;  // shared by its chunks, which end in any order

}  // namespace vmem
