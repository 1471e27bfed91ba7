// Typed reads of JSON values. The first thing that is wrong is kept, with its file, line, JSON path and what was
// expected; reads after it answer with nothing.
#pragma once

#include <vmem/device_info.hpp>
#include <vmem/status.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/topology/json_document.hpp"

namespace vmem {

class JsonErrors {
 public:
  explicit JsonErrors(std::string file) : file_(std::move(file)) {}

  bool ok() const noexcept { return first_.is_ok(); }
  const Status& first() const noexcept { return first_; }
  void add(std::size_t line, std::string_view path, std::string_view what);
  void add_unexpected(const JsonValue& value, std::string_view path, std::string_view expected);

 private:
  std::string file_;
  Status first_;
};

// An object and the keys it may have. Each read answers with nothing where the key is absent or its value is wrong.
class JsonObject {
 public:
  // A value that is no object, or has a key that is not among `known`, is an error. `errors` and `value` are borrowed.
  JsonObject(JsonErrors& errors, const JsonValue& value, std::string path,
             std::initializer_list<std::string_view> known);

  std::size_t line() const noexcept { return value_.line; }
  const std::string& path() const noexcept { return path_; }
  std::string path_of(std::string_view key) const { return path_ + '.' + std::string(key); }
  bool has(std::string_view key) const noexcept { return find(key) != nullptr; }
  // An absent key is an error that says what was expected there.
  void require(std::string_view key, std::string_view expected);
  void fail(std::string_view key, std::string_view expected);

  std::optional<std::string> text(std::string_view key);  // not empty
  std::optional<bool> flag(std::string_view key);
  std::optional<std::uint64_t> count(std::string_view key, std::uint64_t lowest, std::uint64_t highest);
  std::optional<std::uint64_t> bytes(std::string_view key);                // above 0; 1024 or "16GiB"
  std::optional<double> rate(std::string_view key);                        // above 0; 25e9 or "25GB/s"
  std::optional<std::chrono::nanoseconds> duration(std::string_view key);  // nanoseconds or "5us"
  std::optional<PciAddress> pci(std::string_view key);
  // One of `choices`, as an index into them.
  std::optional<std::size_t> choice(std::string_view key, std::initializer_list<std::string_view> choices);
  const std::vector<JsonValue>* array(std::string_view key);

 private:
  const JsonValue* find(std::string_view key) const noexcept;

  JsonErrors& errors_;
  const JsonValue& value_;
  std::string path_;
};

// A value as a message shows it: "-1", "\"text\"", "null", "an array".
std::string describe(const JsonValue& value);

// "[3]" after a path.
std::string element_path(std::string_view path, std::size_t index);

}  // namespace vmem
