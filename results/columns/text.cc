// Escaping and wrapping, byte by byte over valid UTF-8.
#include "results/columns/text.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "results/utf8.h"

namespace allocmark {
namespace {

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0u) == 0x80u; }

// Bytes of the first `width` code points.
std::size_t prefix_bytes(std::string_view text, std::size_t width) {
  std::size_t at = 0;
  for (std::size_t taken = 0; at < text.size(); ++at) {
    if (!is_continuation(text[at]) && taken++ == width) break;
  }
  return at;
}

std::string replace_all(std::string_view text, char from, std::string_view to) {
  std::string out;
  for (const char byte : text) {
    if (byte == from) {
      out += to;
    } else {
      out += byte;
    }
  }
  return out;
}

std::string escape_control(unsigned char byte) {
  if (byte == '\n') return "\\n";
  if (byte == '\r') return "\\r";
  if (byte == '\t') return "\\t";
  return fmt::format("\\x{:02x}", byte);
}

// Characters that turn the text around them, or end a line where nobody sees it: a name with one
// shows as another name. "\u202e"; empty where none begins at `at`.
struct Unseen {
  std::string_view bytes, shown;
};
constexpr Unseen kUnseen[] = {
    {"\xD8\x9C", "\\u061c"},     {"\xE2\x80\x8E", "\\u200e"}, {"\xE2\x80\x8F", "\\u200f"},
    {"\xE2\x80\xA8", "\\u2028"}, {"\xE2\x80\xA9", "\\u2029"}, {"\xE2\x80\xAA", "\\u202a"},
    {"\xE2\x80\xAB", "\\u202b"}, {"\xE2\x80\xAC", "\\u202c"}, {"\xE2\x80\xAD", "\\u202d"},
    {"\xE2\x80\xAE", "\\u202e"}, {"\xE2\x81\xA6", "\\u2066"}, {"\xE2\x81\xA7", "\\u2067"},
    {"\xE2\x81\xA8", "\\u2068"}, {"\xE2\x81\xA9", "\\u2069"}, {"\xEF\xBB\xBF", "\\ufeff"}};

const Unseen* unseen_at(std::string_view rest) {
  const auto* const found =
      std::ranges::find_if(kUnseen, [&](const Unseen& one) { return rest.starts_with(one.bytes); });
  return found == std::end(kUnseen) ? nullptr : found;
}

}  // namespace

std::string printable(std::string_view text) {
  const std::string valid = valid_utf8(text);
  std::string out;
  for (std::size_t at = 0; at < valid.size(); ++at) {
    const auto byte = static_cast<unsigned char>(valid[at]);
    // U+0080 to U+009F, the second set of control characters, are C2 80 to C2 9F in UTF-8.
    const bool second_set = byte == 0xC2u && static_cast<unsigned char>(valid[at + 1]) < 0xA0u;
    const Unseen* const unseen =
        byte < 0x80u ? nullptr : unseen_at(std::string_view(valid).substr(at));
    if (unseen != nullptr) {
      out += unseen->shown;
      at += unseen->bytes.size() - 1;
    } else if (second_set) {
      out += escape_control(static_cast<unsigned char>(valid[++at]));
    } else if (byte < 0x20u || byte == 0x7Fu) {
      out += escape_control(byte);
    } else {
      out += valid[at];
    }
  }
  return out;
}

std::string markdown_code(std::string_view text) {
  const std::string safe = printable(text);
  std::size_t longest_run = 0;
  std::size_t run = 0;
  for (const char byte : safe) {
    run = byte == '`' ? run + 1 : 0;
    longest_run = std::max(longest_run, run);
  }
  const std::string fence(longest_run + 1, '`');
  const char* const pad = longest_run > 0 ? " " : "";
  return fence + pad + safe + pad + fence;
}

std::string markdown_cell_code(std::string_view text) {
  // GitHub's tables take a pipe as a column's end even in code, and drop the backslash before it.
  return replace_all(markdown_code(text), '|', "\\|");
}

std::string markdown_escape(std::string_view text) {
  constexpr std::string_view kSpecial = "\\`*_{}[]#+!|~<>&$";
  std::string out;
  for (const char byte : printable(text)) {
    if (byte == '<') {
      out += "&lt;";
    } else if (byte == '>') {
      out += "&gt;";
    } else if (byte == '&') {
      out += "&amp;";
    } else {
      if (kSpecial.find(byte) != std::string_view::npos) out += '\\';
      out += byte;
    }
  }
  return out;
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) return std::string(text);
  return '"' + replace_all(text, '"', "\"\"") + '"';
}

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return !is_continuation(byte); }));
}

std::vector<std::string> wrap_conf(std::string_view conf, std::size_t width) {
  width = std::max<std::size_t>(width, 1);
  std::vector<std::string> lines;
  while (display_width(conf) > width) {
    const std::size_t fits = prefix_bytes(conf, width);
    std::size_t cut = conf.substr(0, fits).rfind(',') + 1;
    // An option that is longer than the line: between its words.
    if (cut == 0) cut = conf.substr(0, fits).find_last_of(":_") + 1;
    if (cut == 0) cut = fits;
    lines.emplace_back(conf.substr(0, cut));
    conf.remove_prefix(cut);
  }
  lines.emplace_back(conf);
  return lines;
}

std::size_t unbroken_bytes(std::string_view text) {
  static constexpr std::array<std::string_view, 11> kUnits = {
      "B", "KiB", "MiB", "GiB", "TiB", "bytes", "ns", "us", "ms", "s", "%"};
  const std::size_t end = std::min(text.find(' '), text.size());
  std::string_view number = text.substr(0, end);
  number.remove_prefix(std::min(number.find_first_not_of("(+-"), number.size()));
  if (number.empty() || number.find_first_not_of("0123456789.,") != std::string_view::npos)
    return end;
  const std::string_view next = text.substr(std::min(end + 1, text.size()));
  const std::size_t next_end = std::min(next.find(' '), next.size());
  const std::string_view unit = next.substr(0, std::min(next.find_first_of(" ,.;:)"), next.size()));
  return std::ranges::find(kUnits, unit) == kUnits.end() ? end : end + 1 + next_end;
}

std::string wrap_words(std::string_view text, std::size_t width) {
  std::string out;
  std::size_t used = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = begin + unbroken_bytes(text.substr(begin));
    std::string_view word = text.substr(begin, end - begin);
    begin = end + 1;
    if (used > 0 && used + 1 + display_width(word) <= width) {
      out += ' ';
      ++used;
    } else if (used > 0) {
      out += '\n';
      used = 0;
    }
    while (used == 0 && display_width(word) > width) {
      const std::size_t cut = prefix_bytes(word, width);
      out.append(word.substr(0, cut)) += '\n';
      word.remove_prefix(cut);
    }
    out += word;
    used += display_width(word);
  }
  return out;
}

std::string xml_text(std::string_view text) {
  std::string out;
  for (const char c : valid_utf8(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\n':
        out += "&#10;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 && c != '\t' ? '?' : c;
    }
  }
  // U+FFFE and U+FFFF are valid UTF-8 and no XML.
  for (const std::string_view bad : {"\xEF\xBF\xBE", "\xEF\xBF\xBF"}) {
    for (std::size_t at = 0; (at = out.find(bad, at)) != std::string::npos;)
      out.replace(at, 3, "?");
  }
  return out;
}

}  // namespace allocmark
