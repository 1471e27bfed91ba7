// Streams being captured into graphs. Guarded by the driver's mutex.
//
// A graph of the doubles is its works in the order in which they were captured, which is one that its edges allow.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "tests/doubles/driver/scheduler.hpp"

namespace vmem::sim {

enum class CaptureMode : std::uint8_t { kGlobal, kThreadLocal, kRelaxed };

struct Graph {
  std::vector<Work> works;
};

// A capture in progress: the queue that began it and those that joined it by an event's wait.
struct Capture {
  // Counted in steps, so that it shows whether the origin has come after everything a member did.
  struct Member {
    std::uint64_t last = 0;
    std::uint64_t joined = 0;
  };

  CaptureMode mode = CaptureMode::kGlobal;
  std::thread::id thread;
  const Queue* origin = nullptr;
  std::uint64_t id = 0;
  bool invalid = false;
  std::uint64_t step = 0;
  std::map<Queue*, Member> members;
  std::vector<std::shared_ptr<Queue>> queues;  // the members, kept
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();

  void add(Queue* queue, Work work) {
    graph->works.push_back(std::move(work));
    members[queue].last = ++step;
  }
  void join(Queue* queue, Queue* awaited, std::uint64_t awaited_step) {
    Member& member = members[awaited];
    if (member.joined < awaited_step) member.joined = awaited_step;
    members[queue].last = ++step;
  }
  bool all_joined() const {
    for (const auto& [queue, member] : members) {
      if (queue != origin && member.last > member.joined) return false;
    }
    return true;
  }
};

}  // namespace vmem::sim
