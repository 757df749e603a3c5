#include "harness/tools/advise/advise_search.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/own_process.h"
#include "harness/core/run/run.h"
#include "harness/core/search/advice.h"
#include "harness/core/search/grid.h"
#include "harness/core/search/search_process.h"
#include "harness/core/search/search_progress.h"
#include "harness/shell/question/advise_keys.h"

namespace allocmark {
namespace {

// What a setting costs at one capacity, and to find its least one: passes over the whole trace, of
// which a typical bisection makes so many. Others end at their first failure.
constexpr std::uint64_t kCapacityUnits = 2;
constexpr std::uint64_t kLeastUnits = 5;
constexpr std::uint32_t kSeedCountPreset = 3;
// Settings beside unset that are asked about every variant.
constexpr std::size_t kShortlistMax = 5;

struct Searcher {
  SearchPlace place, roomy;  // the card, and a device that is large enough to find least amounts
  const Framework* framework = nullptr;  // null: PyTorch

  SearchResult run(const SearchSpec& spec, const SearchPlace& where,
                   const std::function<void()>& on_setting) const {
    return framework == nullptr ? run_search(spec, where, on_setting)
                                : run_framework_search(*framework, spec, where, on_setting);
  }

  // At the capacity, and the least amounts.
  SearchResult both(SearchSpec spec, SearchProgress* progress) const {
    spec.finds_least = false;
    SearchResult result = run(spec, place, [&] { progress->add(kCapacityUnits); });
    spec.capacity.clear();
    spec.finds_least = true;
    spec.settle_count_max = 1;
    const SearchResult least = run(spec, roomy, [&] { progress->add(kLeastUnits); });
    for (SettingFacts& facts : result.settings) {
      const auto found = std::ranges::find(least.settings, facts.conf, &SettingFacts::conf);
      if (found == least.settings.end()) continue;
      facts.least_bytes = found->least_bytes;
      facts.unsettled_bytes = found->unsettled_bytes;
      facts.serves_below_bytes = found->serves_below_bytes;
      facts.pass_count += found->pass_count;
      // A fraction is of the card: of a larger one it comes to more.
      const bool is_of_card = facts.conf.find("per_process_memory_fraction") != std::string::npos;
      if (is_of_card && facts.oom_count > 0 &&
          facts.least_bytes.value_or(0) <= result.capacity_bytes)
        facts.least_bytes.reset();
    }
    // Without its least amount a setting cannot be judged.
    result.settings.resize(std::min(result.settings.size(), least.settings.size()));
    return result;
  }
};

// What the trace says of itself.
SearchResult read_job(SearchSpec spec, const SearchPlace& place) {
  SearchProgress progress("reading the job", 1);
  spec.confs.clear();
  spec.finds_least = false;
  return run_search(spec, place);
}

std::vector<VariantSearch> search_variants(const AdviceQuestion& question, const Searcher& searcher,
                                           const SearchSpec& base, const SearchResult& own) {
  const JobOptions& job = question.job;
  std::vector<JobVariant> variants = other_variants(
      base.workload, job.seed, job.seed_count > 0 ? job.seed_count : kSeedCountPreset);
  if (variants.empty()) return {};
  const SearchPlace& place = searcher.place;
  SearchSpec spec = base;
  spec.confs =
      finalists(own.settings, {.capacity_bytes = own.capacity_bytes, .count_max = kShortlistMax});
  // The same amount for all, not the same share of each one's peak.
  if (question.capacity.ends_with('x')) spec.capacity = fmt::format("{}B", own.capacity_bytes);
  SearchProgress progress("other seeds and lengths",
                          variants.size() * spec.confs.size() * (kCapacityUnits + kLeastUnits));
  std::vector<VariantSearch> others;
  for (JobVariant& variant : variants) {
    spec.workload = variant.workload;
    spec.seed = variant.seed;
    // What no seed changes has no other seeds.
    const SearchResult head = read_job(spec, place);
    if (head.trace_hash == own.trace_hash && !variant.is_worst) continue;
    SearchResult found = searcher.both(spec, &progress);
    if (place.interrupt->requested()) break;
    others.push_back({.variant = std::move(variant), .search = std::move(found)});
  }
  return distinct_searches(own, std::move(others));
}

bool can_be_served(const VariantSearch& one, const AdviceSearch& search) {
  return one.search.needed_bytes <= search.own.capacity_bytes;
}

std::vector<SettingFacts> facts_over(const AdviceSearch& search, bool with_worst) {
  std::vector<VariantSearch> kept;
  std::ranges::copy_if(search.others, std::back_inserter(kept), [&](const VariantSearch& one) {
    return can_be_served(one, search) && (with_worst || !one.variant.is_worst);
  });
  return worst_facts(search.own, kept);
}

// The settings of a framework that the job can have.
std::vector<std::string> framework_confs(const Framework& framework, const JobOptions& job) {
  std::vector<std::string> confs;
  for (const FrameworkSetting& one : framework.settings) {
    const bool is_left_out = std::ranges::any_of(job.without, [&](const std::string& word) {
      return !one.setting.empty() && (" " + one.setting).find(" " + word) != std::string::npos;
    });
    if (!is_left_out) confs.push_back(one.setting);
  }
  return confs;
}

std::vector<std::string> pytorch_confs(const SearchResult& head, const AdviceQuestion& question,
                                       const AdviceSearch& search, const std::string& allocator) {
  const JobOptions& job = question.job;
  if (!job.confs.empty()) return given_confs(job, allocator);
  // What no setting can serve needs no search: two settings show what is missing.
  const bool is_impossible = head.needed_bytes > head.capacity_bytes;
  return allowed_settings(is_impossible ? std::vector<std::string>{"", "expandable_segments:True"}
                                        : all_settings(*search.release.rules),
                          job, search.release, head.forbids);
}

}  // namespace

CellKey key_of(const AdviceSearch& search, const std::string& setting) {
  CellKey key;
  if (search.framework) {
    const FrameworkSetting& found = search.framework->at(setting);
    key.allocator = found.allocator;
    key.conf = found.conf;
  } else {
    key.allocator = allocator_of(search.release);
    key.conf = setting;
  }
  return key;
}

AdviceSearch search_job(const AdviceQuestion& question, const InterruptGuard& interrupt) {
  const JobOptions& job = question.job;
  const auto begin = std::chrono::steady_clock::now();
  Searcher searcher;
  searcher.place = {.device = question.device,
                    .program_path = own_program_path(),
                    .process_count = default_job_count(question.device),
                    .interrupt = &interrupt};
  searcher.roomy = searcher.place;
  AdviceSearch search;
  SearchSpec spec{.workload = question.workload, .seed = job.seed};
  spec.capacity = question.capacity;
  const SearchResult head = read_job(spec, searcher.place);
  searcher.roomy.device = roomy_device(question.device, head.stream_count);
  if (question.framework.empty()) {
    search.release = find_release(
        {.given = job.pytorch, .workload = workload_of(job.workload), .recorded = head.pytorch});
    spec.allocator = allocator_of(search.release);
    spec.confs = pytorch_confs(head, question, search, spec.allocator);
  } else {
    search.framework = framework_of(question.framework, head.capacity_bytes);
    searcher.framework = &*search.framework;
    spec.confs = framework_confs(*search.framework, job);
  }
  const bool is_impossible = head.needed_bytes > head.capacity_bytes;
  search.setting_count = spec.confs.size();
  search.own = head;
  if (question.capacity.ends_with("@limit")) search.limited_card_left_bytes = head.usable_bytes;
  if (!interrupt.requested()) {
    SearchProgress progress(fmt::format("searching {} settings", spec.confs.size()),
                            spec.confs.size() * (kCapacityUnits + kLeastUnits));
    search.own = searcher.both(spec, &progress);
  }
  if (!is_impossible && !interrupt.requested() && !search.own.settings.empty()) {
    search.others = search_variants(question, searcher, spec, search.own);
  }
  search.judged = facts_over(search, true);
  search.interrupted = interrupt.requested();
  search.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return search;
}

JobVerdict judge(const AdviceSearch& search, const std::vector<FinalistCost>& costs,
                 std::string_view per) {
  VerdictInput input{.settings = search.judged,
                     .costs = costs,
                     .needed_bytes = search.own.needed_bytes,
                     .capacity_bytes = search.own.capacity_bytes,
                     .per = per,
                     .takes_beforehand = search.framework.has_value()};
  JobVerdict judged{.verdict = decide(input), .warning = {}};
  for (const VariantSearch& one : search.others) {
    if (can_be_served(one, search)) continue;
    judged.warning =
        fmt::format("not safe: with {} it needs {} live, {} are there, and no setting can help",
                    one.variant.name, format_bytes(one.search.needed_bytes),
                    format_bytes(search.own.capacity_bytes));
    break;
  }
  if (judged.verdict.kind != VerdictKind::NoSetting || search.is_impossible()) return judged;
  const bool has_worst = std::ranges::any_of(search.others, [&](const VariantSearch& one) {
    return one.variant.is_worst && can_be_served(one, search);
  });
  if (!has_worst) return judged;
  const std::vector<SettingFacts> seeds = facts_over(search, false);
  input.settings = seeds;
  const SettingVerdict of_seeds = decide(input);
  if (of_seeds.kind == VerdictKind::NoSetting) return judged;
  return {.verdict = of_seeds,
          .warning = "not safe: no setting tried serves the longest lengths that the job can draw"};
}

std::string needs_spread(const std::string& conf, const AdviceSearch& search, std::uint64_t seed) {
  std::vector<VariantSearch> seeds, worst;
  for (const VariantSearch& one : search.others) {
    (one.variant.is_worst ? worst : seeds).push_back(one);
  }
  const auto range = [](const LeastSpread& spread) {
    const std::string low = spread.low_bytes ? format_bytes(*spread.low_bytes) : "?";
    const std::string high = spread.high_bytes ? format_bytes(*spread.high_bytes) : "more";
    return low == high ? low : low + " to " + high;
  };
  std::string text;
  if (!seeds.empty()) {
    const LeastSpread spread = least_spread(conf, search.own, seed, seeds);
    text = fmt::format("{} needs {} over {} seeds ({} of them served)", setting_text(conf),
                       range(spread), spread.variant_count, spread.served_count);
  }
  if (!worst.empty()) {
    SearchResult nothing;
    const LeastSpread spread = least_spread(conf, nothing, seed, worst);
    const bool served = spread.served_count == spread.variant_count;
    text += fmt::format("{} {} with the longest lengths ({})",
                        text.empty() ? setting_text(conf) + " needs" : ",", range(spread),
                        served ? "served" : "not served");
  }
  return text;
}

}  // namespace allocmark
