#include "results/answer/cause_words.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/bytes.h"
#include "results/derived.h"

namespace allocmark {
namespace {

// Streams that are named one by one; the rest is counted.
constexpr std::size_t kStreamsNamedMax = 3;

std::string counter_bytes_text(std::int64_t bytes) {
  return format_bytes(static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0)));
}

std::string limit_details(const CellResult& cell, const OomEvent& first) {
  std::string text = fmt::format(
      "{} live and {} asked exceed the limit of the process, {}: no other setting helps",
      format_bytes(first.live_bytes.value_or(0)), format_bytes(first.size_bytes),
      format_bytes(*first.limit_bytes));
  const std::uint64_t needed_bytes = cell.requested_bytes_peak;
  const std::uint64_t left_bytes = first.device_left_bytes.value_or(0);
  if (needed_bytes <= left_bytes) {
    return text + fmt::format("; without the limit, or with one above {}, the card's {} suffice",
                              format_bytes(needed_bytes), format_bytes(left_bytes));
  }
  return text + fmt::format(
                    "; the card leaves {} for {} live, so a higher limit alone does not "
                    "suffice",
                    format_bytes(left_bytes), format_bytes(needed_bytes));
}

// "stream 1 keeps 24.0 GiB, stream 2 keeps 1.00 GiB and 3 more 2.00 GiB"; largest first.
std::string stream_details(const OomEvent& first) {
  auto streams = first.free_by_stream;
  std::ranges::stable_sort(streams, std::ranges::greater{},
                           [](const auto& stream) { return stream.second; });
  std::vector<std::string> parts;
  std::int64_t rest_bytes = 0;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    std::string name = streams[i].first;
    if (name == "stream" + std::to_string(first.stream)) continue;
    if (parts.size() < kStreamsNamedMax) {
      if (name.starts_with("stream")) name.insert(6, " ");
      parts.push_back(fmt::format("{} keeps {}", name, counter_bytes_text(streams[i].second)));
    } else {
      rest_bytes += streams[i].second;
    }
  }
  std::string text = fmt::format("{}", fmt::join(parts, ", "));
  if (rest_bytes > 0) text += fmt::format(", others {}", counter_bytes_text(rest_bytes));
  if (text.empty()) return text;
  return fmt::format("stream {} asked for {}; {}", first.stream, format_bytes(first.size_bytes),
                     text);
}

// Where a smaller limit than the card's memory stood while something else was the cause.
std::string below_limit_details(const OomEvent& first) {
  if (!first.limit_bytes || !first.device_left_bytes) return {};
  if (*first.limit_bytes >= *first.device_left_bytes) return {};
  return fmt::format("below the limit of the process, {}; without it the card leaves {}",
                     format_bytes(*first.limit_bytes), format_bytes(*first.device_left_bytes));
}

struct Holder {
  std::size_t process = 0;
  std::int64_t cached_bytes = 0;
};

// Processes that cached memory when another one failed.
std::vector<Holder> holders_of(const CellResult& cell) {
  std::vector<Holder> holders;
  for (std::size_t i = 0;; ++i) {
    const auto cached = counter_of(cell, fmt::format("process{}.cached_bytes_at_oom", i));
    if (!cached) return holders;
    if (*cached == 0 || counter_of(cell, fmt::format("process{}.out_of_memory", i)) > 0) continue;
    holders.push_back({.process = i, .cached_bytes = *cached});
  }
}

// "process 0 and 2"
std::string holders_text(const CellResult& cell) {
  std::vector<std::size_t> processes;
  for (const Holder& holder : holders_of(cell)) processes.push_back(holder.process);
  return processes.empty() ? "the other process"
                           : fmt::format("process {}", fmt::join(processes, " and "));
}

// Which processes cached how much, and what was tried against it.
std::string process_details(const CellResult& cell, const OomEvent& first) {
  std::vector<std::string> holders;
  for (const Holder& holder : holders_of(cell)) {
    holders.push_back(fmt::format("process {} caches {}", holder.process,
                                  counter_bytes_text(holder.cached_bytes)));
  }
  std::string text = holders.empty()
                         ? fmt::format("other processes cache {}",
                                       format_bytes(first.free_other_processes_bytes.value_or(0)))
                         : fmt::format("{}", fmt::join(holders, ", "));
  const std::string who = holders_text(cell);
  if (const auto failed = counter_of(cell, "remedy.empty_cache.out_of_memory")) {
    text += *failed == 0
                ? fmt::format("; torch.cuda.empty_cache() in {} before the request serves all", who)
                : fmt::format(
                      "; with torch.cuda.empty_cache() in {} before the request {} still "
                      "fail",
                      who, *failed);
  }
  const auto limited = counter_of(cell, "remedy.fraction.out_of_memory");
  const auto limit_bytes = counter_of(cell, "remedy.fraction.limit_bytes");
  const auto process = counter_of(cell, "remedy.fraction.process");
  if (limited && limit_bytes && process) {
    text += fmt::format("; a memory fraction that limits process {} to {} {}", *process,
                        counter_bytes_text(*limit_bytes),
                        *limited == 0 ? "serves all" : "does not serve all");
  } else if (counter_of(cell, "remedy.fraction.impossible")) {
    text += "; no memory fraction helps: the processes' own peaks do not fit side by side";
  }
  return text;
}

}  // namespace

std::optional<OomCause> main_cause(const CellResult& cell) {
  const auto most = std::ranges::max_element(cell.oom_cause_counts);
  if (most == cell.oom_cause_counts.end() || *most == 0) return std::nullopt;
  const auto index = static_cast<std::size_t>(most - cell.oom_cause_counts.begin());
  return index < kOomCauseCount ? std::optional(static_cast<OomCause>(index)) : std::nullopt;
}

std::string main_cause_words(const CellResult& cell) {
  const std::optional<OomCause> cause = main_cause(cell);
  return cause ? std::string(reason_words(*cause)) : std::string();
}

std::string no_room_words(const Room& room) {
  const std::string needed = format_bytes(room.needed_bytes);
  if (!room.card_left_bytes) {
    return fmt::format("needs {} live, {} are there: no setting can help; {} must go", needed,
                       format_bytes(room.there_bytes),
                       format_bytes(room.needed_bytes - room.there_bytes));
  }
  const std::string text =
      fmt::format("needs {} live, the limit of the process is {}: no other setting can help; ",
                  needed, format_bytes(room.there_bytes));
  if (room.needed_bytes <= *room.card_left_bytes) {
    return text + fmt::format("raise the limit by {} (the card leaves {}), or {} must go",
                              format_bytes(room.needed_bytes - room.there_bytes),
                              format_bytes(*room.card_left_bytes),
                              format_bytes(room.needed_bytes - room.there_bytes));
  }
  return text + fmt::format("a higher one does not suffice, as the card leaves {}; {} must go",
                            format_bytes(*room.card_left_bytes),
                            format_bytes(room.needed_bytes - *room.card_left_bytes));
}

std::string failure_details(const CellResult& cell) {
  const std::optional<OomCause> cause = main_cause(cell);
  if (!cause || !cell.oom_first) return {};
  const OomEvent& first = *cell.oom_first;
  if (*cause == OomCause::Limit && first.limit_bytes) return limit_details(cell, first);
  std::string text;
  if (*cause == OomCause::OtherProcess) text = process_details(cell, first);
  if (*cause == OomCause::Stranded) text = stream_details(first);
  const std::string below = *cause == OomCause::Capacity ? "" : below_limit_details(first);
  return text.empty() || below.empty() ? text + below : text + "; " + below;
}

std::string other_way(const CellResult& cell) {
  const std::optional<OomCause> cause = main_cause(cell);
  if (!cause || !cell.oom_first) return {};
  const OomEvent& first = *cell.oom_first;
  if (*cause == OomCause::OtherProcess &&
      counter_of(cell, "remedy.empty_cache.out_of_memory") == std::optional<std::int64_t>(0)) {
    return fmt::format("torch.cuda.empty_cache() in {} before the request can", holders_text(cell));
  }
  const bool is_limited = *cause == OomCause::Limit || !below_limit_details(first).empty();
  const bool is_roomy = cell.requested_bytes_peak <= first.device_left_bytes.value_or(0);
  if (is_limited && is_roomy && *cause != OomCause::Capacity) return higher_limit_words();
  return {};
}

std::string higher_limit_words() { return "a higher limit of the process, or none, can"; }

}  // namespace allocmark
