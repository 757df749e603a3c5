// The table of memory operations of an Nsight Systems export as CSV, with its columns' own names.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/error.h"
#include "workloads/import/nsight_log.h"
#include "workloads/import/text_lines.h"

namespace allocmark {
namespace {

constexpr std::array<std::string_view, 8> kEventColumns = {
    "start",     "address",  "bytes",    "memoryOperationType",
    "globalPid", "deviceId", "streamId", "memKind"};
constexpr std::size_t kNeededCount = 4;  // the others are missing in older exports

}  // namespace

Recording open_nsight_csv(const std::string& path) {
  TextLines lines(path);
  std::vector<std::string_view> columns;
  split_columns(lines.next().value_or(""), &columns);
  const std::size_t column_count = columns.size();
  std::array<std::size_t, kEventColumns.size()> places{};
  for (std::size_t i = 0; i < kEventColumns.size(); ++i) {
    places[i] = static_cast<std::size_t>(
        std::find(columns.begin(), columns.end(), kEventColumns[i]) - columns.begin());
    if (i < kNeededCount && places[i] == column_count) {
      throw UsageError({.what = "this CSV of Nsight Systems lacks a column",
                        .where = lines.where(),
                        .wanted = fmt::format("'{}'", kEventColumns[i]),
                        .next = "select all columns of CUDA_GPU_MEMORY_USAGE_EVENTS"});
    }
  }
  std::vector<NsightRow> rows;
  while (const std::optional<std::string_view> line = lines.next()) {
    if (line->empty()) continue;
    split_columns(*line, &columns);
    std::array<std::uint64_t, kEventColumns.size()> values{};
    values[7] = 2;
    for (std::size_t i = 0; i < kEventColumns.size(); ++i) {
      if (places[i] == column_count || columns.size() != column_count || columns[places[i]].empty())
        continue;
      const std::optional<std::uint64_t> value = number_in(columns[places[i]]);
      if (value) values[i] = *value;
      if (!value || columns.size() != column_count) {
        throw UsageError({.what = "a row of the CSV is broken",
                          .where = lines.where(),
                          .wanted = fmt::format("a number in column '{}'", kEventColumns[i]),
                          .got = fmt::format("'{}'", columns[places[i]]),
                          .next = "export it again"});
      }
    }
    if (columns[places[3]].empty() || columns.size() != column_count) continue;
    rows.push_back({.start_ns = values[0],
                    .process = values[4],
                    .device = values[5],
                    .stream = values[6],
                    .address = values[1],
                    .size_bytes = values[2],
                    .memory_kind = values[7],
                    .is_free = values[3] == 1});
  }
  return make_nsight_recording(path, std::move(rows));
}

}  // namespace allocmark
