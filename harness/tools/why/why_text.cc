#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/json_text.h"
#include "base/shell_text.h"
#include "harness/core/recorded/releases.h"
#include "harness/tools/why/frame_rules.h"
#include "harness/tools/why/owners_text.h"
#include "harness/tools/why/why.h"
#include "harness/tools/why/why_picture.h"
#include "results/columns/text.h"

namespace allocmark {
namespace {

std::string name_of(const std::string& conf) { return conf.empty() ? "unset" : conf; }

const WhatIf& recorded_of(const Why& why) {
  return *std::ranges::find(why.settings, why.recorded.conf, &WhatIf::conf);
}

bool is_impossible(const Why& why) { return why.live_bytes_peak > why.capacity_bytes_max; }

// Their answer is none where the job has private pools: they were asked as if there were none.
bool serves(const Why& why, bool as_setting) {
  if (why.pool_alloc_count > 0) return false;
  return std::ranges::any_of(why.others, [&](const OtherAllocator& other) {
    return other.simulated.failed_count == 0 && (other.name == kDriverPoolConf) == as_setting;
  });
}

// The setting to paste: the first that serves everything, where the recorded one does not. The
// driver's pools come last: they were only simulated.
std::optional<std::string> advised(const Why& why) {
  if (is_impossible(why) || recorded_of(why).failed_count_max() == 0) return std::nullopt;
  const WhatIf& best = why.settings.front();
  if (best.failed_count_max() == 0) return best.conf;
  return serves(why, true) ? std::optional<std::string>(kDriverPoolConf) : std::nullopt;
}

// "private pool (0, 1)", or "3 private pools"
std::string other_pools(const Why& why) {
  std::vector<std::uint32_t> others;
  for (const PoolShare& share : why.shares->pools) {
    if (share.pool != why.check.last_oom->pool && share.free_bytes > 0)
      others.push_back(share.pool);
  }
  return others.size() == 1 ? pool_name(why, others[0])
                            : fmt::format("{} private pools", others.size());
}

std::string cause(const Why& why) {
  const OomShares& shares = *why.shares;
  const std::uint64_t wanted_bytes = why.check.last_oom->size_bytes;
  if (why.check.last_oom->retry_serves)
    return "a block that fits was waiting for another stream; the same request right after it is "
           "served";
  const std::uint64_t free_bytes = shares.reserved_bytes - shares.live_bytes - shares.waiting_bytes;
  if (shares.usable_bytes >= wanted_bytes) {
    return fmt::format("{} were free for it, in {} pieces of at most {}",
                       format_bytes(shares.usable_bytes), shares.usable_count,
                       format_bytes(shares.usable_largest_bytes));
  }
  if (shares.other_stream_bytes + shares.usable_bytes >= wanted_bytes)
    return fmt::format("{} were free on other streams", format_bytes(shares.other_stream_bytes));
  if (shares.other_pool_bytes + shares.usable_bytes >= wanted_bytes)
    return fmt::format("{} were free in {}, whose memory serves no other request",
                       format_bytes(shares.other_pool_bytes), other_pools(why));
  if (shares.common_pool_bytes + shares.usable_bytes >= wanted_bytes)
    return fmt::format("{} were free in the common pool, and the request was for {}",
                       format_bytes(shares.common_pool_bytes),
                       pool_name(why, why.check.last_oom->pool));
  const std::string most = most_held(why.owners);
  return fmt::format("{} of {} were in use and {} were free in all{}",
                     format_bytes(shares.live_bytes), format_bytes(shares.reserved_bytes),
                     format_bytes(free_bytes), most.empty() ? "" : "; most is held by " + most);
}

// What happened while it was recorded.
std::string recorded_story(const Why& why) {
  if (!why.check.last_oom) {
    return fmt::format("no request failed in this history, which reserved {} at most for {} live",
                       format_bytes(why.check.reserved_bytes_peak),
                       format_bytes(why.live_bytes_peak));
  }
  const std::string limit = why.limit.empty() ? "" : ", " + why.limit;
  return fmt::format("a request of {} failed{}{}", format_bytes(why.check.last_oom->size_bytes),
                     is_impossible(why) ? "" : ": " + cause(why), limit);
}

std::string answer(const Why& why) {
  const std::string story = recorded_story(why);
  const bool failed = why.check.last_oom.has_value();
  if (is_impossible(why)) {
    const std::string most = most_held(why.owners);
    return fmt::format("{}{} the job needs {} live and {} {}: no setting can help, {} must go{}{}",
                       story, why.limit.empty() ? ":" : ";", format_bytes(why.live_bytes_peak),
                       failed ? "had" : "would have", format_bytes(why.capacity_bytes_max),
                       format_bytes(why.live_bytes_peak - why.capacity_bytes_max),
                       why.limit.empty() ? "" : " or the limit must rise by that",
                       most.empty() ? "" : "; most is held by " + most);
  }
  const std::uint64_t failed_count = recorded_of(why).failed_count_max();
  if (failed_count == 0) {
    return story + (failed ? "; with that much memory the same settings serve every request" : "");
  }
  const std::string now = failed
                              ? story
                              : fmt::format("{}; with {} the recorded settings fail {} requests",
                                            story, format_bytes(why.capacity_bytes), failed_count);
  if (const std::optional<std::string> best = advised(why)) {
    return fmt::format("{}; {} serves every request", now, name_of(*best));
  }
  return fmt::format("{}; none of {} settings serves every request{}", now, why.settings.size(),
                     serves(why, false) ? ", and allocators that PyTorch does not have do" : "");
}

std::span<const HeldSegment> told(const std::vector<HeldSegment>& held) {
  return std::span(held).first(std::min(held.size(), kHeldCountTold));
}

std::string time_text(double time_ns) { return fmt::format("{:.3f}", time_ns / 1e6); }

std::string time_head(const Why& why) {
  return why.simulated_step_count > 1 ? "CUDA ms/step" : "CUDA ms";
}

std::string cost_text(const WhatIf& entry, bool timed) {
  if (entry.simulated) return time_text(entry.simulated->driver_ns_per_step);
  return timed ? "-" : std::to_string(entry.call_count);
}

std::string settings_table(const Why& why) {
  std::size_t width = 5;
  for (const WhatIf& entry : why.settings) width = std::max(width, name_of(entry.conf).size());
  const bool timed = why.simulated_step_count > 0;
  std::string text = fmt::format("  {:<{}}  {:>6}  {:>13}  {:>12}\n", "conf", width, "failed",
                                 "peak reserved", timed ? time_head(why) : "driver calls");
  for (const WhatIf& entry : why.settings) {
    const std::string cost = cost_text(entry, timed);
    text += fmt::format("  {:<{}}  {:>6}  {:>13}  {:>12}{}\n", name_of(entry.conf), width,
                        entry.failed_count_max(), format_bytes(entry.reserved_bytes_peak), cost,
                        entry.conf == why.recorded.conf ? "  recorded" : "");
  }
  return text;
}

// Settings that serve on the simulated H200 and not everywhere else: 'run' and 'advise' speak of
// them in another way.
std::string served_by_luck(const Why& why) {
  std::string names;
  std::size_t count = 0;
  for (const WhatIf& entry : why.settings) {
    const bool differs =
        entry.simulated && entry.simulated->failed_count == 0 && entry.failed_count > 0;
    if (!differs || ++count > 3) continue;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(entry.conf));
  }
  if (count == 0) return "";
  if (count > 3) names += fmt::format(" and {} more", count - 3);
  return fmt::format(
      "'run' and 'advise' ask the simulated H200 alone, and will say that {} serve{} every "
      "request.\nIn the recording, or with other addresses, {} failed.\n",
      names, count == 1 ? "s" : "", count == 1 ? "it" : "they");
}

std::string others_table(const Why& why) {
  if (why.others.empty()) return "";
  std::string text =
      fmt::format("\nOther allocators, on the simulated H200{}:\n  {:<23}  {:>6}  {:>13}  {:>12}\n",
                  why.pool_alloc_count > 0 ? ", without private pools" : "", "", "failed", "peak",
                  time_head(why));
  for (const OtherAllocator& other : why.others) {
    text += fmt::format(
        "  {:<23}  {:>6}  {:>13}  {:>12}  {}\n", other.name, other.simulated.failed_count,
        format_bytes(other.simulated.peak_bytes), time_text(other.simulated.driver_ns_per_step),
        other.name == kDriverPoolConf ? "a setting of PyTorch" : "no setting of PyTorch");
  }
  return text;
}

// How the rows were made and in which order they stand.
std::string table_words(const Why& why) {
  std::string text =
      fmt::format("Least that any allocator needs: {} (what was live at the peak).\n",
                  format_bytes(why.live_bytes_peak));
  if (why.simulated_step_count > 0) {
    text +=
        "Failed: the worst of the recording itself, three orders of addresses, and the simulated "
        "H200.\nOrder: failures, then 5 % of the memory to spare, then modelled time in CUDA "
        "calls, "
        "as 'advise'.\n";
  } else {
    text +=
        "Failed: the worst of the recording itself and three orders of addresses.\n"
        "Order: failures, then 5 % of the memory to spare, then calls of the driver.\n";
  }
  return text + served_by_luck(why);
}

std::string measure_line(const Why& why) {
  std::string text = fmt::format("  allocmark run --workload {} --allocator {} --conf unset",
                                 shell_word("file:" + why.snapshot->path),
                                 why.recorded.settings.rules->allocator());
  for (const WhatIf& entry : why.settings) {
    if (!entry.conf.empty() && &entry - why.settings.data() < 3)
      text += fmt::format(" --conf {}", shell_word(entry.conf));
  }
  if (why.capacity_bytes < kNoLimit)
    text += fmt::format(" --capacity {}MiB", why.capacity_bytes / kMiB);
  return text + " --device sim:h200\n";
}

std::string table(const Why& why) {
  const std::string memory =
      why.capacity_bytes < kNoLimit
          ? fmt::format("with {} ({})", format_bytes(why.capacity_bytes), why.capacity_source)
          : fmt::format("without limit ({})", why.capacity_source);
  return fmt::format("The same requests from a fresh heap, {}:\n{}{}{}\nTo measure:\n{}", memory,
                     settings_table(why), table_words(why), others_table(why), measure_line(why));
}

std::string last_line(const Why& why) {
  const std::optional<std::string> best = advised(why);
  if (!best) {
    if (!is_impossible(why) && recorded_of(why).failed_count_max() == 0)
      return "To set: nothing; the recorded settings serve every request.\n";
    return why.limit.empty() ? "To set: nothing; no setting serves every request.\n"
                             : "To set: nothing of the allocator's; the limit must rise.\n";
  }
  if (best->empty()) return "To set it: unset PYTORCH_CUDA_ALLOC_CONF\n";
  return refusal_line(*best, *why.recorded.settings.rules, why.release_given) +
         fmt::format("To set it: export PYTORCH_CUDA_ALLOC_CONF={}\n", shell_word(*best));
}

nlohmann::ordered_json oom_facts(const Why& why) {
  const OomShares& shares = *why.shares;
  nlohmann::ordered_json json = {{"size_bytes", why.check.last_oom->size_bytes},
                                 {"retry_serves", why.check.last_oom->retry_serves},
                                 {"reserved_bytes", shares.reserved_bytes},
                                 {"live_bytes", shares.live_bytes},
                                 {"waiting_bytes", shares.waiting_bytes},
                                 {"usable_bytes", shares.usable_bytes},
                                 {"usable_largest_bytes", shares.usable_largest_bytes},
                                 {"other_stream_bytes", shares.other_stream_bytes},
                                 {"other_class_bytes", shares.other_class_bytes},
                                 {"common_pool_bytes", shares.common_pool_bytes},
                                 {"other_pool_bytes", shares.other_pool_bytes},
                                 {"pool", pool_name(why, why.check.last_oom->pool)},
                                 {"private_pools", nlohmann::ordered_json::array()}};
  for (const PoolShare& share : shares.pools) {
    json["private_pools"].push_back({{"name", pool_name(why, share.pool)},
                                     {"reserved_bytes", share.reserved_bytes},
                                     {"live_bytes", share.live_bytes},
                                     {"free_bytes", share.free_bytes}});
  }
  return json;
}

nlohmann::ordered_json facts(const Why& why) {
  nlohmann::ordered_json json = {{"file", why.snapshot->path},
                                 {"answer", answer(why)},
                                 {"pytorch", why.recorded.settings.rules->name()},
                                 {"pytorch_given", why.release_given},
                                 {"placement_count", why.check.placement_count},
                                 {"placement_equal_count", why.check.equal_count},
                                 {"self_check_complete", why.check.complete()},
                                 {"first_difference", why.check.first_difference},
                                 {"notes", why.notes},
                                 {"oom_count", why.check.oom_count},
                                 {"live_bytes_peak", why.live_bytes_peak},
                                 {"reserved_bytes_peak", why.check.reserved_bytes_peak}};
  if (why.capacity_bytes < kNoLimit) json["capacity_bytes"] = why.capacity_bytes;
  json["held"] = owners_json(why.owners, live_rounded(why));
  if (why.shares) {
    json["oom"] = oom_facts(why);
    json["held_segments"] = nlohmann::ordered_json::array();
    for (const HeldSegment& held : told(why.held)) {
      json["held_segments"].push_back({{"size_bytes", held.size_bytes},
                                       {"free_bytes", held.free_bytes},
                                       {"block_count", held.block_count},
                                       {"holder", held.holder}});
    }
  }
  if (nlohmann::ordered_json pools = pools_json(why); !pools.is_null())
    json["private_pools"] = std::move(pools);
  json["settings"] = nlohmann::ordered_json::array();
  for (const WhatIf& entry : why.settings) {
    json["settings"].push_back({{"conf", entry.conf},
                                {"failed_count", entry.failed_count_max()},
                                {"reserved_bytes_peak", entry.reserved_bytes_peak},
                                {"driver_call_count", entry.call_count}});
    if (!entry.simulated) continue;
    json["settings"].back()["simulated_failed_count"] = entry.simulated->failed_count;
    json["settings"].back()["driver_ns_per_step"] = entry.simulated->driver_ns_per_step;
  }
  json["other_allocators"] = nlohmann::ordered_json::array();
  for (const OtherAllocator& other : why.others) {
    json["other_allocators"].push_back(
        {{"name", other.name},
         {"is_setting_of_pytorch", other.name == kDriverPoolConf},
         {"failed_count", other.simulated.failed_count},
         {"peak_bytes", other.simulated.peak_bytes},
         {"driver_ns_per_step", other.simulated.driver_ns_per_step}});
  }
  const std::optional<std::string> best = advised(why);
  json["advised_conf"] = best ? nlohmann::ordered_json(*best) : nlohmann::ordered_json();
  return json;
}

std::string written(const nlohmann::ordered_json& json) { return json_text(json, 1) + "\n"; }

}  // namespace

std::string to_text(const Why& why) {
  std::string text = fmt::format("{}: {}.\n", printable(why.snapshot->path), answer(why));
  text += to_text(why.check) + release_line(*why.recorded.settings.rules, why.release_given);
  for (const std::string& note : why.notes) text += fmt::format("note: {}\n", note);
  if (!why.recorded.unknown.empty()) {
    text += fmt::format("note: settings that are not known here were in force: {}\n",
                        shortened(why.recorded.unknown));
  }
  if (why.shares) text += "\n" + picture(why);
  if (const std::string held = owners_text(why.owners, live_rounded(why)); !held.empty())
    text += "\n" + held;
  if (why.shares) text += held_text(why);
  if (const std::string pools = pools_text(why); !pools.empty()) text += "\n" + pools;
  text += "\n" + table(why);
  return text + "\n" + last_line(why);
}

std::string to_markdown(const Why& why) {
  std::string text = fmt::format("**{}.**\n\n", answer(why));
  std::string check =
      to_text(why.check) + release_line(*why.recorded.settings.rules, why.release_given);
  for (const std::string& note : why.notes) check += fmt::format("note: {}\n", note);
  for (std::size_t begin = 0, end = 0; begin < check.size(); begin = end + 1) {
    end = check.find('\n', begin);
    text += fmt::format("- {}\n", check.substr(begin, end - begin));
  }
  if (const std::string held = owners_markdown(why.owners, live_rounded(why)); !held.empty())
    text += "\n" + held;
  if (const std::string pools = pools_markdown(why); !pools.empty()) text += "\n" + pools;
  const bool timed = why.simulated_step_count > 0;
  text += fmt::format("\n| conf | failed | peak reserved | {} |\n| :-- | --: | --: | --: |\n",
                      timed ? time_head(why) : "driver calls");
  for (const WhatIf& entry : why.settings) {
    text +=
        fmt::format("| {}{} | {} | {} | {} |\n", markdown_cell_code(name_of(entry.conf)),
                    entry.conf == why.recorded.conf ? " (recorded)" : "", entry.failed_count_max(),
                    format_bytes(entry.reserved_bytes_peak), cost_text(entry, timed));
  }
  return text + "\n" + table_words(why) + "\n" + last_line(why);
}

std::string to_json(const Why& why) { return written(facts(why)); }

std::string to_page_json(const Why& why) {
  nlohmann::ordered_json json = facts(why);
  json["self_check"] =
      to_text(why.check) + release_line(*why.recorded.settings.rules, why.release_given);
  json["held"] = owners_page_json(why.owners, live_rounded(why));
  if (nlohmann::ordered_json pools = pools_page_json(why); !pools.is_null())
    json["private_pools"] = std::move(pools);
  json["free_memory_matters"] = why.shares && !held_text(why).empty();
  json["capacity_source"] = why.capacity_source;
  json["recorded_conf"] = why.recorded.conf;
  json["step_count"] = why.simulated_step_count;
  json["order"] = table_words(why);
  json["measure"] = measure_line(why);
  json["map"] = nlohmann::ordered_json::array();
  for (const HeldSegment& held : why.held) {
    nlohmann::ordered_json runs = nlohmann::ordered_json::array();
    for (const BlockRun& run : held.runs) runs.push_back({run.size_bytes, to_string(run.state)});
    json["map"].push_back({{"size_bytes", held.size_bytes},
                           {"free_bytes", held.free_bytes},
                           {"block_count", held.block_count},
                           {"block_bytes", held.block_bytes},
                           {"usable", held.usable},
                           {"holder", held.holder},
                           {"runs", runs}});
  }
  return written(json);
}

}  // namespace allocmark
