// See help_formatter.h.
#include "harness/shell/help_formatter.h"

#include <charconv>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

namespace allocmark {
namespace {

// "1e+07" is 10000000.
std::string plain_number(const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  if (std::from_chars(text.data(), end, value).ptr != end) return text;
  return value == std::floor(value) ? fmt::format("{:.0f}", value) : fmt::format("{:g}", value);
}

// CLI11 writes a range into the type's name: "N:UINT in [1 - 100000]", "N:NONNEGATIVE".
std::string range_in_words(const std::string& type_name) {
  if (type_name.ends_with(":NONNEGATIVE")) return " (0 or more)";
  const std::size_t begin = type_name.find(" in [");
  const std::size_t dash = type_name.find(" - ", begin);
  if (begin == std::string::npos || dash == std::string::npos || !type_name.ends_with("]")) {
    return "";
  }
  const std::string low = type_name.substr(begin + 5, dash - begin - 5);
  const std::string high = type_name.substr(dash + 3, type_name.size() - dash - 4);
  return fmt::format(" ({} to {})", plain_number(low), plain_number(high));
}

}  // namespace

std::string value_name(const CLI::Option& option) {
  if (option.get_type_size() == 0) return "";
  const std::string full = option.get_type_name();
  return full.substr(0, full.find(':'));
}

std::string describe_option(const CLI::Option& option) {
  std::string text = option.get_description();
  const std::string range = range_in_words(option.get_type_name());
  // Before a default that the description ends with.
  const std::size_t bracket = text.ends_with("]") ? text.rfind(" [") : text.size();
  text.insert(bracket, range);
  const std::string preset = option.get_default_str();
  const bool shown = preset.empty() || text.ends_with("]");
  return shown ? text : fmt::format("{} [{}]", text, preset);
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  std::string text;
  if (const std::string name = value_name(*option); !name.empty()) text += " " + name;
  if (option->get_expected_max() == CLI::detail::expected_max_vector_size) text += " ...";
  return text;
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  return describe_option(*option) + (option->get_required() ? " (required)" : "");
}

std::string plain_message(std::string message) {
  const std::size_t open = message.find(" not in {");
  if (open != std::string::npos && message.ends_with("}")) {
    std::string names = message.substr(open + 9, message.size() - open - 10);
    for (std::size_t at = names.find(','); at != std::string::npos; at = names.find(',', at + 2)) {
      names.replace(at, 1, ", ");
    }
    return fmt::format("{} is not one of {}", message.substr(0, open), names);
  }
  // "1 required A missing"
  const std::size_t missing = message.find(": 1 required ");
  if (missing != std::string::npos && message.ends_with(" missing")) {
    return message.substr(0, missing) + ": nothing stands behind it";
  }
  const std::size_t range = message.find(" not in range ");
  if (range == std::string::npos) return message;
  // "1 to 9", or "[1 - 9]" from CLI11 2.4 on.
  std::string limits = message.substr(range + 14);
  if (limits.starts_with("[") && limits.ends_with("]"))
    limits = limits.substr(1, limits.size() - 2);
  for (const std::string_view between : {" to ", " - "}) {
    const std::size_t to = limits.find(between);
    if (to == std::string::npos) continue;
    return fmt::format("{} is not from {} to {}", message.substr(0, range),
                       plain_number(limits.substr(0, to)),
                       plain_number(limits.substr(to + between.size())));
  }
  return message;
}

}  // namespace allocmark
