#include "workloads/trace/trace_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/number_text.h"
#include "workloads/trace/byte_stream.h"
#include "workloads/trace/event_names.h"
#include "workloads/trace/trace_hash.h"
#include "workloads/trace/trace_row.h"
#include "workloads/trace/trace_rules.h"

namespace allocmark {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
constexpr std::size_t kLineBytesMax = 4096;

// Lines of a file, one after the other, with their numbers.
class LineReader {
 public:
  explicit LineReader(const std::string& path) : bytes_(path), buffer_(kBufferBytes) {}

  // The next line without its newline, valid until the next call; nothing at the end. A last line
  // without newline is a broken rule, because a cut file ends like that.
  std::optional<std::string_view> next(std::optional<ErrorText>* broken);
  void rewind() {
    bytes_.rewind();
    begin_ = end_ = 0;
    line_number_ = 0;
  }
  [[nodiscard]] std::uint64_t line_number() const { return line_number_; }

 private:
  std::optional<std::string_view> finish(std::optional<ErrorText>* broken) const;

  ByteReader bytes_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t line_number_ = 0;
};

// The rest of a file that holds no newline. Zeros stand behind the rows of a capture that was not
// ended.
std::optional<std::string_view> too_long(std::string_view rest, std::optional<ErrorText>* broken) {
  if (rest.find('\0') != std::string_view::npos) {
    *broken = ErrorText{.what = "zeros behind the last row",
                        .wanted = "a file that ends with its last row",
                        .got = "a capture that is still going on, or whose program was killed",
                        .next = "allocmark capture --finish --out FOLDER, with its folder"};
    return std::nullopt;
  }
  *broken = ErrorText{.what = "line too long",
                      .wanted = fmt::format("at most {} bytes", kLineBytesMax),
                      .got = "a longer one",
                      .next = "Is this a text trace? Packed files must end in .gz or .zst"};
  return std::nullopt;
}

std::optional<std::string_view> LineReader::next(std::optional<ErrorText>* broken) {
  while (true) {
    const char* begin = buffer_.data() + begin_;
    const void* newline = begin_ == end_ ? nullptr : std::memchr(begin, '\n', end_ - begin_);
    if (newline != nullptr) {
      std::size_t length = static_cast<std::size_t>(static_cast<const char*>(newline) - begin);
      begin_ += length + 1;
      ++line_number_;
      if (length > kLineBytesMax) return too_long({begin, length}, broken);
      if (length > 0 && begin[length - 1] == '\r') --length;
      return std::string_view(begin, length);
    }
    if (end_ - begin_ > kLineBytesMax) {
      ++line_number_;
      return too_long({begin, end_ - begin_}, broken);
    }
    std::memmove(buffer_.data(), begin, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    const std::size_t byte_count = bytes_.read(std::span(buffer_).subspan(end_));
    if (byte_count == 0) return finish(broken);
    end_ += byte_count;
  }
}

std::optional<std::string_view> LineReader::finish(std::optional<ErrorText>* broken) const {
  if (!bytes_.damage().empty()) {
    *broken = ErrorText{.what = "truncated or damaged file",
                        .wanted = "complete packed data",
                        .got = bytes_.damage(),
                        .next = "Copy, pack or record the file again"};
  } else if (begin_ != end_) {
    *broken = ErrorText{.what = "truncated file",
                        .wanted = "a newline after the last line",
                        .got = "a last line that stops short",
                        .next = "Copy or record the file again"};
  }
  return std::nullopt;
}

class FileSource final : public EventSource {
 public:
  explicit FileSource(const std::string& path) : path_(path), lines_(path) {
    batch_.reserve(kBatchEventCount);
    read_head();
  }

  std::span<const Event> next() override;
  void rewind() override;
  const TraceHeader& header() const override { return header_; }
  const std::vector<std::string>& labels() const override { return labels_; }

 private:
  [[noreturn]] void fail(ErrorText text) const;
  [[nodiscard]] std::uint64_t line_now() const {
    return std::max<std::uint64_t>(lines_.line_number(), 1);
  }
  std::optional<std::string_view> next_line();
  void read_head();
  void read_key(std::string_view line);
  void read_process(std::string_view value);
  [[nodiscard]] std::uint64_t key_number(std::string_view key, std::string_view value,
                                         int base) const;
  void read_row(std::string_view line);
  std::uint64_t label_index(std::string_view label);
  void check_end() const;

  std::string path_;
  LineReader lines_;
  TraceHeader header_;
  int column_count_ = 4;
  std::optional<std::uint64_t> promised_event_count_;
  std::optional<std::uint64_t> promised_hash_;
  std::uint64_t event_count_ = 0;
  TraceHash hash_;
  TraceRules rules_;
  std::vector<std::string> labels_;
  std::unordered_map<std::string, std::uint64_t> label_indexes_;
  std::vector<Event> batch_;
  bool at_end_ = false;
};

void FileSource::fail(ErrorText text) const {
  text.where = fmt::format("{}:{}", path_, line_now());
  throw UsageError(std::move(text));
}

std::optional<std::string_view> FileSource::next_line() {
  std::optional<ErrorText> broken;
  const std::optional<std::string_view> line = lines_.next(&broken);
  if (!broken) return line;
  // What is broken begins after the last whole line; a line that is too long was counted already.
  broken->where =
      fmt::format("{}:{}", path_, lines_.line_number() + (broken->what == "line too long" ? 0 : 1));
  throw UsageError(std::move(*broken));
}

// Reads the "# key: value" lines and the line with the column names.
void FileSource::read_head() {
  header_ = TraceHeader{.name = name_without(path_, {".gz", ".zst", ".csv", ".ops"}),
                        .generator = "recorded",
                        .seed = 0,
                        .stream_count = 1};
  std::optional<std::string_view> line = next_line();
  for (; line && line->starts_with('#'); line = next_line()) read_key(*line);
  if (line && *line == kTraceColumns) {
    column_count_ = 4;
  } else if (line && *line == kTraceColumnsTagged) {
    column_count_ = 5;
  } else {
    fail({.what = line ? "wrong header line" : "no header line",
          .wanted = fmt::format("'{}', optionally with ',tensor'", kTraceColumns),
          .got = line ? fmt::format("'{}'", line->substr(0, 60)) : "the end of the file",
          .next = line ? "for the text of an error or a log: allocmark why FILE" : ""});
  }
}

// Keys that we do not know are comments.
void FileSource::read_key(std::string_view line) {
  line.remove_prefix(1);
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  const auto trimmed = [](std::string_view text) {
    while (text.starts_with(' ')) text.remove_prefix(1);
    while (text.ends_with(' ')) text.remove_suffix(1);
    return text;
  };
  const std::string_view key = trimmed(line.substr(0, colon));
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (key == "name" && !value.empty()) header_.name = value;
  if (key == "generator" && !value.empty()) header_.generator = value;
  if (key == "seed") header_.seed = key_number(key, value, 10);
  if (key == "process") read_process(value);
  if (key == "torch") header_.pytorch = value;
  if (key == "forbids") {
    const std::size_t blank = std::min(value.find(' '), value.size());
    header_.forbids.push_back({.key = std::string(value.substr(0, blank)),
                               .why = std::string(trimmed(value.substr(blank)))});
  }
  if (key == "events") promised_event_count_ = key_number(key, value, 10);
  if (key == "hash") promised_hash_ = key_number(key, value, 16);
  if (key == "streams") {
    const std::uint64_t count = key_number(key, value, 10);
    if (count < 1 || count > kTraceStreamCountMax) {
      fail({.what = "bad stream count in the head",
            .wanted = fmt::format("1 to {}", kTraceStreamCountMax),
            .got = std::string(value)});
    }
    header_.stream_count = static_cast<std::uint32_t>(count);
  }
}

// "FIRST_STREAM WORKLOAD"; the first process has the streams from 0 on.
void FileSource::read_process(std::string_view value) {
  const std::size_t blank = std::min(value.find(' '), value.size());
  const std::uint64_t first = key_number("process", value.substr(0, blank), 10);
  std::vector<TraceJob>& jobs = header_.jobs;
  const bool follows = jobs.empty() ? first == 0 : first > jobs.back().first_stream;
  if (!follows || first >= kTraceStreamCountMax) {
    fail({.what = "bad first stream of a process in the head",
          .wanted = "0 for the first process, then more than the one before has",
          .got = std::string(value.substr(0, 60))});
  }
  jobs.push_back({.workload = std::string(value.substr(std::min(blank + 1, value.size()))),
                  .first_stream = static_cast<std::uint32_t>(first)});
}

std::uint64_t FileSource::key_number(std::string_view key, std::string_view value, int base) const {
  if (const auto number = number_in_text<std::uint64_t>(value, base)) return *number;
  fail({.what = fmt::format("bad value of key '{}' in the head", key),
        .wanted = base == 16 ? "a 64-bit number in hexadecimal digits"
                             : "a 64-bit number in decimal digits",
        .got = fmt::format("'{}'", value.substr(0, 60))});
}

std::uint64_t FileSource::label_index(std::string_view label) {
  std::string text(label);
  const auto found = label_indexes_.find(text);
  if (found != label_indexes_.end()) return found->second;
  if (labels_.size() == kTraceLabelCountMax) {
    fail({.what = "too many different labels",
          .wanted = fmt::format("at most {}", kTraceLabelCountMax),
          .got = "one more",
          .next = "Use the same label for the same phase"});
  }
  label_indexes_.emplace(text, labels_.size());
  labels_.push_back(std::move(text));
  return labels_.size() - 1;
}

void FileSource::read_row(std::string_view line) {
  Event event;
  std::string_view label;
  if (std::optional<ErrorText> broken = parse_trace_row(line, column_count_, &event, &label)) {
    fail(std::move(*broken));
  }
  if (event.kind == EventKind::Mark) event.id = label_index(label);
  if (std::optional<ErrorText> broken = rules_.check(event, lines_.line_number())) {
    fail(std::move(*broken));
  }
  if (rules_.live().count() + rules_.host_live().count() > kTraceLiveCountMax) {
    fail({.what = "too many blocks are live at once",
          .wanted = fmt::format("at most {}", kTraceLiveCountMax),
          .got = "one more"});
  }
  header_.stream_count = std::max(header_.stream_count, event.stream + 1);
  if (promised_hash_) hash_.add(event, label);
  ++event_count_;
  batch_.push_back(event);
}

std::span<const Event> FileSource::next() {
  batch_.clear();
  while (!at_end_ && batch_.size() < kBatchEventCount) {
    const std::optional<std::string_view> line = next_line();
    if (line) {
      read_row(*line);
    } else {
      at_end_ = true;
      check_end();
    }
  }
  return batch_;
}

// A file that was cut exactly at a line's end shows only in what its head promised.
void FileSource::check_end() const {
  if (std::optional<ErrorText> broken = rules_.check_end()) fail(std::move(*broken));
  if (promised_event_count_ && *promised_event_count_ != event_count_) {
    fail({.what = "the head promises another number of events",
          .wanted = fmt::format("{} rows (key 'events')", *promised_event_count_),
          .got = std::to_string(event_count_),
          .next =
              "The file was cut or edited: copy it again, or remove the keys 'events' and 'hash'"});
  }
  if (promised_hash_ && *promised_hash_ != hash_.value()) {
    fail({.what = "the head promises other events",
          .wanted = fmt::format("hash {:016x} (key 'hash')", *promised_hash_),
          .got = fmt::format("{:016x}", hash_.value()),
          .next = "The file was edited: copy it again, or remove the key 'hash'"});
  }
}

void FileSource::rewind() {
  lines_.rewind();
  event_count_ = 0;
  hash_ = TraceHash();
  rules_.clear();
  labels_.clear();
  label_indexes_.clear();
  batch_.clear();
  at_end_ = false;
  read_head();
}

}  // namespace

std::string name_without(const std::string& path, std::initializer_list<std::string_view> endings) {
  std::string name = std::filesystem::path(path).filename().string();
  for (const std::string_view ending : endings) {
    if (name.size() > ending.size() && name.ends_with(ending))
      name.resize(name.size() - ending.size());
  }
  return name;
}

std::unique_ptr<EventSource> open_trace_file(const std::string& path) {
  return std::make_unique<FileSource>(path);
}

}  // namespace allocmark
