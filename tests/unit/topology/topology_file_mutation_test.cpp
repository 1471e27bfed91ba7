// Damaged files: whatever the bytes are, the parser answers with a file or a kConfigError that names one.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "runtime/topology/topology_file.hpp"

namespace vmem {
namespace {

std::string read_example(const char* name) {
  std::ifstream stream(std::string(VMEM_TOPOLOGY_EXAMPLES) + "/" + name);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

class Mutator {
 public:
  explicit Mutator(std::uint32_t seed) : random_(seed) {}

  std::string mutate(std::string text) {
    const std::size_t rounds = 1 + below(6);
    for (std::size_t i = 0; i < rounds; ++i) change(text);
    return text;
  }

 private:
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  void change(std::string& text) {
    static const std::vector<std::string> kPieces = {"-1",
                                                     "1e400",
                                                     "3.14",
                                                     "18446744073709551716",
                                                     "null",
                                                     "true",
                                                     "[",
                                                     "]",
                                                     "{",
                                                     "}",
                                                     ",",
                                                     ":",
                                                     "\"",
                                                     "\\u0000",
                                                     "\\ud800",
                                                     "//",
                                                     "/*",
                                                     "\xEF\xBB\xBF",
                                                     "\xC3",
                                                     std::string(1, '\0'),
                                                     "\n",
                                                     "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
                                                     "\"version\": 1,",
                                                     "\"capacity\": \"99999999999TiB\"",
                                                     "1e-400",
                                                     "-0",
                                                     "\"25GB/s\"",
                                                     "\"0000:41:00.0\""};
    const std::size_t at = below(text.size() + 1);
    switch (below(5)) {
      case 0:
        text.insert(at, kPieces[below(kPieces.size())]);
        break;
      case 1:
        text.erase(at, below(20));
        break;
      case 2:
        text.resize(at);
        break;
      case 3:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      default:
        text.insert(at, text.substr(below(text.size() + 1), below(200)));
        break;
    }
  }

  std::mt19937 random_;
};

TEST(TopologyFileMutation, NeverDoesMoreThanRefuse) {
  const std::vector<std::string> seeds = {read_example("two_vendors.json"), read_example("corrections.json")};
  for (const std::string& seed : seeds) ASSERT_TRUE(parse_topology_file(seed, "m.json"));
  Mutator mutator(20260131);
  int accepted = 0;
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = mutator.mutate(seeds[static_cast<std::size_t>(i) % seeds.size()]);
    const auto file = parse_topology_file(text, "m.json");
    if (file) {
      ++accepted;
      continue;
    }
    ++refused;
    ASSERT_EQ(file.error().code(), StatusCode::kConfigError) << text;
    ASSERT_TRUE(file.error().message().starts_with("topology file 'm.json', line ")) << file.error().to_string();
  }
  // Both kinds must come up, or the mutations test nothing.
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace vmem
