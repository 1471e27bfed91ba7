#include "runtime/pool/backend_loader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace vmem {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kModules = VMEM_TEST_MODULES;

BackendConfig quiet_config() {
  BackendConfig config;
  config.log = [](LogLevel, std::string_view) {};
  return config;
}

std::string reason_of(const FoundBackends& found, std::string_view name) {
  for (const AbsentBackend& backend : found.absent) {
    if (backend.name == name) return backend.reason;
  }
  return {};
}

const BackendModule* module_of(const FoundBackends& found, std::string_view name) {
  for (const BackendModule& module : found.modules) {
    if (module.name == name) return &module;
  }
  return nullptr;
}

TEST(BackendLoaderTest, LoadsEveryOtherBackendOfTheFolder) {
  const auto found = BackendLoader("", kModules).find({});
  const BackendModule* right = module_of(found, "right");
  ASSERT_NE(right, nullptr);
  auto backend = BackendLoader::create(*right, quiet_config());
  ASSERT_TRUE(backend) << backend.error().to_string();
  EXPECT_EQ((*backend)->name(), "right");
  auto devices = BackendLoader::discover(**backend);
  ASSERT_TRUE(devices);
  EXPECT_EQ(devices->size(), 2U);
}

TEST(BackendLoaderTest, ModulesComeInTheOrderOfTheirNames) {
  const auto found = BackendLoader("", kModules).find({});
  EXPECT_TRUE(std::is_sorted(found.modules.begin(), found.modules.end(),
                             [](const auto& a, const auto& b) { return a.name < b.name; }));
}

TEST(BackendLoaderTest, AWrongSharedObjectIsAbsentWithItsReason) {
  const auto found = BackendLoader("", kModules).find({});
  EXPECT_THAT(reason_of(found, "old_contract"), HasSubstr("built for version 0 of the backend contract"));
  EXPECT_THAT(reason_of(found, "other_build"), HasSubstr("built as 'another build'"));
  EXPECT_THAT(reason_of(found, "no_entry"), HasSubstr("has no vmem_backend_entry"));
  EXPECT_THAT(reason_of(found, "null_entry"), HasSubstr("answered null"));
  EXPECT_THAT(reason_of(found, "not_elf"), HasSubstr("libvmem_backend_not_elf.so"));
  for (const AbsentBackend& backend : found.absent) EXPECT_EQ(module_of(found, backend.name), nullptr);
}

TEST(BackendLoaderTest, ABackendThatCanNotBeMadeSaysWhy) {
  const auto found = BackendLoader("", kModules).find({});
  const auto reason = [&](const char* name) {
    const BackendModule* module = module_of(found, name);
    if (module == nullptr) return std::string("not found");
    const auto backend = BackendLoader::create(*module, quiet_config());
    return backend ? std::string("was made") : backend.error().to_string();
  };
  EXPECT_THAT(reason("create_fails"), HasSubstr("driver 1.0 is too old, 2.0 is needed"));
  EXPECT_THAT(reason("create_throws"), HasSubstr("out of luck"));
  EXPECT_THAT(reason("create_null"), HasSubstr("made no backend"));
  EXPECT_THAT(reason("other_name"), HasSubstr("calls itself 'somebody'"));
}

TEST(BackendLoaderTest, ADiscoveryThatThrowsIsAnError) {
  const auto found = BackendLoader("", kModules).find({});
  const BackendModule* module = module_of(found, "discover_throws");
  ASSERT_NE(module, nullptr);
  auto backend = BackendLoader::create(*module, quiet_config());
  ASSERT_TRUE(backend);
  const auto devices = BackendLoader::discover(**backend);
  ASSERT_FALSE(devices);
  EXPECT_THAT(std::string(devices.error().message()), HasSubstr("no devices today"));
}

TEST(BackendLoaderTest, ABuiltInBackendThatIsNowhereIsAbsent) {
  const char* const names[] = {"nowhere"};
  const auto found = BackendLoader("/no/such/library", "/no/such/folder").find(names);
  EXPECT_THAT(found.modules, IsEmpty());
  ASSERT_EQ(found.absent.size(), 1U);
  EXPECT_THAT(found.absent[0].reason, HasSubstr("/no/such/library"));
  EXPECT_THAT(found.absent[0].reason, HasSubstr("/no/such/folder"));
}

TEST(BackendLoaderTest, NoFolderAtAllIsNoCrash) {
  const auto found = BackendLoader("", "").find({});
  EXPECT_THAT(found.modules, IsEmpty());
  EXPECT_THAT(found.absent, IsEmpty());
}

TEST(BackendLoaderTest, TheFolderBesideTheLibraryComesFirst) {
  const char* const names[] = {"host"};
  const auto found = BackendLoader(VMEM_TEST_BACKENDS, kModules).find(names);
  const BackendModule* host = module_of(found, "host");
  ASSERT_NE(host, nullptr) << reason_of(found, "host");
  EXPECT_EQ(std::filesystem::path(host->path).parent_path(), VMEM_TEST_BACKENDS);
  // Built-in ones first, whatever their names.
  EXPECT_EQ(found.modules.front().name, "host");
}

TEST(BackendLoaderTest, ABrokenBuiltInOneIsReplacedByTheFoldersOwn) {
  const std::string folder = std::filesystem::temp_directory_path() / ("vmem_loader_" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/libvmem_backend_right.so") << "no shared object";
  const char* const names[] = {"right"};
  const auto found = BackendLoader(folder, kModules).find(names);
  const auto broken = BackendLoader(folder, "").find(names);
  std::filesystem::remove_all(folder);
  EXPECT_NE(module_of(found, "right"), nullptr);
  EXPECT_THAT(reason_of(broken, "right"), HasSubstr("libvmem_backend_right.so"));
}

TEST(BackendLoaderTest, TheTableHoldsTheBackendsOfThisBuild) {
  const auto names = built_in_backends();
  ASSERT_THAT(names, Not(IsEmpty()));
  const auto found = BackendLoader("", VMEM_TEST_BACKENDS).find(names);
  EXPECT_THAT(found.absent, IsEmpty());
  EXPECT_EQ(found.modules.size(), names.size());
}

TEST(BackendLoaderTest, BackendsLieBesideTheProgramThatHoldsTheRuntime) {
  const std::string folder = BackendLoader::folder_beside_library();
  EXPECT_EQ(folder, std::filesystem::canonical("/proc/self/exe").parent_path() / "vmem");
}

}  // namespace
}  // namespace vmem
