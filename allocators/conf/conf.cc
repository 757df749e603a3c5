#include "allocators/conf/conf.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/nearest.h"

namespace allocmark {
namespace {

constexpr std::string_view kForm =
    "key:value pairs separated by ',', a value being one word or a [list]";

bool is_blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

bool is_key_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// A character as an error shows it; control and non-ASCII bytes by number, so that a message stays
// printable.
std::string shown(char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (byte >= 0x20 && byte < 0x7F) return "'" + std::string(1, c) + "'";
  return "byte " + std::to_string(byte);
}

class Splitter {
 public:
  Splitter(std::string_view conf, std::span<const std::string> known_keys)
      : conf_(conf), known_keys_(known_keys) {}

  ConfSplit run() {
    skip_blanks();
    while (at_ < conf_.size() && !split_.error) {
      ConfPair pair;
      if (!read_key(pair) || !read_value(pair) || !read_separator(pair)) break;
      split_.pairs.push_back(std::move(pair));
    }
    return std::move(split_);
  }

 private:
  bool read_key(ConfPair& pair) {
    const std::size_t begin = at_;
    while (at_ < conf_.size() && is_key_character(conf_[at_])) ++at_;
    pair.key = conf_.substr(begin, at_ - begin);
    pair.key_column = begin + 1;
    if (pair.key.empty()) {
      return fail("a config key is missing", "", begin, "a key such as " + first_key(),
                  shown(conf_[at_]), "");
    }
    if (!check_key(pair)) return false;
    skip_blanks();
    if (at_ < conf_.size() && conf_[at_] == ':') return ++at_, true;
    const bool at_end = at_ == conf_.size();
    const bool equals = !at_end && conf_[at_] == '=';
    return fail("':' and a value must follow the key", pair.key, at_, "key:value",
                at_end ? "the end of the string" : shown(conf_[at_]),
                equals ? "write ':' instead of '='" : "");
  }

  bool check_key(const ConfPair& pair) {
    if (std::ranges::find(known_keys_, pair.key) == known_keys_.end()) {
      const std::vector<std::string> known(known_keys_.begin(), known_keys_.end());
      return fail("there is no config key '" + pair.key + "'", "", pair.key_column - 1, "", "",
                  known.empty() ? "this backend has no config keys" : suggest(pair.key, known));
    }
    const auto same = [&](const ConfPair& other) { return other.key == pair.key; };
    const auto earlier = std::ranges::find_if(split_.pairs, same);
    if (earlier == split_.pairs.end()) return true;
    return fail("a config key stands twice", pair.key, pair.key_column - 1, "each key once",
                "an earlier one at column " + std::to_string(earlier->key_column),
                "keep one of the two");
  }

  bool read_value(ConfPair& pair) {
    skip_blanks();
    const std::size_t begin = at_;
    pair.value_column = begin + 1;
    if (at_ < conf_.size() && conf_[at_] == '[') {
      const std::size_t end = conf_.find(']', at_);
      if (end == std::string_view::npos) {
        return fail("a list is not closed", pair.key, begin, "']' at the end of the list", "no ']'",
                    "");
      }
      const std::size_t nested = conf_.find('[', at_ + 1);
      if (nested < end)
        return fail("a list stands in a list", pair.key, nested, "one level of [ ]", "'['", "");
      at_ = end + 1;
    } else {
      while (at_ < conf_.size() && !is_blank(conf_[at_]) &&
             std::string_view(",:;[]").find(conf_[at_]) == std::string_view::npos)
        ++at_;
    }
    pair.value = conf_.substr(begin, at_ - begin);
    if (!pair.value.empty()) return true;
    const std::string got = at_ == conf_.size() ? "the end of the string" : shown(conf_[at_]);
    return fail("a config key has no value", pair.key, begin, "a word or a [list]", got, "");
  }

  // After a value only a comma or the end may follow.
  bool read_separator(const ConfPair& pair) {
    skip_blanks();
    if (at_ == conf_.size()) return true;
    if (conf_[at_] == ',') {
      ++at_;
      skip_blanks();
      return true;
    }
    const char c = conf_[at_];
    if (c == ';') return fail_semicolon(pair);
    if (is_key_character(c) && is_blank(conf_[at_ - 1])) {
      return fail("a blank stands inside a value, or a ',' is missing", pair.key, at_,
                  std::string(kForm), shown(c), "");
    }
    return fail("a character that cannot follow a value", pair.key, at_, std::string(kForm),
                shown(c), "");
  }

  // People write ';' as in other tools' strings. The rest is looked at too, so that its first error
  // is told at once.
  bool fail_semicolon(const ConfPair& pair) {
    std::string repaired(conf_);
    std::ranges::replace(repaired, ';', ',');
    std::string next = "write '" + repaired + "'";
    const ConfSplit again = Splitter(repaired, known_keys_).run();
    if (again.error) {
      next = "use ','; then " + again.error->what + " (" + again.error->where + ")";
      if (!again.error->next.empty()) next += ", " + again.error->next;
    }
    return fail("';' is not a separator in a config string", pair.key, at_,
                "',' between key:value pairs", "';'", std::move(next));
  }

  bool fail(std::string what, std::string_view key, std::size_t index, std::string wanted,
            std::string got, std::string next) {
    split_.error = ErrorText{.what = std::move(what),
                             .where = conf_place(key, index + 1),
                             .wanted = std::move(wanted),
                             .got = std::move(got),
                             .next = std::move(next)};
    return false;
  }

  [[nodiscard]] std::string first_key() const {
    return known_keys_.empty() ? "(this backend has none)" : "'" + known_keys_.front() + "'";
  }

  void skip_blanks() {
    while (at_ < conf_.size() && is_blank(conf_[at_])) ++at_;
  }

  std::string_view conf_;
  std::span<const std::string> known_keys_;
  std::size_t at_ = 0;
  ConfSplit split_;
};

}  // namespace

ConfSplit split_conf(std::string_view conf, std::span<const std::string> known_keys) {
  return Splitter(conf, known_keys).run();
}

std::string conf_of_user(std::string_view text) {
  return text == "unset" ? std::string() : std::string(text);
}

ErrorText told_conf_error(ErrorText error, std::string_view option, std::string_view text,
                          std::string_view allocator) {
  std::string where(option);
  where.append(" '").append(text.empty() ? "unset" : text).append("', allocator ");
  where.append(allocator);
  if (!error.where.empty()) where.append(", ").append(error.where);
  error.where = std::move(where);
  return error;
}

std::string conf_place(std::string_view key, std::size_t column) {
  std::string place = "config string, ";
  if (!key.empty()) place += "key " + std::string(key) + ", ";
  return place + "column " + std::to_string(column);
}

}  // namespace allocmark
