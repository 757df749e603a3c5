// Which models a generator's key is for, where it is not for all of them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace allocmark {

struct ModelKey {
  std::string_view generator;
  std::string_view keys;        // with a blank between
  std::string_view models;      // their kinds (ModelShape::kind), likewise
  std::string_view wants = {};  // what else it needs of the workload
};

[[nodiscard]] std::span<const ModelKey> model_keys();
// What stands between the blanks of `keys` or `models`, or between other separators.
[[nodiscard]] std::vector<std::string_view> words_of(std::string_view text, char between = ' ');

// The row of a key that the generator knows, but not for every model; null where there is none.
[[nodiscard]] const ModelKey* find_model_key(std::string_view generator, std::string_view key);

// Whether the key is for models of that kind.
[[nodiscard]] bool is_for_model(const ModelKey& key, std::string_view kind);

// "gpt, bert".
[[nodiscard]] std::string models_of(const ModelKey& key);

}  // namespace allocmark
