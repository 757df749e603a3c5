#include "harness/tools/why/why_picture.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "base/bytes.h"

namespace allocmark {
namespace {

void add_line(std::string& text, std::string_view name, std::uint64_t bytes,
              std::string_view note) {
  if (bytes > 0) text += fmt::format("  {:>10}  {}{}\n", format_bytes(bytes), name, note);
}

// What keeps free memory from the card: only where there is enough of it to matter.
bool free_memory_matters(const Why& why) {
  const OomShares& shares = *why.shares;
  return shares.reserved_bytes - shares.live_bytes - shares.waiting_bytes >=
         why.check.last_oom->size_bytes;
}

constexpr std::size_t kPoolsTold = 8;    // of a moment
constexpr std::size_t kReturnsTold = 4;  // the rest is in the JSON

constexpr const char* kStrandedWords =
    "Stranded is what a pool has free: no request of another pool gets it.";

struct PoolRow {
  std::string name;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t live_bytes = 0;
  std::uint64_t stranded_bytes = 0;
};

bool has_pools(const Why& why) {
  const PoolStory& story = why.check.story;
  return !story.most_stranded.pools.empty() || !story.end.pools.empty();
}

std::string moment_name(std::string_view when, const PoolMoment& moment) {
  return fmt::format("{}, before entry {}", when, moment.entry_index);
}

// All private pools together, then the first of them, then the others in one row.
std::vector<PoolRow> rows_of(const Why& why, std::string_view name, const PoolMoment& moment) {
  std::vector<PoolRow> rows{{.name = std::string(name)}};
  for (std::size_t at = 0; at < moment.pools.size(); ++at) {
    const PoolHeld& held = moment.pools[at];
    rows[0].reserved_bytes += held.reserved_bytes;
    rows[0].live_bytes += held.live_bytes;
    rows[0].stranded_bytes += held.stranded_bytes();
    const bool rest = at >= kPoolsTold && moment.pools.size() > kPoolsTold + 1;
    if (rest && at == kPoolsTold)
      rows.push_back({.name = fmt::format("  {} more pools", moment.pools.size() - kPoolsTold)});
    if (!rest) rows.push_back({.name = "  " + pool_name(why, held.pool)});
    rows.back().reserved_bytes += held.reserved_bytes;
    rows.back().live_bytes += held.live_bytes;
    rows.back().stranded_bytes += held.stranded_bytes();
  }
  return rows;
}

std::vector<PoolRow> rows_of(const Why& why) {
  const PoolStory& story = why.check.story;
  std::vector<PoolRow> rows;
  if (!story.most_stranded.pools.empty()) {
    rows = rows_of(why, moment_name("most stranded", story.most_stranded), story.most_stranded);
  }
  if (story.end.pools == story.most_stranded.pools) {
    rows[0].name += " and at the end";
    return rows;
  }
  const std::vector<PoolRow> end = rows_of(why, "at the end", story.end);
  rows.insert(rows.end(), end.begin(), end.end());
  return rows;
}

// Those that gave most back, in the history's order.
std::vector<const CacheReturn*> told_returns(const Why& why) {
  std::vector<const CacheReturn*> told;
  for (const CacheReturn& one : why.check.story.returns) told.push_back(&one);
  std::ranges::stable_sort(told, std::greater<>(), &CacheReturn::bytes);
  if (told.size() > kReturnsTold) told.resize(kReturnsTold);
  std::ranges::sort(told, {}, [](const CacheReturn* one) { return one->before.entry_index; });
  return told;
}

std::uint64_t free_in_common(const PoolMoment& moment) {
  return moment.reserved_bytes - moment.live_bytes - moment.stranded_bytes();
}

// What keeps the rest from going back.
std::string rest_words(const PoolMoment& after) {
  return fmt::format("{} live, {} stranded, {} free in the common pool",
                     format_bytes(after.live_bytes), format_bytes(after.stranded_bytes()),
                     format_bytes(free_in_common(after)));
}

}  // namespace

std::string pool_name(const Why& why, std::uint32_t pool) {
  if (pool == 0) return "the common pool";
  if (pool >= why.snapshot->pools.size()) return "a private pool that the file does not name";
  const auto& [first, second] = why.snapshot->pools[pool];
  return fmt::format("private pool ({}, {})", first, second);
}

std::string picture(const Why& why) {
  const OomShares& shares = *why.shares;
  const OomPicture& oom = *why.check.last_oom;
  std::string text =
      fmt::format("When the request of {} failed (entry {}, {} failed in all):\n",
                  format_bytes(oom.size_bytes), oom.entry_index, why.check.oom_count);
  add_line(text, "reserved", shares.reserved_bytes,
           ", after everything was given back that could be");
  add_line(text, "of it live", shares.live_bytes,
           fmt::format(", {} asked", format_bytes(shares.live_requested_bytes)));
  add_line(text, "waiting for another stream", shares.waiting_bytes, "");
  add_line(text, "free for this request", shares.usable_bytes,
           fmt::format(", in {} pieces, the largest {}", shares.usable_count,
                       format_bytes(shares.usable_largest_bytes)));
  add_line(text, "free on other streams", shares.other_stream_bytes, "");
  add_line(text, "free in segments for requests of another size", shares.other_class_bytes, "");
  add_line(text, "free in the common pool", shares.common_pool_bytes,
           ", and the request was for " + pool_name(why, oom.pool));
  add_line(text, "free in private pools", shares.other_pool_bytes,
           " of graphs or MemPools, and serve no other request");
  add_line(text, "free on the device", oom.device_free_bytes, "");
  for (const PoolShare& share : shares.pools) {
    text += fmt::format("  {:>10}  in {}: {} live, {} free\n", format_bytes(share.reserved_bytes),
                        pool_name(why, share.pool), format_bytes(share.live_bytes),
                        format_bytes(share.free_bytes));
  }
  return text;
}

std::uint64_t live_rounded(const Why& why) {
  const bool same = why.shares && why.shares->live_requested_bytes == why.owners.live_bytes;
  return same ? why.shares->live_bytes : 0;
}

std::string held_text(const Why& why) {
  if (why.held.empty() || !free_memory_matters(why)) return "";
  std::string text = "\nSegments with the most free memory, and what holds them:\n";
  std::vector<std::pair<std::string, std::uint64_t>> lines;  // and how often
  for (const HeldSegment& held : why.held) {
    std::string line =
        fmt::format("{:>10} free of {:>10}, held by {} block{}, the largest {}{}{}",
                    format_bytes(held.free_bytes), format_bytes(held.size_bytes), held.block_count,
                    held.block_count == 1 ? "" : "s", format_bytes(held.block_bytes),
                    held.holder.empty() ? "" : ": ", held.holder);
    if (!lines.empty() && lines.back().first == line) {
      ++lines.back().second;
      continue;
    }
    if (lines.size() == kHeldCountTold) break;
    lines.emplace_back(std::move(line), 1);
  }
  for (const auto& [line, count] : lines)
    text += fmt::format("  {}{}\n", line, count > 1 ? fmt::format(" ({} such)", count) : "");
  return text;
}

std::string pools_text(const Why& why) {
  if (!has_pools(why)) return "";
  const std::vector<PoolRow> rows = rows_of(why);
  std::size_t width = 0;
  for (const PoolRow& row : rows) width = std::max(width, row.name.size());
  std::string text = fmt::format("Private pools of graphs and MemPools. {}\n", kStrandedWords);
  text +=
      fmt::format("  {:<{}}  {:>10}  {:>10}  {:>10}\n", "", width, "reserved", "live", "stranded");
  for (const PoolRow& row : rows) {
    text += fmt::format("  {:<{}}  {:>10}  {:>10}  {:>10}\n", row.name, width,
                        format_bytes(row.reserved_bytes), format_bytes(row.live_bytes),
                        format_bytes(row.stranded_bytes));
  }
  const std::vector<const CacheReturn*> returns = told_returns(why);
  if (returns.empty()) return text + "Nothing went back to the device by empty_cache.\n";
  text += "Given back to the device at once, the most:\n";
  for (const CacheReturn* one : returns) {
    text +=
        fmt::format("  {:>10} of {:>10} before entry {}; {} stay: {}\n", format_bytes(one->bytes()),
                    format_bytes(one->before.reserved_bytes), one->before.entry_index,
                    format_bytes(one->after.reserved_bytes), rest_words(one->after));
  }
  return text;
}

std::string pools_markdown(const Why& why) {
  if (!has_pools(why)) return "";
  std::string text = "| private pools | reserved | live | stranded |\n| :-- | --: | --: | --: |\n";
  for (const PoolRow& row : rows_of(why)) {
    text += fmt::format("| {} | {} | {} | {} |\n", row.name, format_bytes(row.reserved_bytes),
                        format_bytes(row.live_bytes), format_bytes(row.stranded_bytes));
  }
  const std::vector<const CacheReturn*> returns = told_returns(why);
  if (!returns.empty()) text += "\n| given back at once | of | stays |\n| --: | --: | :-- |\n";
  for (const CacheReturn* one : returns) {
    text += fmt::format("| {} | {} | {}: {} |\n", format_bytes(one->bytes()),
                        format_bytes(one->before.reserved_bytes),
                        format_bytes(one->after.reserved_bytes), rest_words(one->after));
  }
  return fmt::format("{}\n{}\n", text, kStrandedWords);
}

nlohmann::ordered_json pools_json(const Why& why) {
  if (!has_pools(why)) return {};
  const auto moment_json = [&why](const PoolMoment& moment) {
    nlohmann::ordered_json json = {{"entry_index", moment.entry_index},
                                   {"reserved_bytes", moment.reserved_bytes},
                                   {"live_bytes", moment.live_bytes},
                                   {"stranded_bytes", moment.stranded_bytes()},
                                   {"pools", nlohmann::ordered_json::array()}};
    for (const PoolHeld& held : moment.pools) {
      json["pools"].push_back({{"name", pool_name(why, held.pool)},
                               {"reserved_bytes", held.reserved_bytes},
                               {"live_bytes", held.live_bytes},
                               {"stranded_bytes", held.stranded_bytes()}});
    }
    return json;
  };
  const PoolStory& story = why.check.story;
  nlohmann::ordered_json json = {{"most_stranded", moment_json(story.most_stranded)},
                                 {"end", moment_json(story.end)},
                                 {"returns", nlohmann::ordered_json::array()}};
  for (const CacheReturn& one : story.returns) {
    json["returns"].push_back({{"given_back_bytes", one.bytes()},
                               {"before", moment_json(one.before)},
                               {"after", moment_json(one.after)}});
  }
  return json;
}

nlohmann::ordered_json pools_page_json(const Why& why) {
  nlohmann::ordered_json json = pools_json(why);
  if (json.is_null()) return json;
  json["words"] = kStrandedWords;
  json["samples"] = nlohmann::ordered_json::array();
  for (const PoolSample& sample : why.check.story.samples) {
    json["samples"].push_back(
        {sample.entry_index, sample.reserved_bytes, sample.live_bytes, sample.stranded_bytes});
  }
  return json;
}

}  // namespace allocmark
