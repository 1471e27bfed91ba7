#include "backends/cuda/stream_table.hpp"

#include <algorithm>

namespace vmem {

StreamTable::Found StreamTable::find(CuStream stream) const {
  MutexLock lock(mutex_);
  const auto it = entries_.find(stream);
  if (it == entries_.end()) return {};
  return {it->second.in_use ? Answer::kInUse : Answer::kIdle, it->second.context};
}

std::optional<CuStream> StreamTable::take_idle(const CudaContext* context) {
  MutexLock lock(mutex_);
  for (auto it = idle_.rbegin(); it != idle_.rend(); ++it) {
    CuStream stream = *it;
    Entry& entry = entries_.at(stream);
    if (entry.context != context) continue;
    idle_.erase(std::next(it).base());
    entry.in_use = true;
    return stream;
  }
  return std::nullopt;
}

void StreamTable::add(CuStream stream, const CudaContext* context) {
  MutexLock lock(mutex_);
  entries_[stream] = Entry{context, true};
}

bool StreamTable::begin_end(CuStream stream, const CudaContext* context) {
  MutexLock lock(mutex_);
  const auto it = entries_.find(stream);
  if (it == entries_.end() || it->second.context != context || !it->second.in_use) return false;
  it->second.in_use = false;
  return true;
}

void StreamTable::give_back(CuStream stream, bool in_use) {
  MutexLock lock(mutex_);
  const auto it = entries_.find(stream);
  if (it == entries_.end()) return;
  it->second.in_use = in_use;
  if (!in_use) idle_.push_back(stream);
}

std::vector<CuStream> StreamTable::remove(const CudaContext* context) {
  MutexLock lock(mutex_);
  std::vector<CuStream> removed;
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (it->second.context != context) {
      ++it;
      continue;
    }
    removed.push_back(it->first);
    it = entries_.erase(it);
  }
  std::erase_if(idle_,
                [&](CuStream stream) { return std::find(removed.begin(), removed.end(), stream) != removed.end(); });
  return removed;
}

}  // namespace vmem
