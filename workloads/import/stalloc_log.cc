// STAlloc's log (mem_log_devN.txt): "1 POINTER BYTES STREAM" asks, "0 POINTER BYTES STREAM" gives
// back. Any other line is a mark of the program that was recorded, such as Megatron's phases.
#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>

#include "base/error.h"
#include "workloads/import/recording.h"
#include "workloads/import/text_lines.h"
#include "workloads/trace/event_names.h"

namespace allocmark {
namespace {

using Words = std::array<std::string_view, 5>;

std::size_t split_words(std::string_view line, Words* words) {
  std::size_t count = 0;
  while (count < words->size()) {
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string_view::npos) break;
    line.remove_prefix(begin);
    const std::size_t end = line.find_first_of(" \t");
    (*words)[count++] = line.substr(0, end);
    line.remove_prefix(end == std::string_view::npos ? line.size() : end);
  }
  return count;
}

std::string label_of(std::string_view line) {
  std::string label(line.substr(0, 200));
  for (char& letter : label) {
    if (letter == ',' || letter < ' ' || letter > '~') letter = '_';
  }
  return label;
}

}  // namespace

Recording open_stalloc_log(const std::string& path) {
  TextLines lines(path);
  AddressLog log;
  std::uint64_t unknown_free_count = 0;
  while (const std::optional<std::string_view> line = lines.next()) {
    Words words;
    const std::size_t count = split_words(*line, &words);
    if (count == 0) continue;
    const bool is_call = count >= 3 && (words[0] == "0" || words[0] == "1");
    if (!is_call && log.batch.labels().size() >= kTraceLabelCountMax) {
      throw UsageError({.what = "the STAlloc log has too many lines that are no calls",
                        .where = lines.where(),
                        .wanted = fmt::format("at most {} different ones", kTraceLabelCountMax),
                        .got = "one more",
                        .next = "take other output out of the log"});
    }
    if (!is_call) {
      log.batch.mark(label_of(*line));
      continue;
    }
    const std::optional<std::uint64_t> address = number_in(words[1]);
    const std::optional<std::uint64_t> size_bytes = number_in(words[2]);
    const std::optional<std::uint64_t> stream = number_in(count > 3 ? words[3] : "0");
    const auto fail = [&](std::string what) {
      throw UsageError({.what = std::move(what),
                        .where = lines.where(),
                        .wanted = "'1 POINTER BYTES STREAM' or '0 POINTER BYTES STREAM'",
                        .got = fmt::format("'{}'", line->substr(0, 80)),
                        .next = "record one process and one device to a file"});
    };
    if (!address || !size_bytes || !stream) fail("a row of the STAlloc log is broken");
    if (words[0] == "0") {
      unknown_free_count += log.free(*address) ? 0 : 1;
    } else if (!log.allocate(*address,
                             {.size_bytes = *size_bytes, .stream = log.stream_index(*stream)})) {
      fail(fmt::format("{:#x} is allocated twice without a free in between", *address));
    }
  }
  Recording recording;
  add_unknown_frees(unknown_free_count, &recording);
  add_failures(log, &recording);
  recording.events = make_log_source(path, std::move(log));
  return recording;
}

}  // namespace allocmark
