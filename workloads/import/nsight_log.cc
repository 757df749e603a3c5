#include "workloads/import/nsight_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"

namespace allocmark {

Recording make_nsight_recording(const std::string& path, std::vector<NsightRow> rows) {
  const auto on_host = [](const NsightRow& row) { return row.memory_kind <= 1; };
  const std::size_t host_count = static_cast<std::size_t>(std::ranges::count_if(rows, on_host));
  rows.erase(std::remove_if(rows.begin(), rows.end(), on_host), rows.end());
  std::set<std::pair<std::uint64_t, std::uint64_t>> owners;
  for (const NsightRow& row : rows) owners.emplace(row.process, row.device);
  if (rows.empty() || owners.size() > 1) {
    throw UsageError({.what = rows.empty() ? "the export has no operation on device memory"
                                           : "the export has several processes or devices",
                      .where = path,
                      .wanted = rows.empty() ? "rows of cudaMalloc, cudaFree and the like"
                                             : "one process on one device",
                      .got = rows.empty() ? fmt::format("{} operations on host memory", host_count)
                                          : fmt::format("{} pairs of them", owners.size()),
                      .next = rows.empty()
                                  ? "record with nsys profile --cuda-memory-usage=true"
                                  : "record one process, or select its rows into a CSV file"});
  }
  std::ranges::stable_sort(rows, {}, &NsightRow::start_ns);
  AddressLog log;
  std::uint64_t left_out_count = 0;
  for (const NsightRow& row : rows) {
    if (row.is_free) {
      left_out_count += log.free(row.address) ? 0 : 1;
      continue;
    }
    const BlockSpec block{.size_bytes = row.size_bytes, .stream = log.stream_index(row.stream)};
    if (log.allocate(row.address, block)) continue;
    // The free was not recorded: the driver would not give a live address twice.
    static_cast<void>(log.free(row.address));
    static_cast<void>(log.allocate(row.address, block));
    ++left_out_count;
  }
  Recording recording;
  recording.notes.push_back(
      "these are calls of the driver: under PyTorch they are its segments, not the program's "
      "requests");
  if (host_count > 0)
    recording.notes.push_back(fmt::format("{} operations on host memory are left out", host_count));
  if (left_out_count > 0) {
    recording.notes.push_back(
        fmt::format("{} frees have no allocation, or allocations no free", left_out_count));
  }
  add_failures(log, &recording);
  recording.events = make_log_source(path, std::move(log));
  return recording;
}

}  // namespace allocmark
