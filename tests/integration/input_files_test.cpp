#include "tools/bench/input_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/integration/temporary_folder.hpp"

namespace vmem {
namespace {

using ::testing::HasSubstr;

std::string read(InputFiles& inputs, std::size_t bytes) {
  std::string text(bytes, '?');
  const Status status = inputs.read(reinterpret_cast<std::byte*>(text.data()), bytes);
  EXPECT_TRUE(status) << status.to_string();
  return text;
}

TEST(InputFilesTest, GoesThroughTheFilesAgainAndAgain) {
  const TemporaryFolder folder;
  auto inputs = InputFiles::open({folder.write("a", "12345"), folder.write("b", "67")});
  ASSERT_TRUE(inputs) << inputs.error().to_string();
  EXPECT_EQ(inputs->total_bytes(), 7U);
  EXPECT_EQ(read(*inputs, 3), "123");
  EXPECT_EQ(read(*inputs, 12), "456712345671");
  inputs->rewind();
  EXPECT_EQ(read(*inputs, 2), "12");
}

TEST(InputFilesTest, TakesTheFilesOfAFolderInTheOrderOfTheirNames) {
  const TemporaryFolder folder;
  folder.write("tree/b/second", "BB");
  folder.write("tree/a", "A");
  folder.write("tree/empty", "");
  std::filesystem::create_symlink(folder.path("tree/a"), folder.path("tree/z"));
  std::filesystem::create_symlink(folder.path("tree"), folder.path("tree/loop"));
  auto inputs = InputFiles::open({folder.path("tree")});
  ASSERT_TRUE(inputs) << inputs.error().to_string();
  EXPECT_EQ(inputs->num_files(), 2U);
  EXPECT_EQ(read(*inputs, 3), "ABB");
}

TEST(InputFilesTest, SaysWhichPathIsWrong) {
  const TemporaryFolder folder;
  EXPECT_THAT(InputFiles::open({folder.path("nowhere")}).error().to_string(), HasSubstr("nowhere"));
  EXPECT_THAT(InputFiles::open({"/dev/null"}).error().to_string(), HasSubstr("/dev/null"));
  EXPECT_THAT(InputFiles::open({folder.write("empty", "")}).error().to_string(), HasSubstr("no bytes"));
  EXPECT_THAT(InputFiles::open({folder.path()}).error().to_string(), HasSubstr("no bytes"));
}

TEST(InputFilesTest, EndsWhenAllFilesHaveBecomeEmpty) {
  const TemporaryFolder folder;
  auto inputs = InputFiles::open({folder.write("a", "12345")});
  ASSERT_TRUE(inputs);
  folder.write("a", "");
  std::byte byte{};
  EXPECT_EQ(inputs->read(&byte, 1).code(), StatusCode::kIoError);
}

TEST(InputFilesTest, FindsTheLibrariesOfThisProcess) {
  auto inputs = InputFiles::open_own_libraries();
  ASSERT_TRUE(inputs) << inputs.error().to_string();
  EXPECT_GT(inputs->num_files(), 0U);
  EXPECT_EQ(read(*inputs, 4), "\177ELF");
}

}  // namespace
}  // namespace vmem
