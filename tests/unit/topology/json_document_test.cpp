#include "runtime/topology/json_document.hpp"

#include <gtest/gtest.h>

#include <string>

namespace vmem {
namespace {

TEST(JsonDocumentTest, KnowsTheLineOfEveryValue) {
  const auto root = parse_json("{\n\"a\": 1\n,\n\"b\": [\n2,\n3.5\n],\n\"c\":\n\"x\",\"d\":null}", "f");
  ASSERT_TRUE(root) << root.error().to_string();
  EXPECT_EQ(root->line, 1U);
  EXPECT_EQ(root->find("a")->line, 2U);
  EXPECT_EQ(root->find("b")->line, 4U);
  EXPECT_EQ(root->find("b")->values[0].line, 5U);
  EXPECT_EQ(root->find("b")->values[1].line, 6U);
  EXPECT_EQ(root->find("c")->line, 9U);
  EXPECT_EQ(root->find("d")->line, 9U);
  EXPECT_EQ(root->key_lines, (std::vector<std::size_t>{2, 4, 8, 9}));
  EXPECT_EQ(root->find("e"), nullptr);
}

TEST(JsonDocumentTest, KeepsWholeNumbersToTheLastDigit) {
  const auto root =
      parse_json("[18446744073709551615, 18446744073709551616, -9223372036854775808, 9007199254740993]", "f");
  ASSERT_TRUE(root);
  EXPECT_EQ(root->values[0].kind, JsonValue::Kind::kCount);
  EXPECT_EQ(root->values[0].count, 18446744073709551615U);
  EXPECT_EQ(root->values[1].kind, JsonValue::Kind::kReal);
  EXPECT_EQ(root->values[1].text, "18446744073709551616");
  EXPECT_EQ(root->values[2].kind, JsonValue::Kind::kReal);
  EXPECT_EQ(root->values[3].count, 9007199254740993U);
}

TEST(JsonDocumentTest, TakesTheDeepestAllowedNestingAndNoMore) {
  const std::string deep = std::string(kMaxJsonDepth, '[') + std::string(kMaxJsonDepth, ']');
  EXPECT_TRUE(parse_json(deep, "f"));
  EXPECT_FALSE(parse_json("[" + deep + "]", "f"));
}

TEST(JsonDocumentTest, TakesNoSlashInATextForAComment) {
  const auto root = parse_json("[\"a/\x01\"]", "f");
  ASSERT_FALSE(root);
  EXPECT_EQ(root.error().message().find("comment"), std::string::npos) << root.error().to_string();
  EXPECT_TRUE(parse_json("[\"//\", \"/* */\", \",]\"]", "f"));
}

TEST(JsonDocumentTest, CountsLinesOfLongFilesInLinearTime) {
  std::string text = "[";
  for (int i = 0; i < 200'000; ++i) text += "0,\n";
  text += "1]";
  const auto root = parse_json(text, "f");
  ASSERT_TRUE(root);
  EXPECT_EQ(root->values.back().line, 200'001U);
}

}  // namespace
}  // namespace vmem
