#include "tests/doubles/driver/kernel_table.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include "backends/kernels/kernels.hpp"

namespace vmem::sim {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    if (end > at) words.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// Of a scalar parameter, by its type's words; the last word may be its name.
std::size_t scalar_bytes(const std::vector<std::string>& words) {
  constexpr std::pair<std::string_view, std::size_t> kTypes[] = {
      {"vmem_u64", 8}, {"uint64_t", 8}, {"int64_t", 8}, {"size_t", 8},   {"double", 8}, {"long", 8},
      {"vmem_u32", 4}, {"uint32_t", 4}, {"int32_t", 4}, {"unsigned", 4}, {"int", 4},    {"float", 4},
      {"short", 2},    {"uint16_t", 2}, {"vmem_u8", 1}, {"uint8_t", 1},  {"char", 1},   {"bool", 1}};
  for (const auto& [type, bytes] : kTypes) {
    if (std::find(words.begin(), words.end(), type) == words.end()) continue;
    // "unsigned long long", "unsigned char" and their kin begin with the general word.
    if (type == "unsigned") {
      if (std::find(words.begin(), words.end(), "char") != words.end()) return 1;
      if (std::find(words.begin(), words.end(), "short") != words.end()) return 2;
    }
    return bytes;
  }
  return 0;
}

// The text between the parentheses after `name`, where it is a kernel's declaration.
std::optional<std::string_view> parameter_list(std::string_view source, std::string_view name) {
  for (std::size_t at = source.find(name); at != std::string_view::npos; at = source.find(name, at + 1)) {
    std::size_t open = at + name.size();
    while (open < source.size() && std::isspace(static_cast<unsigned char>(source[open])) != 0) ++open;
    const bool whole = at > 0 && !is_word(source[at - 1]) && open < source.size() && source[open] == '(';
    const std::size_t start = source.substr(0, at).find_last_of(";{}");
    const std::string_view before = source.substr(start == std::string_view::npos ? 0 : start + 1,
                                                  at - (start == std::string_view::npos ? 0 : start + 1));
    if (!whole || before.find("__global__") == std::string_view::npos) continue;
    const std::size_t close = source.find(')', open);
    if (close == std::string_view::npos) return std::nullopt;
    return source.substr(open + 1, close - open - 1);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<Parameter>> parse_parameters(std::string_view source, std::string_view name) {
  const auto list = parameter_list(source, name);
  if (name.empty() || !list) return std::nullopt;
  std::vector<Parameter> parameters;
  std::string_view rest = *list;
  if (words_of(rest).empty()) return parameters;
  std::size_t offset = 0;
  for (bool more = true; more;) {
    const std::size_t comma = rest.find(',');
    const std::string_view one = rest.substr(0, comma);
    more = comma != std::string_view::npos;
    if (more) rest.remove_prefix(comma + 1);
    Parameter parameter;
    parameter.pointer = one.find('*') != std::string_view::npos;
    parameter.bytes = parameter.pointer ? 8 : scalar_bytes(words_of(one));
    if (parameter.bytes == 0) return std::nullopt;
    offset = (offset + parameter.bytes - 1) / parameter.bytes * parameter.bytes;
    parameter.offset = offset;
    offset += parameter.bytes;
    parameters.push_back(parameter);
  }
  return parameters;
}

bool KernelTable::add(std::string_view name, std::string_view source, KernelBody body) {
  auto parameters = parse_parameters(source, name);
  if (!parameters || body == nullptr) return false;
  MutexLock lock(mutex_);
  added_.push_back({{std::string(name), body, std::move(*parameters)}, std::string(source)});
  return true;
}

std::optional<Kernel> KernelTable::find(std::string_view image, std::string_view name) const {
  MutexLock lock(mutex_);
  const Added* best = nullptr;
  for (const Added& added : added_) {
    if (added.kernel.name != name) continue;
    // A later one is better, unless only the earlier one is the image's own.
    if (best == nullptr || added.source == image || best->source != image) best = &added;
  }
  if (best != nullptr) return best->kernel;
  for (const KernelImage& builtin : builtin_kernels()) {
    if (builtin.name != name) continue;
    auto parameters = parse_parameters(builtin.source, name);
    if (!parameters) return std::nullopt;
    return Kernel{std::string(name), builtin.reference, std::move(*parameters)};
  }
  return std::nullopt;
}

}  // namespace vmem::sim
