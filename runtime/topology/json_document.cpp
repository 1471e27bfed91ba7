#include "runtime/topology/json_document.hpp"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

namespace vmem {
namespace {

using Json = nlohmann::json;

// Hands the text to the lexer and counts what it took: the events of the SAX interface don't say where they are.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* position, std::size_t* taken) : position_(position), taken_(taken) {}
  reference operator*() const { return *position_; }
  CountingIterator& operator++() {
    ++position_;
    ++*taken_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) { return a.position_ == b.position_; }
  friend bool operator!=(const CountingIterator& a, const CountingIterator& b) { return !(a == b); }

 private:
  const char* position_;
  std::size_t* taken_;
};

// Builds the tree from the parser's events. The parser keeps its own stack on the heap, so depth costs no call stack.
class TreeBuilder {
 public:
  TreeBuilder(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  std::size_t* taken() { return &taken_; }
  JsonValue take_root() { return std::move(root_); }
  const Status& error() const { return error_; }

  bool null() { return add(JsonValue{}) != nullptr; }
  bool boolean(bool flag) {
    JsonValue value;
    value.kind = JsonValue::Kind::kFlag;
    value.flag = flag;
    return add(std::move(value)) != nullptr;
  }
  // Only negative ones come here. No field takes one, so that they need not be told from other numbers.
  bool number_integer(Json::number_integer_t number) {
    JsonValue value;
    value.kind = JsonValue::Kind::kReal;
    value.real = static_cast<double>(number);
    value.text = std::to_string(number);
    return add(std::move(value)) != nullptr;
  }
  bool number_unsigned(Json::number_unsigned_t number) {
    JsonValue value;
    value.kind = JsonValue::Kind::kCount;
    value.count = number;
    value.real = static_cast<double>(number);
    value.text = std::to_string(number);
    return add(std::move(value)) != nullptr;
  }
  // Whole numbers of more than 64 bits come here too: as text they can still be shown as they were written.
  bool number_float(Json::number_float_t number, const std::string& written) {
    JsonValue value;
    value.kind = JsonValue::Kind::kReal;
    value.real = number;
    value.text = written;
    return add(std::move(value)) != nullptr;
  }
  bool string(std::string& text) {
    JsonValue value;
    value.kind = JsonValue::Kind::kText;
    value.text = std::move(text);
    return add(std::move(value)) != nullptr;
  }
  bool binary(Json::binary_t&) { return fail("binary values are no JSON"); }
  bool start_array(std::size_t) { return open(JsonValue::Kind::kArray); }
  bool start_object(std::size_t) { return open(JsonValue::Kind::kObject); }
  bool end_array() { return close(); }
  bool end_object() { return close(); }
  bool key(std::string& name);
  bool parse_error(std::size_t position, const std::string& token, const nlohmann::detail::exception& exception);

 private:
  struct Open {
    JsonValue* value;
    std::unordered_set<std::string> keys;
  };

  // The lexer looks one character past a number, which may be a line's end: that one does not count.
  std::size_t line() const {
    const std::size_t end = taken_ == 0 ? 0 : std::min(taken_, text_.size()) - 1;
    return 1 +
           static_cast<std::size_t>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(counted_),
                                               text_.begin() + static_cast<std::ptrdiff_t>(end), '\n')) +
           lines_counted_;
  }
  // Counting from the start for every value would make long files quadratic.
  std::size_t advance_line() {
    const std::size_t found = line();
    lines_counted_ = found - 1;
    counted_ = taken_ == 0 ? 0 : std::min(taken_, text_.size()) - 1;
    return found;
  }
  std::string path() const;
  bool fail(std::string_view what);
  JsonValue* add(JsonValue value);
  bool open(JsonValue::Kind kind);
  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  std::string_view file_;
  std::size_t taken_ = 0;
  std::size_t counted_ = 0;
  std::size_t lines_counted_ = 0;
  JsonValue root_;
  std::vector<Open> open_;
  Status error_;
};

// Where the parser is: the innermost element is the one that comes next.
std::string TreeBuilder::path() const {
  std::string path = "$";
  for (std::size_t i = 0; i < open_.size(); ++i) {
    const JsonValue& value = *open_[i].value;
    const bool innermost = i + 1 == open_.size();
    if (value.kind == JsonValue::Kind::kArray) {
      path += '[' + std::to_string(value.values.size() - (innermost ? 0 : 1)) + ']';
    } else if (!innermost || value.keys.size() > value.values.size()) {
      path += '.' + value.keys.back();
    }
  }
  return path;
}

bool TreeBuilder::fail(std::string_view what) {
  if (error_.is_ok()) {
    error_ = Status(StatusCode::kConfigError,
                    std::string(file_) + ", line " + std::to_string(line()) + ": " + path() + ": " + std::string(what));
  }
  return false;
}

JsonValue* TreeBuilder::add(JsonValue value) {
  value.line = advance_line();
  if (open_.empty()) {
    root_ = std::move(value);
    return &root_;
  }
  std::vector<JsonValue>& values = open_.back().value->values;
  values.push_back(std::move(value));
  return &values.back();
}

bool TreeBuilder::open(JsonValue::Kind kind) {
  if (open_.size() >= kMaxJsonDepth) {
    return fail("nested deeper than " + std::to_string(kMaxJsonDepth) + " levels; expected at most that depth");
  }
  JsonValue value;
  value.kind = kind;
  // The pointer stays good: a parent gets no further value while its child is open.
  open_.push_back({add(std::move(value)), {}});
  return true;
}

bool TreeBuilder::key(std::string& name) {
  Open& object = open_.back();
  if (!object.keys.insert(name).second) return fail("duplicate key \"" + name + "\"; expected each key once");
  object.value->key_lines.push_back(advance_line());
  object.value->keys.push_back(std::move(name));
  return true;
}

bool TreeBuilder::parse_error(std::size_t, const std::string& token, const nlohmann::detail::exception& exception) {
  constexpr int kNumberOverflow = 406;
  if (exception.id == kNumberOverflow)
    return fail("the number " + token + " is out of range; expected a finite number");
  const std::string_view message = exception.what();
  const bool in_text = message.find("invalid string") != std::string_view::npos;
  const char stopped_at = token.empty() ? '\0' : token.back();
  if (!in_text && stopped_at == '/') return fail("no JSON: comments are not part of it; remove the comment");
  if (!in_text && (stopped_at == '}' || stopped_at == ']')) {
    // The bracket is the last character taken; what counts is the one before it that is no space.
    const std::string_view before = text_.substr(0, std::min(taken_, text_.size()) - 1);
    const std::size_t significant = before.find_last_not_of(" \t\r\n");
    if (significant != std::string_view::npos && before[significant] == ',') {
      return fail("no JSON: a comma before the closing bracket; remove the trailing comma");
    }
  }
  std::string_view what = message;
  // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while ..." from its last part on.
  if (const std::size_t colon = what.find(": "); colon != std::string_view::npos) what.remove_prefix(colon + 2);
  return fail("no JSON: " + std::string(what));
}

}  // namespace

const JsonValue* JsonValue::find(std::string_view key) const noexcept {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] == key) return &values[i];
  }
  return nullptr;
}

Result<JsonValue> parse_json(std::string_view text, std::string_view file) {
  TreeBuilder builder(text, file);
  const CountingIterator begin(text.data(), builder.taken());
  const CountingIterator end(text.data() + text.size(), builder.taken());
  const bool parsed = Json::sax_parse(begin, end, &builder);
  if (!parsed) return builder.error();
  return builder.take_root();
}

}  // namespace vmem
