// A text that never changes and that copies share: where many thousands of values hold one of few
// texts, it is in memory once. A TextPool finds the one that is there already.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace allocmark {

class SharedText {
 public:
  SharedText() = default;
  SharedText(std::string text)
      : text_(text.empty() ? nullptr : std::make_shared<const std::string>(std::move(text))) {}
  SharedText(std::string_view text) : SharedText(std::string(text)) {}
  SharedText(const char* text) : SharedText(std::string(text)) {}

  [[nodiscard]] const std::string& text() const {
    static const std::string kEmpty;
    return text_ ? *text_ : kEmpty;
  }
  operator const std::string&() const { return text(); }
  operator std::string_view() const { return text(); }
  [[nodiscard]] bool empty() const { return text_ == nullptr; }
  [[nodiscard]] bool starts_with(std::string_view head) const { return text().starts_with(head); }
  [[nodiscard]] bool contains(std::string_view part) const {
    return text().find(part) != std::string::npos;
  }
  friend bool operator==(const SharedText& a, const SharedText& b) {
    return a.text_ == b.text_ || a.text() == b.text();
  }
  template <std::convertible_to<std::string_view> Text>
  requires(!std::same_as<Text, SharedText>) friend bool operator==(const SharedText& a,
                                                                   const Text& b) {
    return a.text() == std::string_view(b);
  }

 private:
  std::shared_ptr<const std::string> text_;  // null: empty
};

class TextPool {
 public:
  // Replaces the text by the one that came first and says the same.
  void share(SharedText& text) {
    if (text.empty()) return;
    const auto [place, is_new] = texts_.try_emplace(text.text(), text);
    if (!is_new) text = place->second;
  }

 private:
  std::unordered_map<std::string_view, SharedText> texts_;  // by their own bytes, which stay
};

}  // namespace allocmark
