// A problem of minimalloc: a row for each block with the time when it begins and the time when it
// has ended, in any order. At one time blocks end before others begin; those that begin at one time
// come in the order of the rows.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "workloads/import/minimalloc_rows.h"
#include "workloads/import/recording.h"
#include "workloads/import/text_lines.h"
#include "workloads/trace/event_names.h"

namespace allocmark {
namespace {

constexpr std::size_t kNoColumn = ~std::size_t{0};

struct BlockColumns {
  std::size_t id = kNoColumn;
  std::size_t lower = kNoColumn;
  std::size_t upper = kNoColumn;
  std::size_t size = kNoColumn;
  std::size_t count = 0;
  bool upper_is_last = false;  // an 'end' is the last time at which the block is there
  std::vector<std::string> others{};

  [[nodiscard]] bool complete() const {
    return std::ranges::none_of(std::array{id, lower, upper, size},
                                [](std::size_t column) { return column == kNoColumn; });
  }
};

// The names that minimalloc knows.
BlockColumns columns_of(std::string_view header) {
  if (header.ends_with('\r')) header.remove_suffix(1);
  std::vector<std::string_view> names;
  split_columns(header, &names);
  BlockColumns columns{.count = names.size()};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string_view name = names[i];
    if (name == "id" || name == "buffer" || name == "buffer_id") {
      columns.id = i;
    } else if (name == "lower" || name == "start" || name == "begin") {
      columns.lower = i;
    } else if (name == "upper" || name == "end") {
      columns.upper = i;
      columns.upper_is_last = name == "end";
    } else if (name == "size") {
      columns.size = i;
    } else {
      columns.others.emplace_back(name);
    }
  }
  return columns;
}

struct TimedBlock {
  std::uint64_t lower = 0;
  std::uint64_t upper = 0;
  std::uint64_t size_bytes = 0;
};

TimedBlock read_block(std::string_view line, const BlockColumns& columns, const TextLines& lines,
                      std::vector<std::string_view>* fields) {
  const auto fail = [&](std::string what, std::string wanted) {
    throw UsageError({.what = std::move(what),
                      .where = lines.where(),
                      .wanted = std::move(wanted),
                      .got = fmt::format("'{}'", line.substr(0, 80)),
                      .next = "see minimalloc's description of its input"});
  };
  if (line.ends_with('\r')) line.remove_suffix(1);
  split_columns(line, fields);
  if (fields->size() != columns.count)
    fail(fmt::format("a row of the minimalloc CSV has {} fields", fields->size()),
         fmt::format("{}, as the header", columns.count));
  const auto number = [&](std::size_t column, std::string_view name) {
    const std::optional<std::uint64_t> value = number_in((*fields)[column]);
    if (!value || *value >= std::uint64_t{1} << 62)
      fail(fmt::format("'{}' of a row of the minimalloc CSV is no number", name),
           "a whole number from 0 on");
    return value.value_or(0);
  };
  TimedBlock block{.lower = number(columns.lower, "lower"),
                   .upper = number(columns.upper, "upper") + (columns.upper_is_last ? 1 : 0),
                   .size_bytes = number(columns.size, "size")};
  if (block.upper <= block.lower)
    fail("a block of the minimalloc CSV ends before it begins", "an upper time after the lower");
  if (block.size_bytes >= kTraceSizeBytesEnd)
    fail("a block of the minimalloc CSV is too large", "less than 2^60 bytes");
  return block;
}

// Ends and beginnings in the order of their times.
AddressLog events_of_blocks(const std::vector<TimedBlock>& blocks) {
  struct Turn {
    std::uint64_t time = 0;
    std::size_t block = 0;
    bool begins = false;
  };
  std::vector<Turn> turns;
  turns.reserve(2 * blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    turns.push_back({.time = blocks[i].lower, .block = i, .begins = true});
    turns.push_back({.time = blocks[i].upper, .block = i});
  }
  std::ranges::stable_sort(turns, [](const Turn& left, const Turn& right) {
    return std::pair(left.time, left.begins) < std::pair(right.time, right.begins);
  });
  AddressLog log;
  for (const Turn& turn : turns) {
    const std::uint64_t address = turn.block + 1;  // 0 is no block
    if (turn.begins) {
      static_cast<void>(log.allocate(address, {.size_bytes = blocks[turn.block].size_bytes}));
    } else {
      static_cast<void>(log.free(address));
    }
  }
  return log;
}

}  // namespace

std::string minimalloc_line(const MinimallocRow& row) {
  return fmt::format("{},{},{},{}{}\n", row.id, row.lower, row.upper, row.size_bytes,
                     row.offset_bytes ? fmt::format(",{}", *row.offset_bytes) : "");
}

bool is_minimalloc_header(std::string_view line) { return columns_of(line).complete(); }

Recording open_minimalloc_csv(const std::string& path) {
  TextLines lines(path);
  std::vector<TimedBlock> blocks;
  std::vector<std::string_view> fields;
  std::optional<BlockColumns> columns;
  while (const std::optional<std::string_view> line = lines.next()) {
    if (!columns) {
      columns = columns_of(*line);
    } else if (!line->empty() && *line != "\r") {
      blocks.push_back(read_block(*line, *columns, lines, &fields));
    }
  }
  if (blocks.empty()) {
    throw UsageError({.what = "the minimalloc CSV has no blocks",
                      .where = path,
                      .wanted = "a row for each block below the header",
                      .got = "the header alone"});
  }
  Recording recording;
  recording.notes.emplace_back(
      "times are an order only; a block that ends at the last time is given back there");
  if (!columns->others.empty()) {
    recording.notes.push_back(fmt::format("read over, because a trace has no such thing: {}",
                                          fmt::join(columns->others, ", ")));
  }
  recording.events = make_log_source(path, events_of_blocks(blocks));
  return recording;
}

}  // namespace allocmark
