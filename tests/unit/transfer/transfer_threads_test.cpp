// Transfers from many threads, and beside an application that uses oneTBB itself.
#include <gtest/gtest.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <atomic>
#include <thread>
#include <vector>

#include "runtime/transfer/transfer_engine.hpp"
#include "tests/unit/transfer/transfer_machine.hpp"

namespace vmem {
namespace {

TEST(TransferThreadsTest, StartsFromManyThreadsAtOnce) {
  MachineSpec spec;
  spec.num_gpus = 3;
  TransferMachine machine(spec);
  TransferOptions options;
  options.staging_bytes = 1_MiB;
  options.max_in_flight = 4;
  auto& engine = machine.make_engine(options);
  constexpr std::size_t kThreads = 6;
  constexpr std::size_t kRounds = 12;
  std::vector<DeviceBuffer*> buffers;
  for (std::size_t i = 0; i < 2 * kThreads; ++i) buffers.push_back(&machine.buffer(i % 4, 3_MiB));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      DeviceBuffer& a = *buffers[2 * t];
      DeviceBuffer& b = *buffers[2 * t + 1];
      for (std::size_t round = 0; round < kRounds; ++round) {
        const std::size_t bytes = round % 2 == 0 ? 3_MiB : 1 + 977 * round;
        const auto expected = pattern_bytes(a.bytes(), 100 * t + round);
        a.write(expected);
        const Status status =
            engine.copy({{(2 * t) % 4, a.address()}, {(2 * t + 1) % 4, b.address()}, {{0, bytes}}, {}});
        auto found = b.read();
        found.resize(bytes);
        if (!status || !std::equal(found.begin(), found.end(), expected.begin())) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(engine.stats().completed, kThreads * kRounds);
  EXPECT_LE(engine.stats().staging_peak_bytes, 1_MiB);
}

TEST(TransferThreadsTest, ExchangesBothWaysOnASmallRing) {
  MachineSpec spec;
  spec.num_gpus = 4;
  spec.num_hosts = 2;
  TransferMachine machine(spec);
  TransferOptions options;
  options.staging_bytes = 512_KiB;
  auto& engine = machine.make_engine(options);
  constexpr std::size_t kBytes = 2_MiB + 7;
  struct Move {
    DeviceIndex from;
    DeviceIndex to;
    DeviceBuffer* source;
    DeviceBuffer* target;
    std::vector<std::uint8_t> bytes;
    Event event;
  };
  std::vector<Move> moves;
  for (std::size_t from = 0; from < 4; ++from) {
    for (std::size_t to = 0; to < 4; ++to) {
      if (from == to) continue;
      moves.push_back({machine.gpu(from),
                       machine.gpu(to),
                       &machine.buffer(machine.gpu(from), kBytes),
                       &machine.buffer(machine.gpu(to), kBytes),
                       pattern_bytes(kBytes, 10 * from + to),
                       {}});
      moves.back().source->write(moves.back().bytes);
    }
  }
  for (Move& move : moves) {
    auto event =
        engine.start({{move.from, move.source->address()}, {move.to, move.target->address()}, {{0, kBytes}}, {}});
    ASSERT_TRUE(event);
    move.event = std::move(*event);
  }
  for (Move& move : moves) {
    EXPECT_TRUE(move.event.wait());
    EXPECT_TRUE(move.target->read() == move.bytes);
  }
  EXPECT_LE(engine.stats().staging_peak_bytes, 512_KiB);
}

TEST(TransferThreadsTest, NeedsNoWorkerOfTheApplication) {
  const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
  TransferMachine machine;
  machine.make_engine();
  machine.expect_copied(machine.gpu(0), machine.gpu(1), 5_MiB);
  machine.expect_copied(machine.host(), machine.host(), 5_MiB);
}

TEST(TransferThreadsTest, GoesOnWhileTheApplicationKeepsAllWorkersBusy) {
  TransferMachine machine;
  machine.make_engine();
  std::atomic<bool> stop{false};
  std::atomic<int> running{0};
  tbb::task_group busy;
  const int num_workers = tbb::this_task_arena::max_concurrency() - 1;
  for (int i = 0; i < num_workers; ++i) {
    busy.run([&] {
      ++running;
      while (!stop) std::this_thread::yield();
    });
  }
  while (running < num_workers) std::this_thread::yield();
  machine.expect_copied(machine.gpu(0), machine.gpu(1), 5_MiB);
  machine.expect_copied(machine.host(), machine.host(), 5_MiB);
  stop = true;
  busy.wait();
}

TEST(TransferThreadsTest, CopiesFromWithinATaskWithoutRunningOthers) {
  TransferMachine machine;
  machine.make_engine();
  std::atomic<bool> copying{false};
  std::atomic<int> ran_inside{0};
  tbb::task_arena arena(1);
  arena.execute([&] {
    tbb::task_group group;
    for (int i = 0; i < 8; ++i) group.run([&] { ran_inside += copying ? 1 : 0; });
    copying = true;
    machine.expect_copied(machine.gpu(0), machine.gpu(1), 5_MiB);
    copying = false;
    group.wait();
  });
  EXPECT_EQ(ran_inside.load(), 0);
}

}  // namespace
}  // namespace vmem
