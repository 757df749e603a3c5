#include "harness/tools/why/why_picture.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

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

}  // namespace allocmark
