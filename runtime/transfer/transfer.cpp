#include "runtime/transfer/transfer.hpp"

#include <utility>

namespace vmem {
namespace {

std::uint64_t sum_of(const std::vector<ByteRange>& ranges) {
  std::uint64_t bytes = 0;
  for (const ByteRange& range : ranges) bytes += range.bytes;
  return bytes;
}

}  // namespace

void TransferLedger::begin() {
  MutexLock lock(mutex_);
  ++started_;
}

void TransferLedger::end(const Status& status, std::uint64_t bytes) {
  MutexLock lock(mutex_);
  ++(status.is_ok() ? completed_ : failed_);
  if (status.is_ok()) bytes_ += bytes;
  if (started_ == completed_ + failed_) idle_.notify_all();
}

bool TransferLedger::wait_until_idle(std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(mutex_);
  return idle_.wait_until(mutex_, deadline, [this] {
    mutex_.assert_held();
    return started_ == completed_ + failed_;
  });
}

void TransferLedger::wait_until_idle() {
  MutexLock lock(mutex_);
  while (started_ != completed_ + failed_) idle_.wait(mutex_);
}

void TransferLedger::read(TransferStats& stats) const {
  MutexLock lock(mutex_);
  stats.started = started_;
  stats.completed = completed_;
  stats.failed = failed_;
  stats.bytes = bytes_;
}

Transfer::Transfer(const TransferRequest& request, std::vector<ByteRange> ranges,
                   std::shared_ptr<TransferLedger> ledger, std::shared_ptr<TransferCompletion> completion)
    : source(request.source),
      destination(request.destination),
      total_bytes(sum_of(ranges)),
      cursor(std::move(ranges)),
      ledger_(std::move(ledger)),
      completion_(std::move(completion)) {
  ledger_->begin();
}

Transfer::~Transfer() {
  {
    MutexLock lock(mutex_);
    if (ended_) return;
  }
  fail(Status(StatusCode::kOutOfHostMemory, "the transfer could not be started"));
  end();
}

void Transfer::fail(const Status& status) {
  MutexLock lock(mutex_);
  if (error_.is_ok()) error_ = status;
  failed_.store(true, std::memory_order_release);
}

void Transfer::end() {
  Status status;
  {
    MutexLock lock(mutex_);
    status = error_;
    ended_ = true;
  }
  // Counted before anybody hears of it: who has waited for the event finds it in the statistics.
  const auto completion = completion_;
  ledger_->end(status, total_bytes);
  completion->complete(status);
}

}  // namespace vmem
