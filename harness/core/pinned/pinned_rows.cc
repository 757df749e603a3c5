// See pinned_rows.h.
#include "harness/core/pinned/pinned_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "allocators/caching/config.h"
#include "allocators/caching/explain.h"
#include "base/bytes.h"
#include "harness/core/pinned/pool_replay.h"

namespace allocmark {
namespace {

using caching::Rules;
using host_caching::PinKind;

PinnedRow row_of(const PinnedProgram& program, const Rules& rules, const std::string& conf) {
  PinnedRow row{
      .releases = {&rules}, .conf = conf, .refused = {}, .settings = {}, .use = {}, .dangers = {}};
  const caching::StrictConfig config = caching::parse_strict(conf, rules);
  if (config.error) {
    row.refused = to_string(*config.error);
    return row;
  }
  row.settings = config.settings;
  row.use = replay_cached(program, config.settings);
  row.dangers = caching::conf_dangers(conf, rules);
  return row;
}

// Adds the row, or its release to the last one where that says the same.
void append(std::vector<PinnedRow>* rows, PinnedRow row) {
  if (!rows->empty()) {
    PinnedRow& last = rows->back();
    if (last.conf == row.conf && last.refused.empty() == row.refused.empty() &&
        last.use == row.use && last.dangers == row.dangers) {
      last.releases.push_back(row.releases.front());
      return;
    }
  }
  rows->push_back(std::move(row));
}

bool stops_rounding(const Rules& rules) {
  return caching::find_config_key("pinned_max_round_threshold_mb")->known_to(rules);
}

// Above `megabytes` nothing is rounded, safely; only where stops_rounding().
std::string unrounded_conf(const Rules& rules, std::uint64_t megabytes) {
  std::string conf = fmt::format("pinned_max_round_threshold_mb:{}", megabytes);
  if (rules.overflows_pinned) conf += fmt::format(",pinned_max_cached_size_mb:{}", megabytes);
  return conf;
}

std::vector<std::string> candidates(const PinnedProgram& program, const Rules& rules) {
  std::vector<std::string> confs = {
      "pinned_use_background_threads:True", "pinned_use_cuda_host_register:True",
      "pinned_use_cuda_host_register:True,pinned_num_register_threads:8",
      fmt::format("pinned_reserve_segment_size_mb:{}",
                  std::max<std::uint64_t>(1, (program.asked_bytes_peak + kMiB - 1) / kMiB))};
  for (const std::uint64_t megabytes : {1u, 16u, 128u, 1024u}) {
    confs.push_back(unrounded_conf(rules, megabytes));
    confs.push_back(fmt::format("pinned_max_cached_size_mb:{}", megabytes));
  }
  std::erase_if(confs, [&](const std::string& conf) {
    return caching::parse_strict(conf, rules).error.has_value() ||
           !caching::conf_dangers(conf, rules).empty();
  });
  return confs;
}

bool is_within_hundredth(std::uint64_t bytes, std::uint64_t least_bytes) {
  return bytes - least_bytes <= least_bytes / 100;
}

}  // namespace

std::vector<PinnedRow> pinned_rows(const PinnedProgram& program,
                                   const std::vector<const Rules*>& releases,
                                   const std::string& conf) {
  std::vector<PinnedRow> rows;
  for (const Rules* rules : releases) append(&rows, row_of(program, *rules, conf));
  if (!conf.empty()) {
    for (const Rules* rules : releases) append(&rows, row_of(program, *rules, ""));
  }
  for (const Rules* rules : releases) {
    if (!stops_rounding(*rules)) continue;
    const std::string exact = unrounded_conf(*rules, 1);
    if (exact != conf) append(&rows, row_of(program, *rules, exact));
  }
  return rows;
}

std::vector<ExactRow> exact_rows(const PinnedProgram& program) {
  return {{"cudaHostAlloc, cudaMallocHost", replay_exact(program, PinKind::HostAlloc)},
          {"mmap + cudaHostRegister", replay_exact(program, PinKind::HostRegister)}};
}

std::vector<OtherRow> other_rows(const PinnedProgram& program) {
  std::vector<OtherRow> rows = {
      {.pool = "CuPy PinnedMemoryPool", .conf = {}, .use = replay_cupy(program)}};
  for (const bool keeps_all : {false, true}) {
    const auto use =
        replay_pool(program, keeps_all ? std::numeric_limits<std::uint64_t>::max() : 0);
    if (!use) continue;
    rows.push_back({.pool = "cudaMallocFromPoolAsync",
                    .conf = keeps_all ? "release_threshold_mb:max" : "release_threshold_mb:0",
                    .use = *use});
  }
  return rows;
}

PinnedAdvice advise_pinned(const PinnedProgram& program, const Rules& rules) {
  PinnedAdvice advice{.rules = &rules,
                      .rows = {},
                      .unset = row_of(program, rules, ""),
                      .exact = exact_rows(program)};
  advice.rows.push_back(advice.unset);
  for (const std::string& conf : candidates(program, rules))
    advice.rows.push_back(row_of(program, rules, conf));
  const auto least = std::ranges::min(advice.rows, {}, [](const PinnedRow& row) {
                       return row.use.pinned_bytes_peak;
                     }).use.pinned_bytes_peak;
  std::ranges::stable_sort(advice.rows, {}, [&](const PinnedRow& row) {
    const bool is_least = is_within_hundredth(row.use.pinned_bytes_peak, least);
    return std::pair(is_least ? least : row.use.pinned_bytes_peak, row.use.pinning_ns);
  });
  const auto unset =
      std::ranges::find_if(advice.rows, [](const PinnedRow& row) { return row.conf.empty(); });
  if (is_within_hundredth(unset->use.pinned_bytes_peak, least))
    std::rotate(advice.rows.begin(), unset, unset + 1);
  return advice;
}

std::string verdict_text(const PinnedProgram& program, const PinnedAdvice& advice) {
  const PinnedRow& best = advice.rows.front();
  const std::uint64_t unset_bytes = advice.unset.use.pinned_bytes_peak;
  const std::uint64_t best_bytes = best.use.pinned_bytes_peak;
  const std::uint64_t asked_bytes = program.asked_bytes_peak;
  const std::string name = advice.rules->name();
  if (is_within_hundredth(unset_bytes, std::min(unset_bytes, asked_bytes)))
    return fmt::format(
        "PyTorch {} wastes nothing with the setting unset: {} asked on the host, {} pinned", name,
        format_bytes(asked_bytes), format_bytes(unset_bytes));
  if (is_within_hundredth(unset_bytes, best_bytes))
    return fmt::format(
        "no setting of PyTorch {} pins less than unset: {} asked on the host, {} pinned. Exact "
        "pinning takes {}{}",
        name, format_bytes(asked_bytes), format_bytes(unset_bytes),
        format_bytes(advice.exact.front().use.pinned_bytes_peak),
        stops_rounding(*advice.rules) ? "" : "; 2.13 and later have keys that stop the rounding");
  return fmt::format(
      "{} pins least in PyTorch {}: {} instead of {} ({} asked), {} less; pinning "
      "takes {:.2g} s instead of {:.2g} s",
      best.conf, name, format_bytes(best_bytes), format_bytes(unset_bytes),
      format_bytes(asked_bytes), format_bytes(unset_bytes - best_bytes),
      static_cast<double>(best.use.pinning_ns) / 1e9,
      static_cast<double>(advice.unset.use.pinning_ns) / 1e9);
}

}  // namespace allocmark
