// What is going on, for whoever waits: one line that is rewritten on a terminal, else a line every few seconds.
#pragma once

#include <chrono>
#include <cstddef>
#include <iosfwd>
#include <string>

namespace vmem {

// Thread contract: one thread.
class Progress {
 public:
  // `terminal`: the stream is one.
  Progress(std::ostream& stream, bool terminal);

  // What comes next.
  void start(std::string what);
  // Part `done` of `total` of it.
  void update(std::size_t done, std::size_t total);
  // Takes the line off a terminal, so that something else can be printed.
  void clear();

 private:
  void show(const std::string& text);

  std::ostream& stream_;
  bool terminal_;
  std::string what_;
  std::size_t shown_columns_ = 0;
  std::chrono::steady_clock::time_point shown_at_;
};

}  // namespace vmem
