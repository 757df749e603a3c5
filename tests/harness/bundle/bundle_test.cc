// Goal: a bundle that was tampered with, cut short, mixed up or made from too little is never
// called publishable, and the rule that says so is the one it breaks. Method: a sound bundle of a
// small run, and faults planted into it one by one; most are planted by someone who then makes the
// hashes right again.
#include "harness/bundle/bundle.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/sha256.h"
#include "harness/bundle/bundle_check.h"
#include "harness/bundle/report_files.h"
#include "harness/measure/histogram.h"
#include "harness/replay/capacity.h"
#include "harness/run/conditions.h"
#include "harness/run/run_folder.h"
#include "results/cell_check.h"
#include "results/json.h"
#include "tests/catch.h"
#include "tests/support/tables.h"
#include "tests/support/temporary_folder.h"
#include "workloads/open_workload.h"
#include "workloads/trace/trace_hash.h"

namespace allocmark {
namespace {

constexpr const char* kVersion = "9.9.9 (git abc)";

LatencySummary summary_of(const Histogram& histogram) {
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
CellResult make_cell(const std::string& conf, std::uint32_t pass_count = 3,
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
  cell.requested_bytes_peak = 64 * kMiB;
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
    all.merge(one);
  }
  cell.allocate.total = cell.deallocate.total = summary_of(all);
  return cell;
}

using Cells = std::vector<CellResult>;

Cells sound_cells() { return {make_cell(""), make_cell("max_split_size_mb:128")}; }

Environment make_environment() {
  Environment environment;
  environment.allocmark_version = "9.9.9", environment.git_sha = "abc";
  environment.build_type = "Release", environment.device = "sim:h200";
  environment.argv = {"allocmark", "run"}, environment.started_utc = "2026-11-20T12:00:00Z";
  return environment;
}

void write_run(const std::string& folder, const Cells& cells,
               const Environment& environment = make_environment()) {
  RunManifest manifest;
  manifest.title = "test", manifest.pass_count = 3;
  for (const CellResult& cell : cells) manifest.cells.push_back(cell.key);
  RunFolder run = RunFolder::create(folder, manifest, environment);
  for (const CellResult& cell : cells) run.append(cell);
}

// The files of a bundle of these cells, compared with a sound run.
BundleFiles bundle_of(const Cells& cells, const Environment& environment = make_environment()) {
  const TemporaryFolder folder;
  write_run(folder.path("run"), cells, environment);
  write_run(folder.path("base"), sound_cells(), environment);
  const std::string results = read_file(results_path(folder.path("run")));
  write_file(folder.path("run/report.html"),
             "<meta name=\"allocmark-results-sha256\" content=\"" + sha256_hex(results) + "\">");
  BundleFiles files =
      collect_bundle({.run = folder.path("run"), .baseline = folder.path("base")}, kVersion);
  // The folder goes.
  for (auto& [name, text] : files) text = text.whole();
  return files;
}

TarContents sealed(const BundleFiles& files) {
  return {.files = bundle_archive(files), .folders = {}, .others = {}, .damage = {}};
}

std::set<std::string> rules_with(const BundleCheck& check, RuleOutcome outcome) {
  std::set<std::string> names;
  for (const CheckedRule& rule : check.rules) {
    if (rule.outcome == outcome) names.insert(rule.name);
  }
  return names;
}

std::set<std::string> broken(const TarContents& contents) {
  const BundleCheck check = check_bundle(contents, kVersion);
  INFO(render_check(check));
  CHECK((check.exit_code == ExitCode::Pass) == rules_with(check, RuleOutcome::Broken).empty());
  return rules_with(check, RuleOutcome::Broken);
}

using Names = std::set<std::string>;

void replace(StoredText& stored, const std::string& what, const std::string& with) {
  std::string text = stored.whole();
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  stored = text.replace(at, what.size(), with);
}

}  // namespace

TEST_CASE("SHA-256 gives the standard's examples") {
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256_hex(std::string(1'000'000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("a sound bundle keeps every rule, and the same run gives the same bytes") {
  const TemporaryFolder folder;
  const BundleFiles files = bundle_of(sound_cells());
  CHECK(broken(sealed(files)).empty());
  CHECK(rules_with(check_bundle(sealed(files), kVersion), RuleOutcome::Kept).size() == 18);
  for (const char* name : {"a.tar.zst", "a.tar.gz", "a.tar"}) {
    write_tar(folder.path(name), bundle_archive(files));
    const std::string bytes = folder.read(name);
    write_tar(folder.path(name), bundle_archive(bundle_of(sound_cells())));
    CHECK(folder.read(name) == bytes);
    const TarContents contents = read_bundle(folder.path(name));
    CHECK(contents.damage.empty());
    CHECK(broken(contents).empty());
  }
}

TEST_CASE("every rule is in the documentation with its question") {
  const std::string text = read_file("results/BUNDLES.md");
  for (const CheckedRule& rule : check_bundle({}, kVersion).rules) {
    std::string row = "| `" + rule.name + "` | " + rule.question + " |";
    INFO(row);
    CHECK(text.find(row) != std::string::npos);
  }
}

TEST_CASE("an archive that is cut short anywhere is not whole") {
  const TemporaryFolder folder;
  for (const char* name : {"a.tar.zst", "a.tar.gz", "a.tar"}) {
    write_tar(folder.path(name), bundle_archive(bundle_of(sound_cells())));
    const std::string bytes = folder.read(name);
    for (const std::size_t length : {std::size_t{0}, std::size_t{1}, bytes.size() / 3,
                                     bytes.size() / 2, bytes.size() - 1100}) {
      write_file(folder.path(name), bytes.substr(0, length));
      INFO(name << " of " << length << " bytes");
      CHECK(broken(read_bundle(folder.path(name))).count("archive-whole") == 1);
    }
  }
}

TEST_CASE("a changed header, too much to unpack and other files are refused") {
  const TemporaryFolder folder;
  write_tar(folder.path("a.tar"), bundle_archive(bundle_of(sound_cells())));
  std::string bytes = folder.read("a.tar");
  CHECK(read_tar(folder.path("a.tar"), {.size_bytes_max = 1000}).damage.find("more than") !=
        std::string::npos);
  bytes[20] = 'X';
  write_file(folder.path("a.tar"), bytes);
  CHECK(broken(read_bundle(folder.path("a.tar"))).count("archive-whole") == 1);
  CHECK_THROWS_AS(read_bundle(folder.path("nothing.tar.zst")), FileError);
  write_file(folder.path("a.zip"), bytes);
  CHECK_THROWS_AS(read_bundle(folder.path("a.zip")), UsageError);
}

TEST_CASE("a name that leads out of the bundle is never taken") {
  for (const char* name :
       {"allocmark-bundle/../x", "/etc/x", "allocmark-bundle//x", "x", "allocmark-bundle/a\\b",
        "allocmark-bundle/\x1b[31m", "allocmark-bundle/results.jsonl"}) {
    TarContents contents = sealed(bundle_of(sound_cells()));
    contents.files.push_back({name, "x"});
    INFO(name);
    CHECK(broken(contents) == Names{"names-safe"});
  }
  TarContents linked = sealed(bundle_of(sound_cells()));
  linked.others.push_back("allocmark-bundle/link");
  CHECK(broken(linked) == Names{"names-safe"});
}

TEST_CASE("missing, extra and changed files are found by their hashes") {
  const TarContents sound = sealed(bundle_of(sound_cells()));
  for (std::size_t at = 0; at < sound.files.size(); ++at) {
    TarContents contents = sound;
    contents.files.erase(contents.files.begin() + static_cast<std::ptrdiff_t>(at));
    INFO(sound.files[at].name);
    CHECK(broken(contents).count("files-complete") == 1);
    contents = sound;
    contents.files[at].text = contents.files[at].text.whole() + " ";
    const Names names = broken(contents);
    CHECK((names.count("hashes-match") == 1 || names.count("files-complete") == 1));
  }
  TarContents extra = sound;
  extra.files.push_back({"allocmark-bundle/extra.txt", "x"});
  CHECK(broken(extra) == Names{"files-known"});
  // What is read whole has a bound, so that it fits into memory.
  extra.files.back() = {"allocmark-bundle/policy.json", std::string((64U << 20) + 1, ' ')};
  CHECK(broken(extra) == Names{"files-known"});
  CHECK(render_check(check_bundle(extra, kVersion)).find("more than the 64.0 MiB") !=
        std::string::npos);
}

TEST_CASE("what was made from the raw results is made again, even where the hashes are right") {
  BundleFiles files = bundle_of(sound_cells());
  replace(files["table.csv"], "caching", "cachimg");
  CHECK(broken(sealed(files)) == Names{"tables-recomputed"});
  files = bundle_of(sound_cells());
  replace(files["report.md"], "caching", "cachimg");
  CHECK(broken(sealed(files)) == Names{"tables-recomputed"});
  files = bundle_of(sound_cells());
  replace(files[kBundleComparison], "\"passed\": true", "\"passed\": false");
  CHECK(broken(sealed(files)) == Names{"verdicts-recomputed"});
  files = bundle_of(sound_cells());
  files["policy.json"] = "{\"effect_min\": -1}";
  CHECK(broken(sealed(files)) == Names{"verdicts-recomputed"});
  files = bundle_of(sound_cells());
  replace(files["report.html"], "content=\"", "content=\"0");
  CHECK(broken(sealed(files)) == Names{"page-of-results"});
  files = bundle_of(sound_cells());
  replace(files[kBundleManifest], "00000000000000aa", "00000000000000ab");
  CHECK(broken(sealed(files)) == Names{"texts-unchanged", "work-same"});
}

TEST_CASE("a table of another version is not called wrong, and not right either") {
  BundleFiles files = bundle_of(sound_cells());
  files["table.txt"] = files["table.txt"].whole() + "made with another layout\n";
  const BundleCheck check = check_bundle(sealed(files), "10.0.0");
  CHECK(rules_with(check, RuleOutcome::Broken).empty());
  CHECK(rules_with(check, RuleOutcome::NotChecked) == Names{"tables-recomputed"});
  CHECK(check.exit_code == ExitCode::CellsIncomplete);
  CHECK(check_bundle(sealed(bundle_of(sound_cells())), "10.0.0").exit_code == ExitCode::Pass);
}

TEST_CASE(
    "raw results that are no results, or are cut short, break their rule and stop those that need "
    "them") {
  for (const char* text : {"", "{", "null\n", "[1]\n{}\n", "{\"kind\":\"environment\"}\n"}) {
    BundleFiles files = bundle_of(sound_cells());
    files["results.jsonl"] = text;
    const BundleCheck check = check_bundle(sealed(files), kVersion);
    INFO(text << "\n" << render_check(check));
    CHECK(rules_with(check, RuleOutcome::Broken).count("results-whole") == 1);
    CHECK(rules_with(check, RuleOutcome::NotChecked).count("cells-consistent") == 1);
  }
  BundleFiles files = bundle_of(sound_cells());
  files["results.jsonl"] =
      files["results.jsonl"].whole().substr(0, files["results.jsonl"].size_bytes() - 40);
  CHECK(broken(sealed(files)).count("results-whole") == 1);
  files = bundle_of(sound_cells());
  files["plan.json"] = "{}";
  CHECK(rules_with(check_bundle(sealed(files), kVersion), RuleOutcome::NotChecked)
            .count("plan-kept") == 1);
}

TEST_CASE("a workload that can be made again must give the same events") {
  const std::string comb = "comb:size_bytes=2MiB,count=8,ask_bytes=16MiB";
  const std::string hash = fmt::format("{:016x}", trace_hash(*open_workload(comb, 1)));
  const auto checked = [](const std::string& workload, const std::string& trace_hash_text) {
    Cells cells = sound_cells();
    for (CellResult& cell : cells) {
      cell.key.workload = workload, cell.trace_hash = trace_hash_text;
    }
    return check_bundle(sealed(bundle_of(cells)), kVersion);
  };
  CHECK(rules_with(checked(comb, hash), RuleOutcome::Broken).empty());
  CHECK(rules_with(checked(comb, hash), RuleOutcome::NotChecked).empty());
  CHECK(rules_with(checked(comb, "00000000000000aa"), RuleOutcome::Broken) ==
        Names{"traces-regenerated"});
  CHECK(rules_with(checked("no_such_workload", hash), RuleOutcome::NotChecked) ==
        Names{"traces-regenerated"});
}

TEST_CASE("a run that is still being written is not bundled") {
  const TemporaryFolder folder;
  write_run(folder.path("run"), sound_cells());
  std::string text = read_file(results_path(folder.path("run")));
  write_file(results_path(folder.path("run")), text.substr(0, text.size() - 30));
  CHECK_THROWS_AS(collect_bundle({.run = folder.path("run")}, kVersion), UsageError);
  CHECK_THROWS_AS(collect_bundle({.run = folder.path("none")}, kVersion), FileError);
}

TEST_CASE("a plan that is not the run's is found") {
  const auto plan_with = [](const std::function<void(RunManifest&)>& change) {
    BundleFiles files = bundle_of(sound_cells());
    RunManifest manifest = manifest_from_json(files["plan.json"].whole(), "plan.json");
    change(manifest);
    files["plan.json"] = to_json(manifest);
    // The comparison rests on the plan, too, and is made again.
    files[kBundleComparison] = bundle_comparison(files);
    return broken(sealed(files));
  };
  CHECK(plan_with([](RunManifest&) {}).empty());
  CHECK(plan_with([](RunManifest& plan) { plan.cells.pop_back(); }) == Names{"plan-kept"});
  CHECK(plan_with([](RunManifest& plan) { plan.pass_count = 30; }) == Names{"plan-kept"});
  CHECK(plan_with([](RunManifest& plan) { plan.pass_count = 2; }) == Names{"plan-kept"});
  // Passes until an interval is narrow: from the plan's number up to its largest.
  const auto until_width = [&](std::uint32_t most) {
    return plan_with([most](RunManifest& plan) {
      plan.width_max = 0.05, plan.pass_count = 2, plan.pass_count_max = most;
    });
  };
  CHECK(until_width(40).empty());
  CHECK(until_width(2) == Names{"plan-kept"});
  CHECK(plan_with([](RunManifest& plan) { plan.cells.push_back(make_cell("x").key); }) ==
        Names{"plan-complete"});
}

TEST_CASE("cells without numbers, other work, too few samples and unfit builds are found") {
  Cells cells = sound_cells();
  CellResult crashed;
  crashed.key = cells[1].key;
  crashed.status = CellStatus::Crashed, crashed.reason = "signal 11";
  cells[1] = crashed;
  CHECK(broken(sealed(bundle_of(cells))) == Names{"plan-complete"});
  cells = sound_cells();
  cells[1].trace_hash = "00000000000000ab";
  CHECK(broken(sealed(bundle_of(cells))) == Names{"work-same"});
  cells = {make_cell("", 1)};
  CHECK(broken(sealed(bundle_of(cells))) == Names{"plan-kept", "samples-enough"});
  cells = sound_cells();
  cells[0].capacity_bytes += 1;
  CHECK(broken(sealed(bundle_of(cells))) == Names{"cells-consistent"});
  Environment environment = make_environment();
  environment.build_type = "Debug";
  CHECK(broken(sealed(bundle_of(sound_cells(), environment))) == Names{"environment-fit"});
  environment = make_environment();
  environment.warnings = {"this is a build with sanitizers; its latencies mean nothing"};
  CHECK(broken(sealed(bundle_of(sound_cells(), environment))) == Names{"environment-fit"});
}

TEST_CASE("a busy machine whose passes differed makes a run that cannot be published") {
  // What a run on a machine with other work on it stores.
  const Conditions busy =
      conditions_between({.wall_s = 0, .busy_cpu_s = 0.0}, {.wall_s = 10, .busy_cpu_s = 12.0}, 2);
  const Conditions quiet =
      conditions_between({.wall_s = 0, .busy_cpu_s = 0.0}, {.wall_s = 10, .busy_cpu_s = 1.0}, 2);
  REQUIRE(busy.warnings.size() == 1);
  REQUIRE(quiet.warnings.empty());
  Environment environment = make_environment();
  environment.cpu_count = 2;
  Cells differing = sound_cells();
  differing[1] = make_cell("max_split_size_mb:128", 3, 20'000);
  const auto check = [&](const Cells& cells, const std::string& conditions) {
    BundleFiles files = bundle_of(cells, environment);
    files["conditions.json"] = conditions;
    // What the conditions say stands in the tables as well, and the comparison rests on them.
    const RunFile run = bundled_run(files, "");
    std::map<std::string, std::string> made;
    make_report_files(run.environment, run.cells, cells_in_memory(run.cells),
                      [&](const std::string& name) -> TextSink {
                        return [text = &made[name]](std::string_view piece) { *text += piece; };
                      });
    for (const auto& [name, text] : made) files[name] = text;
    files[kBundleComparison] = bundle_comparison(files);
    return check_bundle(sealed(files), kVersion);
  };
  const auto says = [](const BundleCheck& result, const std::string& text) {
    return render_check(result).find(text) != std::string::npos;
  };
  const BundleCheck broken_one = check(differing, to_json(busy));
  INFO(render_check(broken_one));
  CHECK(rules_with(broken_one, RuleOutcome::Broken) == Names{"machine-quiet"});
  CHECK(broken_one.exit_code == ExitCode::Regression);
  CHECK(says(broken_one, "passes differ in 1 of 2 cells"));
  // Either alone is a reservation.
  const BundleCheck busy_one = check(sound_cells(), to_json(busy));
  CHECK(busy_one.exit_code == ExitCode::Pass);
  CHECK(says(busy_one, "reservation: other programs kept 1.2 of 2 processors busy"));
  CHECK(says(busy_one, "can be published with "));
  const BundleCheck differing_one = check(differing, to_json(quiet));
  CHECK(differing_one.exit_code == ExitCode::Pass);
  CHECK(says(differing_one, "reservation: 1 of 2 cells have passes that differ"));
  const BundleCheck quiet_one = check(sound_cells(), to_json(quiet));
  CHECK(quiet_one.exit_code == ExitCode::Pass);
  CHECK_FALSE(says(quiet_one, "processors busy"));
  // The warning taken out, the numbers left in.
  Conditions silent = busy;
  silent.warnings.clear();
  CHECK(rules_with(check(sound_cells(), to_json(silent)), RuleOutcome::Broken) ==
        Names{"machine-quiet"});
}

TEST_CASE("passes differ where more than a quarter lie far from their median") {
  CellResult cell = make_cell("");
  CHECK(differing_passes(cell).empty());
  cell.passes[2].allocate_p50_ns *= 1.09;
  CHECK(differing_passes(cell).empty());
  cell.passes[2].allocate_p50_ns *= 1.09;
  REQUIRE(differing_passes(cell).size() == 1);
  CHECK(differing_passes(cell)[0] ==
        "allocate P50: 1 of 3 passes lie more than 10 % from their median");
  cell.passes.push_back(cell.passes[0]);
  CHECK(differing_passes(cell).empty());
}

TEST_CASE(
    "a number that was edited contradicts the others, though everything was made again from it") {
  const std::vector<std::function<void(CellResult&)>> edits = {
      [](CellResult& cell) { cell.allocate.total.p50_ns *= 0.95; },
      [](CellResult& cell) { cell.allocate.total.p99_ns *= 0.95; },
      [](CellResult& cell) { cell.deallocate.total.p999_ns *= 0.95; },
      [](CellResult& cell) { cell.allocate.total.mean_ns *= 0.95; },
      [](CellResult& cell) { cell.allocate.total.max_ns *= 0.9; },
      [](CellResult& cell) { cell.allocate.total.count -= 1; },
      [](CellResult& cell) { cell.passes[1].allocate_p50_ns *= 0.95; },
      [](CellResult& cell) { cell.passes[2].allocate_p99_ns *= 1.05; },
      [](CellResult& cell) { cell.passes[0].allocate_buckets[3].count += 1; },
      [](CellResult& cell) { cell.allocate.host = {.count = 9, .p50_ns = 2, .p90_ns = 1}; },
      [](CellResult& cell) { cell.oom_count = 4; },
      [](CellResult& cell) { cell.oom_cause_counts[1] = 1; },
      [](CellResult& cell) { cell.oom_first = OomEvent{}; },
      [](CellResult& cell) { cell.allocated_bytes_peak = 70 * kMiB; },
      [](CellResult& cell) { cell.reserved_bytes_peak = 20 * kMiB; },
      [](CellResult& cell) { cell.trial_count = 2; },
      [](CellResult& cell) { cell.trial_oom_count = 4; },
      [](CellResult& cell) { cell.allocate_count = 3000; },
      [](CellResult& cell) { cell.passes.pop_back(); },
      [](CellResult& cell) { cell.size_classes.emplace_back(); },
      [](CellResult& cell) { cell.status = CellStatus::OomStopped; },
      [](CellResult& cell) { cell.status = CellStatus::Skipped; },
  };
  CHECK(contradictions(make_cell("")).empty());
  for (std::size_t at = 0; at < edits.size(); ++at) {
    CellResult cell = make_cell("");
    edits[at](cell);
    INFO("edit " << at);
    CHECK(!contradictions(cell).empty());
  }
  Cells cells = sound_cells();
  edits[0](cells[0]);
  CHECK(broken(sealed(bundle_of(cells))) == Names{"cells-consistent"});
}

TEST_CASE("a quantile says how many passes would give it the samples") {
  CellResult cell = make_cell("");
  CHECK(missing_samples(cell).empty());
  cell.allocate.total.count = 300;
  CHECK(missing_samples(cell).empty());
  const std::vector<std::string> marked = marked_quantiles(cell);
  REQUIRE(marked.size() == 1);
  CHECK(marked[0] == "P99 of allocate rests on 300 samples, 1000 are needed (--passes 10)");
  cell.deallocate.total.count = 9;
  const std::vector<std::string> missing = missing_samples(cell);
  REQUIRE(missing.size() == 1);
  CHECK(missing[0] == "P50 of deallocate rests on 9 samples, 20 are needed (--passes 7)");
}

}  // namespace allocmark
