// A JSON text as a tree whose every value knows its line, so that an error found later can still name it.
//
// Stricter than JSON: a duplicate key, a number that no double holds and nesting beyond kMaxJsonDepth are errors.
#pragma once

#include <vmem/status.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vmem {

inline constexpr std::size_t kMaxJsonDepth = 32;

struct JsonValue {
  enum class Kind : std::uint8_t { kNull, kFlag, kCount, kReal, kText, kArray, kObject };

  Kind kind = Kind::kNull;
  std::size_t line = 0;
  bool flag = false;
  std::uint64_t count = 0;             // kCount: whole, not negative, below 2^64
  double real = 0;                     // kCount and kReal; negative whole numbers are kReal
  std::string text;                    // kText: the string; kCount and kReal: the number as it is written
  std::vector<std::string> keys;       // kObject: of `values`, in the file's order
  std::vector<std::size_t> key_lines;  // kObject: of `keys`
  std::vector<JsonValue> values;       // kArray and kObject

  // REQUIRES: an object. Null where the key is not there.
  const JsonValue* find(std::string_view key) const noexcept;
};

// Errors are kConfigError: "FILE, line 7: $.links[0]: ...". A byte order mark at the start is skipped.
Result<JsonValue> parse_json(std::string_view text, std::string_view file);

}  // namespace vmem
