// 'allocmark fit W': the least memory that a job needs with each setting, from passes without a
// clock.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/json_text.h"
#include "base/own_process.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/run/environment.h"
#include "harness/core/run/run.h"
#include "harness/core/search/advice.h"
#include "harness/core/search/grid.h"
#include "harness/core/search/search_process.h"
#include "harness/core/search/search_progress.h"
#include "harness/core/search/target.h"
#include "harness/core/search/variants.h"
#include "harness/job/interrupt.h"
#include "harness/shell/pages/run_output.h"
#include "harness/shell/question/advise_keys.h"
#include "harness/shell/question/card_choice.h"
#include "harness/shell/question/job_options.h"
#include "harness/shell/question/job_release.h"
#include "harness/shell/registry.h"

namespace allocmark {
namespace {

// Passes that settle capacities above a setting's least one, where --exact does not ask for all.
constexpr std::uint32_t kSettleCountMax = 16;

constexpr const char* kFitFooter =
    "\nThe least memory is the least from which every larger amount serves all requests. Each pass "
    "settles a range of\namounts, because an allocator learns of its memory only by refusals. '?' "
    "marks amounts above the least that no pass\nsettled; --exact settles all. On top comes "
    "what lies outside: the CUDA context, kernels\nand libraries. The smallest card has room for "
    "them, up to 1.8 GiB where nobody measured it.\n"
    "\nExamples:\n"
    "  allocmark fit gpt2_train_amp\n"
    "  allocmark fit my_job.csv.gz --exact --conf unset expandable_segments:True\n"
    "  allocmark fit train:gpt2-124m,batch=2,lengths=conv --seeds 4\n";

struct FitCommand {
  JobOptions job;
  bool exact = false;
};

void add_fit(CLI::App* app, FitCommand* command) {
  add_job_options(app, &command->job);
  app->add_flag("--exact", command->exact, "Settle every amount of memory above the least");
  app->footer(kFitFooter);
}

struct Fit {
  SearchResult own;
  std::vector<VariantSearch> others;  // other seeds, the longest lengths
  JobRelease release;
  // What is said below the table: which card is enough.
  std::string workload;              // on the device's card
  std::vector<CardRoom> rooms = {};  // the smallest first
  std::optional<TargetQuestion> question = std::nullopt;
  std::optional<TargetAnswer> target = std::nullopt;
};

void choose_cards(const JobOptions& job, Fit* fit) {
  fit->rooms = cards_of_job(workload_of(job.workload), fit->workload, job.seed);
  if (job.target.empty()) return;
  const DeviceAnswer device = describe_device(job.device, own_program_path());
  fit->question = {.workload = fit->workload,
                   .typed = workload_of(job.workload),
                   .seed = job.seed,
                   .target_ns = parse_target(job.target, "--target"),
                   .gpu_name = device.facts.gpu_name,
                   .needed_bytes = least_need(fit->own)};
  fit->target = answer_target(*fit->question, fit->rooms, {});
}

// What was not looked for is null, not 0.
void print_json(const Fit& fit, const JobOptions& job) {
  nlohmann::ordered_json json = to_told_json(fit.own, false);
  json["trace_hash"] = fmt::format("{:016x}", fit.own.trace_hash);
  json["release"] = {{"name", fit.release.rules->name()}, {"basis", fit.release.basis}};
  json["without"] = job.without;
  json["variants"] = variants_json(fit.others);
  json["smallest_card"] = smallest_card_json(fit.own, fit.rooms);
  if (fit.target) json["target"] = target_json(*fit.target);
  fmt::print("{}\n", json_text(json, 1));
}

std::vector<const SettingFacts*> least_first(const SearchResult& result) {
  std::vector<const SettingFacts*> order;
  for (const SettingFacts& facts : result.settings) order.push_back(&facts);
  std::ranges::stable_sort(order, {}, [](const SettingFacts* facts) {
    return facts->least_bytes.value_or(~std::uint64_t{0});
  });
  return order;
}

// "20.7 to 22.5 GiB" over some variants; empty where the setting was not asked about them.
std::string range_of(const std::string& conf, std::span<const VariantSearch> variants) {
  const LeastSpread spread = least_spread(conf, {}, 0, variants);
  if (spread.variant_count == 0) return "";
  const std::string low = spread.low_bytes ? format_bytes(*spread.low_bytes) : "";
  const std::string high = spread.high_bytes ? format_bytes(*spread.high_bytes) : "more";
  return low.empty() || low == high ? high : low + " to " + high;
}

void print_table(const Fit& fit, const JobOptions& job) {
  const SearchResult& result = fit.own;
  std::vector<VariantSearch> seeds{{.variant = {}, .search = fit.own}}, worst;
  for (const VariantSearch& one : fit.others) {
    (one.variant.is_worst ? worst : seeds).push_back(one);
  }
  TableRows rows{{"setting", "needs", "above live"}};
  if (seeds.size() > 1) rows.front().push_back(fmt::format("over {} seeds", seeds.size()));
  if (!worst.empty()) rows.front().emplace_back("longest lengths");
  rows.front().emplace_back("passes");
  const std::vector<const SettingFacts*> order = least_first(result);
  for (const SettingFacts* facts : order) {
    const std::uint64_t least_bytes = facts->least_bytes.value_or(0);
    const bool known = least_bytes >= result.needed_bytes && facts->least_bytes;
    rows.push_back({setting_text(facts->conf), least_text(*facts, result),
                    known ? format_bytes(least_bytes - result.needed_bytes) : ""});
    if (seeds.size() > 1) rows.back().push_back(range_of(facts->conf, seeds));
    if (!worst.empty()) rows.back().push_back(range_of(facts->conf, worst));
    rows.back().push_back(std::to_string(facts->pass_count));
  }
  print_paragraph(job, needs_sentence(result));
  print_rows(job, rows);
  for (const SettingFacts* facts : order) {
    if (!facts->serves_below_bytes) continue;
    print_paragraph(
        job, fmt::format("{} is not monotone: {} would serve as well, though a larger "
                         "amount fails.",
                         setting_text(facts->conf), format_bytes(*facts->serves_below_bytes)));
  }
  print_paragraph(job, smallest_card_text(result, fit.rooms));
  print_presets(fit.workload, stdout);
  if (fit.target) {
    for (const std::string& line : target_lines(*fit.target, *fit.question)) {
      print_paragraph(job, line);
    }
  }
  print_paragraph(job, left_out_text(job, result.forbids));
  print_paragraph(job, fmt::format("PyTorch {}'s allocator, {}.", fit.release.rules->name(),
                                   fit.release.basis));
}

// All settings over the seeds that were asked for; the worst case of unset and of the leanest where
// none were.
std::vector<VariantSearch> search_others(const FitCommand& command, SearchSpec spec,
                                         const SearchPlace& place, const SearchResult& own) {
  const std::uint32_t seed_count = std::max<std::uint32_t>(command.job.seed_count, 1);
  std::vector<JobVariant> variants = other_variants(spec.workload, command.job.seed, seed_count);
  if (variants.empty()) return {};
  if (command.job.seed_count == 0) {
    const std::string leanest = least_first(own).front()->conf;
    std::erase_if(spec.confs,
                  [&](const std::string& conf) { return !conf.empty() && conf != leanest; });
  }
  SearchProgress progress("other seeds and lengths", variants.size() * spec.confs.size());
  std::vector<VariantSearch> others;
  for (JobVariant& variant : variants) {
    spec.workload = variant.workload;
    spec.seed = variant.seed;
    SearchResult found = run_search(spec, place, [&] { progress.add(1); });
    if (place.interrupt->requested()) break;
    others.push_back({.variant = std::move(variant), .search = std::move(found)});
  }
  return distinct_searches(own, std::move(others));
}

ExitCode run_fit(const FitCommand& command) {
  const JobOptions& job = command.job;
  check_device(job.device);
  check_without(job);
  if (!is_simulated(job.device)) {
    throw UsageError({.what = "the least memory is searched on a simulated device",
                      .where = "--device " + job.device,
                      .wanted = "sim:CARD, or sim:h200,memory=24GiB",
                      .got = job.device,
                      .next = "leave --device away"});
  }
  const InterruptGuard interrupt;
  const SearchPlace place{.device = job.device,
                          .program_path = own_program_path(),
                          .process_count = default_job_count(job.device),
                          .interrupt = &interrupt};
  if (!job.target.empty()) (void)parse_target(job.target, "--target");
  Fit fit;
  fit.workload = placed_workload(job, job.device, "");
  SearchSpec spec{.workload = fit.workload,
                  .seed = job.seed,
                  .finds_least = false,
                  .settle_count_max = command.exact ? 0 : kSettleCountMax};
  const SearchResult head = run_search(spec, place);
  fit.release = find_release(
      {.given = job.pytorch, .workload = workload_of(job.workload), .recorded = head.pytorch});
  spec.finds_least = true;
  spec.allocator = allocator_of(fit.release);
  spec.confs = job.confs.empty() ? allowed_settings(single_settings(*fit.release.rules), job,
                                                    fit.release, head.forbids)
                                 : given_confs(job, spec.allocator);
  {
    SearchProgress progress(fmt::format("searching {} settings", spec.confs.size()),
                            spec.confs.size());
    fit.own = run_search(spec, place, [&] { progress.add(1); });
  }
  const std::size_t done_count = fit.own.settings.size();
  if (!interrupt.requested() && done_count > 0) {
    fit.others = search_others(command, spec, place, fit.own);
  }
  if (done_count > 0) choose_cards(job, &fit);
  print_search_notes(fit.own);
  if (interrupt.requested()) {
    fmt::print(stderr, "interrupted: {} of {} settings were searched\n", done_count,
               spec.confs.size());
  }
  if (done_count > 0) job.format == "json" ? print_json(fit, job) : print_table(fit, job);
  return interrupt.requested() ? ExitCode::CellsIncomplete : ExitCode::Pass;
}

}  // namespace

extern const CommandEntry kFitCommand;
constinit const CommandEntry kFitCommand{
    "fit", "Find the least memory that a job needs with each setting",
    [](CLI::App* app) { return bind_command(app, add_fit, run_fit); }};

}  // namespace allocmark
