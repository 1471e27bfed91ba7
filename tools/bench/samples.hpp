// Times of rounds that were taken in turn with a reference's, and what is made of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

namespace vmem {

// The middle value; of an even number the mean of the middle two. 0 for none.
double median(std::vector<double> values);

// Seconds on the steady clock since it was made.
class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace vmem
