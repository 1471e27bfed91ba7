#include "runtime/support/read_sections.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace vmem {
namespace {

TEST(ReadSectionsTest, WithoutReadersNobodyIsWaitedFor) {
  ReadSections sections;
  for (int i = 0; i < 10; ++i) sections.wait_for_readers();
}

TEST(ReadSectionsTest, AReaderThatBeganBeforeIsWaitedFor) {
  ReadSections sections;
  std::atomic<bool> waited = false;
  std::thread writer;
  {
    const ReadSections::Reader reader(sections);
    writer = std::thread([&] {
      sections.wait_for_readers();
      waited = true;
    });
    // Time for a wait that wrongly does not wait to be seen; the test below does not depend on luck.
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    EXPECT_FALSE(waited);
  }
  writer.join();
  EXPECT_TRUE(waited);
}

// Readers use records that the writer unpublishes and frees: a wait that ends too early is a use after free, which the
// values show and AddressSanitizer and ThreadSanitizer report.
TEST(ReadSectionsTest, WhatWasTakenAwayMayBeFreedAfterTheWait) {
  constexpr int kAlive = 42;
  constexpr int kDead = 13;
  ReadSections sections;
  std::atomic<int*> published{new int(kAlive)};
  std::atomic<bool> stop = false;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        const ReadSections::Reader reader(sections);
        if (*published.load() != kAlive) ++wrong;
      }
    });
  }
  for (int i = 0; i < 500; ++i) {
    int* const old = published.exchange(new int(kAlive));
    sections.wait_for_readers();
    *old = kDead;
    delete old;
  }
  stop = true;
  for (auto& reader : readers) reader.join();
  delete published.load();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace vmem
