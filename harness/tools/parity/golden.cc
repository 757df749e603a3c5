#include "harness/tools/parity/golden.h"

#include <unordered_map>

#include <fmt/format.h>
#include "base/error.h"
#include "base/number_text.h"

namespace allocmark::caching {
namespace {

constexpr std::string_view kMessageMark = "# oom message: ";

class Reader {
 public:
  Reader(std::string_view text, std::string name) : text_(text) { golden_.name = std::move(name); }

  Golden run() {
    while (at_ < text_.size()) read_line();
    if (line_number_ == 0) fail("the golden is empty", "a line 'c total=...'", "");
    if (golden_.counters.empty())
      fail("the golden is cut short", "a line of counters ('s') at the end", "none");
    return std::move(golden_);
  }

 private:
  void read_line() {
    const std::size_t end = text_.find('\n', at_);
    const bool complete = end != std::string_view::npos;
    line_ = text_.substr(at_, complete ? end - at_ : std::string_view::npos);
    at_ = complete ? end + 1 : text_.size();
    ++line_number_;
    if (!complete) fail("the golden is cut short", "a line end", "the end of the file");
    rest_ = line_;
    if (read_conf() || read_release() || read_message()) return;
    const std::string_view letter = word();
    if (line_number_ == 1 && letter != "c")
      fail("this is no golden", "a first line 'c total=...'", std::string(line_));
    read_kind(letter);
    if (!rest_.empty()) fail_line();
  }

  // Goldens of our own recorder say it in their second line.
  bool read_conf() {
    constexpr std::string_view kMark = "# conf: ";
    if (line_number_ != 2 || !line_.starts_with(kMark)) return false;
    golden_.conf = line_.substr(kMark.size());
    return true;
  }

  bool read_release() {
    constexpr std::string_view kMark = "# pytorch: ";
    if (line_number_ > 3 || !line_.starts_with(kMark)) return false;
    const std::string_view release = line_.substr(kMark.size());
    golden_.rules = find_rules(release);
    if (golden_.rules == nullptr)
      fail("there are no rules for the golden's release",
           fmt::format("{} to {}", all_rules().front().name(), newest_rules().name()),
           std::string(release));
    return true;
  }

  // The text of the first failure stands where it happened; it may have several lines.
  bool read_message() {
    constexpr std::string_view kKinds = "agrs";
    if (line_.starts_with(kMessageMark)) {
      golden_.out_of_memory_message = line_.substr(kMessageMark.size());
      in_message_ = true;
      return true;
    }
    const bool is_kind =
        line_.size() > 1 && line_[1] == ' ' && kKinds.find(line_[0]) != std::string_view::npos;
    if (is_kind) in_message_ = false;
    if (in_message_) golden_.out_of_memory_message += "\n" + std::string(line_);
    return in_message_;
  }

  void read_kind(std::string_view letter) {
    if (letter == "a") return read_answer();
    if (letter == "g") return read_segment();
    if (letter == "r")
      return golden_.reserved.push_back(
          {number(word(), 10), number(word(), 10), number(word(), 10)});
    if (letter == "s") return read_counters();
    if (letter == "c" && line_number_ == 1) return read_header();
    fail("a line of an unknown kind, perhaps of another version", "c, g, r, a, s or #",
         std::string(line_.substr(0, 60)));
  }

  void read_header() {
    golden_.device_total_bytes = number(after("total="), 10);
    golden_.limit_bytes = number(after("fraction_cap="), 10);
    const std::string_view backend = after("backend=");
    golden_.cuda_malloc_async = backend == "cudaMallocAsync";
    if (backend != "native" && backend != "cudaMallocAsync") fail_line();
  }

  void read_segment() {
    const std::uint64_t ordinal = number(word(), 10);
    segments_[ordinal] = number(word(), 16);
    for (int i = 0; i < 3; ++i) static_cast<void>(number(word(), 10));
  }

  void read_answer() {
    const std::string_view first = word();
    GoldenAnswer answer;
    if (first == "oom") {
      answer.out_of_memory = true;
    } else if (first != "ok") {
      const auto segment = segments_.find(number(first, 10));
      if (segment == segments_.end()) {
        fail("the golden is cut short or mixed up", "a segment named in a 'g' line",
             "segment " + std::string(first));
      }
      answer.placed = true;
      answer.segment_address = segment->second;
      answer.address = segment->second + number(word(), 16);
    }
    golden_.answers.push_back(answer);
  }

  void read_counters() {
    GoldenCounters counters{.operation_count = number(word(), 10), .entries = {}};
    while (!rest_.empty()) {
      std::string_view item = word();
      const std::size_t equals = item.find('=');
      if (equals == std::string_view::npos) fail_line();
      GoldenCounters::Entry entry{.name = std::string(item.substr(0, equals))};
      item.remove_prefix(equals + 1);
      while (true) {
        if (entry.value_count == entry.values.size()) fail_line();
        const std::size_t slash = item.find('/');
        entry.values[entry.value_count++] = signed_number(item.substr(0, slash));
        if (slash == std::string_view::npos) break;
        item.remove_prefix(slash + 1);
      }
      counters.entries.push_back(std::move(entry));
    }
    golden_.counters.push_back(std::move(counters));
  }

  // The next word of the line; empty at its end.
  std::string_view word() {
    const std::size_t space = rest_.find(' ');
    const std::string_view result = rest_.substr(0, space);
    rest_.remove_prefix(space == std::string_view::npos ? rest_.size() : space + 1);
    return result;
  }

  std::string_view after(std::string_view prefix) {
    const std::string_view item = word();
    if (!item.starts_with(prefix)) fail_line();
    return item.substr(prefix.size());
  }

  template <typename Number>
  Number parse(std::string_view digits, int base) {
    const std::optional<Number> value = number_in_text<Number>(digits, base);
    if (!value) fail_line();
    return *value;
  }
  std::uint64_t number(std::string_view digits, int base) {
    return parse<std::uint64_t>(digits, base);
  }
  std::int64_t signed_number(std::string_view digits) { return parse<std::int64_t>(digits, 10); }

  [[noreturn]] void fail_line() {
    fail("a line of the golden cannot be read", "the format of that kind of line",
         std::string(line_.substr(0, 60)));
  }

  [[noreturn]] void fail(std::string what, std::string wanted, std::string got) {
    throw UsageError({.what = std::move(what),
                      .where = golden_.name + ":" + std::to_string(line_number_),
                      .wanted = std::move(wanted),
                      .got = std::move(got),
                      .next = "take an unharmed copy of the file"});
  }

  std::string_view text_;
  std::string_view line_;
  std::string_view rest_;  // what is not yet read of the line
  bool in_message_ = false;
  std::size_t at_ = 0;
  std::size_t line_number_ = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> segments_;  // ordinal -> address now
  Golden golden_;
};

}  // namespace

Golden parse_golden(std::string_view text, std::string name) {
  return Reader(text, std::move(name)).run();
}

}  // namespace allocmark::caching
