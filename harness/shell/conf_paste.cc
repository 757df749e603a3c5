// See conf_paste.h.
#include "harness/shell/conf_paste.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"

namespace allocmark {
namespace {

constexpr std::string_view kVariables[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
                                           "PYTORCH_HIP_ALLOC_CONF"};

// What people call no config string.
constexpr std::string_view kWordsForNone[] = {"default", "none",     "off",  "no",     "null",
                                              "nothing", "baseline", "base", "native", "empty"};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == ';')) text.remove_suffix(1);
  return text;
}

std::string_view unquoted(std::string_view text) {
  const bool quoted = text.size() >= 2 && (text.front() == '"' || text.front() == '\'') &&
                      text.front() == text.back();
  return quoted ? text.substr(1, text.size() - 2) : text;
}

}  // namespace

void refuse_words_for_none(const std::string& text) {
  // What stands behind the allocator's name, in "caching=none".
  const std::size_t equals = text.find('=');
  const bool is_named = equals != std::string::npos && text.find(':') == std::string::npos;
  const std::string name = is_named ? text.substr(0, equals + 1) : "";
  std::string word = text.substr(name.size());
  std::ranges::transform(word, word.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const bool is_capital = word == "unset" && text.substr(name.size()) != word;
  if (!is_capital && std::ranges::find(kWordsForNone, word) == std::end(kWordsForNone)) return;
  throw UsageError({.what = "this is no config string",
                    .where = "--conf '" + text + "'",
                    .wanted = "KEY:VALUE,KEY:VALUE, or unset for none",
                    .next = "did you mean --conf " + name + "unset?"});
}

PastedConf read_pasted_conf(const std::string& text) {
  std::string_view rest = unquoted(trimmed(text));
  if (rest.starts_with("export ")) rest = trimmed(rest.substr(7));
  for (const std::string_view variable : kVariables) {
    if (rest == fmt::format("unset {}", variable))
      return {.conf = "unset", .note = fmt::format("'{}' is taken as no config string", text)};
    if (!rest.starts_with(variable) || rest.substr(variable.size(), 1) != "=") continue;
    std::string conf(unquoted(trimmed(rest.substr(variable.size() + 1))));
    std::string note = fmt::format("'{}' is taken as the config string '{}'", text, conf);
    return {.conf = std::move(conf), .note = std::move(note)};
  }
  const std::string_view bare = unquoted(text);
  if (bare == text) return {.conf = text, .note = ""};
  return {.conf = std::string(bare),
          .note = fmt::format("the quotes around {} are left out", text)};
}

}  // namespace allocmark
