// RMM's log: the CSV that rmm::mr::logging_resource_adaptor writes, one row for each call.
// Thread,Time,Action,Pointer,Size,Stream; Action is allocate, "allocate failure" or free.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "workloads/import/recording.h"
#include "workloads/import/text_lines.h"

namespace allocmark {
namespace {

struct RmmColumn {
  enum Index : std::size_t { Action, Pointer, Size, Stream, Count };
};
constexpr std::array<std::string_view, RmmColumn::Count> kLogColumns = {"Action", "Pointer", "Size",
                                                                        "Stream"};
constexpr std::string_view kMixed =
    "give each process a file of its own: rmm::mr::logging_resource_adaptor with a name that holds "
    "the process id";

class RmmReader {
 public:
  explicit RmmReader(const std::string& path) : lines_(path) { read_header(); }

  AddressLog read();
  [[nodiscard]] std::uint64_t unknown_free_count() const { return unknown_free_count_; }
  // Of another stream than the request's.
  [[nodiscard]] std::uint64_t moved_free_count() const { return moved_free_count_; }
  // 0 where the log does not name them.
  [[nodiscard]] std::size_t thread_count() const { return threads_.size(); }

 private:
  [[noreturn]] void fail(std::string what, std::string wanted, std::string got, std::string next);
  void read_header();
  void read_row();
  void note_free(std::uint64_t address, std::uint32_t stream);
  [[nodiscard]] std::uint64_t number(RmmColumn::Index column);

  TextLines lines_;
  std::vector<std::string_view> columns_;
  std::array<std::size_t, RmmColumn::Count> places_{};
  std::optional<std::size_t> thread_place_;
  std::size_t column_count_ = 0;
  // Lines on which addresses were freed that were not allocated since.
  std::unordered_map<std::uint64_t, std::uint64_t> freed_lines_;
  std::set<std::string, std::less<>> threads_;
  AddressLog log_;
  std::uint64_t unknown_free_count_ = 0, moved_free_count_ = 0;
};

void RmmReader::fail(std::string what, std::string wanted, std::string got, std::string next) {
  throw UsageError({.what = std::move(what),
                    .where = lines_.where(),
                    .wanted = std::move(wanted),
                    .got = std::move(got),
                    .next = std::move(next)});
}

void RmmReader::read_header() {
  const std::optional<std::string_view> line = lines_.next();
  split_columns(line.value_or(""), &columns_);
  column_count_ = columns_.size();
  for (std::size_t i = 0; i < RmmColumn::Count; ++i) {
    const auto found = std::find(columns_.begin(), columns_.end(), kLogColumns[i]);
    if (found == columns_.end()) {
      fail("this RMM log lacks a column", fmt::format("'{}'", kLogColumns[i]),
           std::string(line.value_or("")), "record with rmm::mr::logging_resource_adaptor");
    }
    places_[i] = static_cast<std::size_t>(found - columns_.begin());
  }
  const auto thread = std::find(columns_.begin(), columns_.end(), "Thread");
  if (thread != columns_.end()) thread_place_ = static_cast<std::size_t>(thread - columns_.begin());
}

std::uint64_t RmmReader::number(RmmColumn::Index column) {
  const std::string_view text = columns_[places_[column]];
  const std::optional<std::uint64_t> value = number_in(text);
  if (!value) {
    fail("a row of the RMM log is broken",
         fmt::format("a number in column '{}'", kLogColumns[column]), fmt::format("'{}'", text),
         "copy the log again, after the program has ended");
  }
  return *value;
}

void RmmReader::note_free(std::uint64_t address, std::uint32_t stream) {
  moved_free_count_ += log_.stream_of(address).value_or(stream) == stream ? 0 : 1;
  const auto [place, is_new] = freed_lines_.try_emplace(address, lines_.number());
  if (is_new) return;
  fail(fmt::format("{:#x} is freed twice without an allocate in between", address),
       "one free for each allocate", fmt::format("a free on line {}, too", place->second),
       "correct the program that wrote the log; if it is right, " + std::string(kMixed));
}

void RmmReader::read_row() {
  const std::string_view action = columns_[places_[RmmColumn::Action]];
  if (action == "Action") {
    fail("a second header in an RMM log: two processes wrote into one file", "rows of one process",
         "", std::string(kMixed));
  }
  const std::uint64_t address = number(RmmColumn::Pointer);
  const BlockSpec block{.size_bytes = number(RmmColumn::Size),
                        .stream = log_.stream_index(number(RmmColumn::Stream))};
  if (thread_place_) threads_.emplace(columns_[*thread_place_]);
  if (action == "allocate") {
    freed_lines_.erase(address);
    if (!log_.allocate(address, block)) {
      fail(fmt::format("{:#x} is allocated twice without a free in between", address),
           "the complete log of one process", "", std::string(kMixed));
    }
  } else if (action == "allocate failure") {
    log_.fail(block);
  } else if (action == "free" || action == "deallocate") {
    if (address != 0) note_free(address, block.stream);
    unknown_free_count_ += log_.free(address) ? 0 : 1;
  } else {
    fail("an unknown action in an RMM log", "allocate, allocate failure or free",
         fmt::format("'{}'", action), "");
  }
}

AddressLog RmmReader::read() {
  while (const std::optional<std::string_view> line = lines_.next()) {
    if (line->empty() || line->starts_with('#')) continue;
    split_columns(*line, &columns_);
    if (columns_.size() != column_count_) {
      fail("a row of the RMM log is broken", fmt::format("{} columns", column_count_),
           fmt::format("{}", columns_.size()), "copy the log again, after the program has ended");
    }
    read_row();
  }
  return std::move(log_);
}

}  // namespace

Recording open_rmm_log(const std::string& path) {
  RmmReader reader(path);
  AddressLog log = reader.read();
  Recording recording;
  add_unknown_frees(reader.unknown_free_count(), &recording);
  if (reader.moved_free_count() > 0) {
    recording.notes.push_back(
        fmt::format("{} blocks were freed on another stream than they were asked for on, which a "
                    "trace does not say; here they are freed on that one",
                    reader.moved_free_count()));
  }
  if (reader.thread_count() > 1) {
    recording.notes.push_back(
        fmt::format("rows of {} threads, which run here as one, in the order of the log",
                    reader.thread_count()));
  }
  add_failures(log, &recording);
  recording.events = make_log_source(path, std::move(log));
  return recording;
}

}  // namespace allocmark
