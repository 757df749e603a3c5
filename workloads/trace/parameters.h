// The text that names a generator and its parameters, "name:variant,key=value,key=value", and
// typed, checked reads of the values. A key that no read asked for is refused: a misspelled key
// never falls back to a default.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace allocmark {

struct ModelKey;

struct NumberRange {
  std::uint64_t lowest = 0;
  std::uint64_t highest = UINT64_MAX;
};

class Parameters {
 public:
  // Throws UsageError where the text does not follow the grammar or gives a key twice.
  explicit Parameters(std::string_view text);

  [[nodiscard]] const std::string& text() const { return text_; }  // the whole text
  [[nodiscard]] const std::string& name() const { return name_; }  // before the colon
  [[nodiscard]] const std::string& variant() const {
    return variant_;
  }  // first word after it without '='

  // The value as it was given, null where it was not. This is no read: the key may still be
  // refused.
  [[nodiscard]] const std::string* given(std::string_view key) const;

  // Each read throws UsageError with key, allowed values and the text given. Where the key is not
  // given its value is the preset, which may lie outside of the range.
  [[nodiscard]] std::uint64_t number(std::string_view key, std::uint64_t preset,
                                     const NumberRange& range);
  // Numbers joined by '/', at most 1024 of them.
  [[nodiscard]] std::vector<std::uint64_t> numbers(std::string_view key, std::uint64_t preset,
                                                   const NumberRange& range);
  [[nodiscard]] std::uint64_t size_bytes(std::string_view key, std::uint64_t preset,
                                         const NumberRange& range);
  // A key that is 0 or 1.
  [[nodiscard]] bool flag(std::string_view key, bool preset) {
    return number(key, preset ? 1 : 0, {0, 1}) == 1;
  }
  // The index of the value in `choices`; that of the preset where the key is not given.
  [[nodiscard]] std::size_t choice(std::string_view key, const std::vector<std::string>& choices,
                                   std::size_t preset = 0);
  // The same of an enumeration, whose values the choices name in order.
  template <typename Enum>
  [[nodiscard]] Enum pick(std::string_view key, const std::vector<std::string>& choices) {
    return static_cast<Enum>(choice(key, choices));
  }
  // The variant, which must be one of `known`; the first one where none is given and `required` is
  // false.
  [[nodiscard]] std::size_t variant_index(std::string_view what,
                                          const std::vector<std::string>& known, bool required);

  // Which of the words of model_keys.cc the model is; set by the generators that have models.
  void set_model_kind(std::string_view kind) { model_kind_ = kind; }

  // The keys that were read and not given, with the values that stand for them: "1024", "bf16".
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& presets() const {
    return presets_;
  }

  // Refuses a value that follows the grammar but breaks a rule between keys.
  [[noreturn]] void refuse(std::string_view key, std::string wanted, std::string_view got) const;
  [[noreturn]] void refuse(std::string_view key, std::string wanted, std::uint64_t got) const {
    refuse(key, std::move(wanted), std::to_string(got));
  }
  // The same of a key that was given, with its value.
  [[noreturn]] void refuse(std::string_view key, std::string wanted) const {
    refuse(key, std::move(wanted), *given(key));
  }
  void refuse_if(bool is_wrong, std::string_view key, std::string wanted) const {
    if (is_wrong) refuse(key, std::move(wanted));
  }
  void refuse_if(bool is_wrong, std::string_view key, std::string wanted,
                 std::string_view got) const {
    if (is_wrong) refuse(key, std::move(wanted), got);
  }
  void refuse_if(bool is_wrong, std::string_view key, std::string wanted, std::uint64_t got) const {
    if (is_wrong) refuse(key, std::move(wanted), got);
  }

  // For generators without variants.
  void refuse_variant() const;

  // After the last read: refuses what nobody asked for.
  void finish() const;

 private:
  [[nodiscard]] const std::string* find(std::string_view key);
  // A key that is there for other models, or with other keys.
  void refuse_for_model(const std::string& key, const ModelKey& row) const;

  std::string text_;
  std::string name_;
  std::string variant_;
  std::vector<std::pair<std::string, std::string>> values_;
  std::vector<std::string> asked_;  // keys that were read, given or not
  std::vector<std::pair<std::string, std::string>> presets_;
  std::string model_kind_;  // empty for a generator without models
};

}  // namespace allocmark
