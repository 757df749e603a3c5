// A small sound run, the bundle that is made of it, and which rules a check of it finds broken:
// what the tests of bundles plant their faults into.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/sha256.h"
#include "harness/core/measure/histogram.h"
#include "harness/core/replay/capacity.h"
#include "harness/core/run/run_folder.h"
#include "harness/shell/pages/report_files.h"
#include "harness/tools/bundle/bundle.h"
#include "harness/tools/bundle/bundle_check.h"
#include "results/compare/repeat.h"
#include "tests/catch.h"
#include "tests/support/tables.h"
#include "tests/support/temporary_folder.h"

namespace allocmark::sound_bundle {

inline constexpr const char* kVersion = "9.9.9 (git abc)";

inline LatencySummary summary_of(const Histogram& histogram) {
  const auto quantile = [&](double q) { return static_cast<double>(histogram.quantile(q)) / 1e3; };
  return {.count = histogram.count(),
          .p50_ns = quantile(0.5),
          .p90_ns = quantile(0.9),
          .p99_ns = quantile(0.99),
          .p999_ns = quantile(0.999),
          .max_ns = quantile(1),
          .mean_ns =
              static_cast<double>(histogram.sum()) / static_cast<double>(histogram.count()) / 1e3};
}

// A cell whose numbers belong together; latencies differ from call to call and from pass to pass.
inline CellResult make_cell(const std::string& conf, std::uint32_t pass_count = 3,
                            std::uint64_t pass_step_ps = 100) {
  CellResult cell;
  cell.key = {.workload = "file:w.csv",
              .allocator = "caching",
              .conf = conf,
              .device = "sim:h200",
              .capacity = "2x",
              .seed = 1,
              .on_oom = "skip"};
  cell.trace_name = "w", cell.trace_hash = "00000000000000aa", cell.placement_hash = "bb";
  cell.event_count = 4000, cell.allocate_count = 2000, cell.deallocate_count = 2000;
  cell.requested_bytes_peak = cell.rounded_bytes_peak.emplace(64 * kMiB);
  cell.capacity_bytes = parse_capacity("2x").resolve_bytes(cell.requested_bytes_peak);
  cell.allocated_bytes_peak = 65 * kMiB, cell.active_bytes_peak = 66 * kMiB;
  cell.reserved_bytes_peak = 80 * kMiB, cell.device_bytes_peak = 80 * kMiB;
  cell.pass_count = pass_count, cell.trial_count = pass_count;
  Histogram all;
  for (std::uint32_t pass = 0; pass < pass_count; ++pass) {
    Histogram one;
    for (std::uint64_t i = 0; i < 2000; ++i) one.add(40000 + pass * pass_step_ps + i * i / 10);
    const LatencySummary summary = summary_of(one);
    cell.passes.push_back({.allocate_p50_ns = summary.p50_ns,
                           .allocate_p99_ns = summary.p99_ns,
                           .deallocate_p50_ns = summary.p50_ns,
                           .wall_ns = 1e6,
                           .allocate_buckets = one.buckets(),
                           .deallocate_buckets = one.buckets()});
    cell.passes.back().host_reference_ns = 1e3;
    all.merge(one);
  }
  cell.allocate.total = cell.deallocate.total = summary_of(all);
  cell.host_scale = 1;
  cell.scaled.allocate_p50_ns = cell.scaled.deallocate_p50_ns = cell.allocate.total.p50_ns;
  cell.size_classes = {
      {.size_class = "<=512B", .allocate = cell.allocate, .deallocate = cell.deallocate}};
  state_repeat(cell, {});
  return cell;
}

using Cells = std::vector<CellResult>;

inline Cells sound_cells() { return {make_cell(""), make_cell("max_split_size_mb:128")}; }

inline Environment make_environment() {
  Environment environment;
  environment.allocmark_version = "9.9.9", environment.git_sha = "abc";
  environment.build_type = "Release", environment.device = "sim:h200";
  environment.argv = {"allocmark", "run"}, environment.started_utc = "2026-11-20T12:00:00Z";
  return environment;
}

inline void write_run(const std::string& folder, const Cells& cells,
                      const Environment& environment = make_environment()) {
  RunManifest manifest;
  manifest.title = "test", manifest.pass_count = 3;
  for (const CellResult& cell : cells) manifest.cells.push_back(cell.key);
  RunFolder run = RunFolder::create(folder, manifest, environment);
  for (const CellResult& cell : cells) run.append(cell);
}

// A run, and the one that it is compared with.
struct Published {
  Cells cells = sound_cells();
  Environment environment = make_environment();
  Cells base_cells = sound_cells();
  Environment base_environment = make_environment();
};

inline BundleFiles bundle_of(const Published& runs) {
  const TemporaryFolder folder;
  write_run(folder.path("run"), runs.cells, runs.environment);
  write_run(folder.path("base"), runs.base_cells, runs.base_environment);
  const std::string results = read_file(results_path(folder.path("run")));
  write_file(folder.path("run/report.html"),
             "<meta name=\"allocmark-results-sha256\" content=\"" + sha256_hex(results) + "\">");
  BundleFiles files =
      collect_bundle({.run = folder.path("run"), .baseline = folder.path("base")}, kVersion);
  // The folder goes.
  for (auto& [name, text] : files) text = text.whole();
  return files;
}

// The files of a bundle of these cells, compared with a sound run.
inline BundleFiles bundle_of(const Cells& cells,
                             const Environment& environment = make_environment()) {
  return bundle_of(
      Published{.cells = cells, .environment = environment, .base_environment = environment});
}

inline TarContents sealed(const BundleFiles& files) {
  return {.files = bundle_archive(files), .folders = {}, .others = {}, .damage = {}};
}

inline std::set<std::string> rules_with(const BundleCheck& check, RuleOutcome outcome) {
  std::set<std::string> names;
  for (const CheckedRule& rule : check.rules) {
    if (rule.outcome == outcome) names.insert(rule.name);
  }
  return names;
}

inline std::set<std::string> broken(const TarContents& contents) {
  const BundleCheck check = check_bundle(contents, kVersion);
  INFO(render_check(check));
  CHECK((check.exit_code == ExitCode::Pass) == rules_with(check, RuleOutcome::Broken).empty());
  return rules_with(check, RuleOutcome::Broken);
}

using Names = std::set<std::string>;

inline void replace(StoredText& stored, const std::string& what, const std::string& with) {
  std::string text = stored.whole();
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  stored = text.replace(at, what.size(), with);
}

}  // namespace allocmark::sound_bundle
