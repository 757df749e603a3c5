// The decided answer in words. One unit of time for all costs of an experiment.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/bytes.h"
#include "base/shell_text.h"
#include "results/answer/answer.h"
#include "results/answer/answer_parts.h"
#include "results/answer/cause_words.h"
#include "results/cell_words.h"
#include "results/columns/text.h"
#include "results/derived.h"
#include "results/json.h"

namespace allocmark {
namespace {

// A list longer than this is cut and the rest counted; the table has them all.
constexpr std::size_t kListedMax = 6;

// What stands beside the settings of PyTorch.
constexpr std::string_view kVariable = "PYTORCH_CUDA_ALLOC_CONF";
constexpr std::string_view kTorchAllocator = "torch";
constexpr std::string_view kAsyncAllocator = "async";
constexpr std::string_view kAsyncAsPyTorch = "release_threshold_mb:max";
constexpr std::string_view kAsyncConf = "backend:cudaMallocAsync";

// "A, B (detail), and 3 more".
template <typename Cells, typename Words>
std::string list_of(const Cells& cells, Words words) {
  std::string text;
  for (std::size_t index = 0; index < std::min(cells.size(), kListedMax); ++index) {
    text += (index > 0 ? "; " : "") + words(cells[index]);
  }
  if (cells.size() > kListedMax) text += fmt::format("; and {} more", cells.size() - kListedMax);
  return text;
}

// ", process 0: 3 of 80, process 1: 0 of 20" where the workload has several processes.
std::string failures_by_process(const CellResult& cell) {
  std::string text;
  for (std::size_t process = 0;; ++process) {
    const auto failed = counter_of(cell, fmt::format("process{}.out_of_memory", process));
    const auto asked = counter_of(cell, fmt::format("process{}.requests", process));
    if (!failed || !asked) return text;
    text += fmt::format(", process {}: {} of {}", process, *failed, *asked);
  }
}

std::string causes_of(const CellResult& cell) {
  std::vector<std::string> parts;
  for (std::size_t cause = 0; cause < cell.oom_cause_counts.size(); ++cause) {
    if (cell.oom_cause_counts[cause] == 0 || cause >= kOomCauseCount) continue;
    parts.push_back(fmt::format("{} {}", short_words(static_cast<OomCause>(cause)),
                                cell.oom_cause_counts[cause]));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// "gpt2_train_amp at 1.05x (3.2 GiB)".
std::string job_name(const CellGroup& group, const TextStyle& style) {
  const CellKey& key = group.key();
  const auto bytes = capacity_bytes(group);
  if (key.capacity == "unlimited") return style.name(key.workload) + " with the whole device";
  return style.name(key.workload) + " at " + style.name(key.capacity) +
         (bytes && key.capacity.ends_with('x') ? " (" + format_bytes(*bytes) + ")" : std::string());
}

std::string impossible_words(const Answer& answer) {
  Room room{.needed_bytes = answer.needed_bytes, .there_bytes = answer.capacity_bytes};
  const CellResult* failed = answer.baseline != nullptr
                                 ? answer.baseline
                                 : (answer.with_oom.empty() ? nullptr : answer.with_oom.front());
  if (failed != nullptr && failed->oom_first && failed->key.capacity.ends_with("@limit")) {
    room.card_left_bytes = failed->oom_first->device_left_bytes;
  }
  return no_room_words(room);
}

// "expandable_segments:True" is what a user of PyTorch sets; other allocators have their name.
std::string short_name(const CellKey& key, const Answer& answer, const TextStyle& style) {
  const bool own = key.allocator == answer.baseline_allocator && !key.conf.empty();
  return own ? style.name(key.conf) : setting_name(key, style);
}

// " runs out of memory (CAUSE: DETAILS)".
std::string failed_words(const CellResult& cell, const TextStyle& style) {
  const std::string cause = main_cause_words(cell);
  const std::string details = failure_details(cell);
  return " runs out of memory" +
         (cause.empty()
              ? ""
              : style.plain(" (" + cause + (details.empty() ? "" : ": " + details) + ")"));
}

std::string baseline_words(const Answer& answer, const TextStyle& style) {
  const CellResult& cell = *answer.baseline;
  const std::string name = setting_name(cell.key, style);
  if (outcome_of(cell) == Outcome::Ok) {
    const RankedCell alone{.cell = &cell, .cost = answer.baseline_cost};
    return name + " serves every request" +
           (alone.cost ? style.plain(" at " + short_cost(alone, answer)) : std::string());
  }
  return name + failed_words(cell, style);
}

// The cheapest that beats the baseline by more than the spread of the passes.
const RankedCell* cheaper_setting(const Answer& answer) {
  for (const RankedCell& one : answer.settable) {
    if (one.difference_ns && *one.difference_ns < 0 && !one.may_be_noise) return &one;
  }
  return nullptr;
}

// "; a:1 takes 700 us per step (-100 us against unset)." behind what unset costs.
std::string cheaper_words(const Answer& answer, const TextStyle& style) {
  if (answer.settable.empty()) return ".";
  if (const RankedCell* cheaper = cheaper_setting(answer)) {
    return "; " + short_name(cheaper->cell->key, answer, style) + " takes " +
           style.plain(short_cost(*cheaper, answer)) + ".";
  }
  const bool any_known = std::ranges::any_of(answer.settable, &RankedCell::range_known);
  return any_known ? "; no setting measured is cheaper beyond noise."
                   : "; no setting measured is more than 15 % cheaper.";
}

std::string baseline_name(const Answer& answer, const TextStyle& style) {
  CellKey key;
  key.allocator = answer.baseline_allocator;
  return setting_name(key, style);
}

std::string baseline_line(const Answer& answer, const TextStyle& style) {
  if (answer.baseline == nullptr) {
    return baseline_name(answer, style) + " has no numbers here, so there is no difference to it.";
  }
  const CellResult& cell = *answer.baseline;
  const std::string name = setting_name(cell.key, style);
  if (outcome_of(cell) == Outcome::Oom) {
    return name + style.plain(" ran out of memory: " + failure_text(cell)) + ".";
  }
  const RankedCell alone{.cell = &cell, .cost = answer.baseline_cost};
  const std::string cost = alone.cost ? "; " + cost_text(alone, answer) : std::string();
  return name + style.plain(
                    fmt::format(" served all {} requests of a pass{}.", cell.allocate_count, cost));
}

void add_ranked(const std::string& heading, const std::vector<RankedCell>& cells,
                const Answer& answer, const TextStyle& style, std::vector<std::string>* lines) {
  if (cells.empty()) return;
  lines->push_back(heading);
  for (std::size_t index = 0; index < std::min(cells.size(), kListedMax); ++index) {
    lines->push_back("- " + setting_name(cells[index].cell->key, style) +
                     style.plain(": " + cost_text(cells[index], answer)));
  }
  if (cells.size() > kListedMax) {
    lines->push_back(fmt::format("- and {} more, in the table", cells.size() - kListedMax));
  }
}

}  // namespace

TextStyle terminal_style() { return {.name = printable, .plain = printable}; }

TextStyle markdown_style() { return {.name = markdown_code, .plain = markdown_escape}; }

std::string_view to_string(Outcome outcome) {
  return outcome == Outcome::Ok ? "ok" : outcome == Outcome::Oom ? "oom" : "none";
}

std::string_view to_string(AnswerVerdict verdict) {
  constexpr std::array<std::string_view, 5> kNames{"impossible", "rescued", "unrescued", "served",
                                                   "no_baseline"};
  return kNames[static_cast<std::size_t>(verdict)];
}

bool is_release_of(const CellKey& key, std::string_view allocator) {
  return std::string_view(key.allocator).substr(0, key.allocator.find('@')) == allocator;
}

std::string line_to_paste(const CellKey& key) {
  const bool torch = is_release_of(key, kBaselineAllocator) || is_release_of(key, kTorchAllocator);
  if (torch && key.conf.empty()) return fmt::format("unset {}", kVariable);
  // PyTorch never lets its pool shrink by itself; CUDA's preset gives everything back at each wait.
  const bool async = key.allocator == kAsyncAllocator && key.conf == kAsyncAsPyTorch;
  if (!torch && !async) return {};
  return fmt::format("export {}={}", kVariable,
                     shell_word(async ? std::string(kAsyncConf) : key.conf));
}

std::string setting_name(const CellKey& key, const TextStyle& style) {
  if (key.conf.empty()) return style.name(key.allocator) + " unset";
  return style.name(key.allocator) + " " + style.name(key.conf);
}

std::string failure_text(const CellResult& cell) {
  if (cell.status == CellStatus::OomStopped) {
    const std::string causes = causes_of(cell);
    return "stopped at its first failed request" + (causes.empty() ? "" : " (" + causes + ")");
  }
  if (cell.oom_count == 0) {
    return fmt::format("a request failed in {} of {} timed passes", cell.trial_oom_count,
                       cell.trial_count);
  }
  const std::string causes = causes_of(cell);
  return fmt::format("{} of {} requests failed{}{}", cell.oom_count, cell.allocate_count,
                     failures_by_process(cell), causes.empty() ? "" : " (" + causes + ")");
}

std::string_view answer_legend() {
  return "Settings are ranked by what they cost: request P99 of a server, else a step's wall "
         "time, else the allocator's time per step, else per pass. In brackets: the cheapest "
         "and the dearest pass. Wall times within 1 % of each other are equal, and other costs "
         "within 15 % where their ranges lie less than 5 % apart, simulated times per step and "
         "per pass in any case: there reserved memory decides. A pass is dear that costs more "
         "than twice the cheapest; a setting with such passes is ranked by their mean. ? = the "
         "difference may be noise, or a range is not known. ~ = too few requests for this "
         "percentile. Where unset ran out of memory it did less work.";
}

namespace {

// What is known where PyTorch's allocator without a config string has no numbers.
std::string without_baseline(const Answer& answer, const TextStyle& style) {
  const bool settable = !answer.settable.empty();
  if (settable || !answer.others.empty()) {
    const RankedCell& best = settable ? answer.settable.front() : answer.others.front();
    return short_name(best.cell->key, answer, style) + " serves every request" +
           (best.cost ? style.plain(" at " + short_cost(best, answer)) : std::string());
  }
  if (answer.with_oom.empty()) {
    const auto& missing = answer.not_measured;
    return "nothing was measured" + (missing.empty() || missing.front()->reason.empty()
                                         ? ""
                                         : style.plain(": " + missing.front()->reason));
  }
  const CellResult& failed = *answer.with_oom.front();
  if (answer.with_oom.size() == 1)
    return short_name(failed.key, answer, style) + failed_words(failed, style);
  return "every setting measured runs out of memory";
}

// Of PyTorch's allocator, of which none is the one that the user has.
bool has_several_releases(const CellGroup& group) {
  std::set<std::string> releases;
  for (const CellResult* cell : group.cells) {
    if (is_release_of(cell->key, kBaselineAllocator)) releases.insert(cell->key.allocator);
  }
  return releases.size() > 1;
}

std::string verdict_sentence(const CellGroup& group, const Answer& answer, const TextStyle& style) {
  const std::string job = job_name(group, style);
  switch (answer.verdict) {
    case AnswerVerdict::Impossible:
      return job + " " + style.plain(impossible_words(answer)) + ".";
    case AnswerVerdict::NoBaseline:
      return job + ": " + without_baseline(answer, style) + "; " + baseline_name(answer, style) +
             " was not measured, so there is nothing to compare with (" +
             (has_several_releases(group) ? "ask about one release alone" : "--conf unset") + ").";
    case AnswerVerdict::Unrescued:
      return job + ": " + baseline_words(answer, style) +
             (answer.with_oom.empty() ? "; nothing else was measured."
                                      : ", and so does every other setting measured.");
    case AnswerVerdict::Served: {
      const std::string waste =
          answer.wasteful == nullptr ? std::string() : " " + waste_line(answer, style);
      return job + ": " + baseline_words(answer, style) + cheaper_words(answer, style) +
             missing_range(answer, cheaper_setting(answer)) + waste;
    }
    case AnswerVerdict::Rescued:
      break;
  }
  const RankedCell* rescuer = answer.rescuer();
  const RankedCell& best = rescuer != nullptr ? *rescuer : answer.others.front();
  return job + ": " + baseline_words(answer, style) + "; " +
         short_name(best.cell->key, answer, style) + " serves every request" +
         style.plain(" at " + short_cost(best, answer)) +
         (rescuer == nullptr ? ", but is no setting of PyTorch." : ".") +
         missing_range(answer, &best);
}

}  // namespace

std::string recorded_failures(std::span<const CellResult* const> cells) {
  std::int64_t count = 0;
  for (const CellResult* cell : cells) {
    for (const auto& [name, value] : cell->counters)
      if (name == kRecordedOomCounter) count = std::max(count, value);
  }
  if (count == 0) return "";
  return fmt::format(" While it was recorded, {} request{} failed.", count, count == 1 ? "" : "s");
}

std::string device_work_words(std::span<const CellResult* const> cells, const TextStyle& style) {
  std::string text;
  for (const CellResult* cell : cells) {
    if (!is_measured(*cell) || !cell->idle_oom_count) continue;
    const bool serves_busy = outcome_of(*cell) == Outcome::Ok;
    const bool serves_idle = *cell->idle_oom_count == 0;
    if (serves_busy == serves_idle) continue;
    text += " " + setting_name(cell->key, style) +
            style.plain(fmt::format(
                " depends on the device's work, which the recording does not tell: with work in "
                "flight {}, on an idle device {}.",
                serves_busy ? "it serves every request" : "requests fail",
                serves_idle ? "it serves every request"
                            : fmt::format("{} fail", *cell->idle_oom_count)));
  }
  return text;
}

std::string answer_sentence(const CellGroup& group, const Answer& answer, const TextStyle& style) {
  return verdict_sentence(group, answer, style) + style.plain(recorded_failures(group.cells)) +
         device_work_words(group.cells, style) + pool_words(group.cells, style);
}

std::vector<std::string> answer_lines(const CellGroup& group, const Answer& answer,
                                      const TextStyle& style) {
  std::vector<std::string> lines{answer_sentence(group, answer, style)};
  if (const RankedCell* rescuer = answer.rescuer()) {
    lines.push_back("To set it: " + style.name(line_to_paste(rescuer->cell->key)));
  }
  if (answer.verdict == AnswerVerdict::Impossible) {
    lines.emplace_back("Live is what the program itself requests at once; rounding comes on top.");
  }
  lines.push_back(baseline_line(answer, style));
  const std::string by = fmt::format("by {}:", cost_words(answer.metric).name);
  add_ranked("Served every request, as settings of PyTorch, " + by, answer.settable, answer, style,
             &lines);
  add_ranked("Served every request, but cannot be set in PyTorch, " + by, answer.others, answer,
             style, &lines);
  if (!answer.with_oom.empty()) {
    lines.push_back((answer.baseline ? "Ran out of memory too: " : "Ran out of memory: ") +
                    list_of(answer.with_oom,
                            [&](const CellResult* cell) {
                              const std::string details = failure_details(*cell);
                              return setting_name(cell->key, style) +
                                     style.plain(": " + failure_text(*cell) +
                                                 (details.empty() ? "" : ", " + details));
                            }) +
                    ".");
  }
  if (const std::string bounds = step_bounds(group, answer); !bounds.empty()) {
    lines.push_back(bounds);
  }
  if (answer.wasteful != nullptr) lines.push_back(waste_line(answer, style));
  if (const auto headroom = headroom_line(answer, style)) lines.push_back(*headroom);
  if (const auto growth = growth_line(answer, style)) lines.push_back(*growth);
  if (!answer.not_measured.empty()) {
    lines.push_back("No numbers: " +
                    list_of(answer.not_measured,
                            [&](const CellResult* cell) {
                              const std::string& reason = cell->reason;
                              return setting_name(cell->key, style) + " (" +
                                     style.plain(std::string(to_string(cell->status)) +
                                                 (reason.empty() ? "" : ": " + reason)) +
                                     ")";
                            }) +
                    ".");
  }
  return lines;
}

std::string group_title(const CellGroup& group, const TextStyle& style) {
  const CellKey& key = group.key();
  const auto bytes = capacity_bytes(group);
  return style.name(key.workload) + ", capacity " + style.name(key.capacity) +
         (bytes ? " (" + format_bytes(*bytes) + ")" : std::string()) + ", device " +
         style.name(key.device) + fmt::format(", seed {}, on OOM ", key.seed) +
         style.plain(key.on_oom);
}

}  // namespace allocmark
